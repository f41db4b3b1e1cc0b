/* SPDX-License-Identifier: PostgreSQL */
/* The rules of change, as rows. */
#include "observe/rules.h"

const struct rule rules[RULE_COUNT] = {
    [RULE_ACQUIRED] = {"acquired", "never owned", "led", "The first owner ever seen leads."},
    [RULE_LOST] = {"lost", "led", "vacant", "The owner's session or lease ended and nobody leads."},
    [RULE_TAKEOVER] = {"takeover", "led or vacant", "led",
                       "Another instance leads, after a vacancy or directly."},
    [RULE_RETURNED] = {"returned", "led or vacant", "led",
                       "The same instance won again, in another session or another lease."},
    [RULE_RESTARTED] =
        {"restarted", "led", "led or vacant",
         "The server was restarted, or another took its place, which ended the owner's session."},
    [RULE_UNKNOWN] = {"unknown", "led or vacant", "unknown",
                      "Who leads could not be read any more, or this server became a standby."},
};
