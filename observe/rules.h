/* SPDX-License-Identifier: PostgreSQL */
/* The rules of change: each change of a duty has exactly one; its id stands in the log, the metrics
 * and the runbook. */
#pragma once

enum rule_id {
    RULE_ACQUIRED,
    RULE_LOST,
    RULE_TAKEOVER,
    RULE_RETURNED,
    RULE_RESTARTED,
    RULE_UNKNOWN,
    RULE_COUNT,
};

struct rule {
    const char *id;       /* "takeover" */
    const char *from;     /* "vacant or led" */
    const char *to;       /* "led" */
    const char *sentence; /* "Another instance leads ..." */
};

extern const struct rule rules[RULE_COUNT];
