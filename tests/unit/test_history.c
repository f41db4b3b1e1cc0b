/* SPDX-License-Identifier: PostgreSQL */
/* What history makes of a sequence of readings: which rule, and between which bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/scenario.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct scenario owners[] = {
    {
        "the first owner ever seen, after a vacancy",
        .readings = {{POLL(1)}, {POLL(2), A}},
        .told = {"acquired", {1000, 2010}, {0, 0}, NEVER, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "an observer's start is no change, and the session's start bounds the age",
        .readings = {{POLL(1), A}, {POLL(3), A}},
        .told = {"", {10, 1010}, {0, 0}, NEVER, -1, 2000, 1000, "first seen held", DUTY_LED},
    },
    {
        "an observer's start on a vacant duty is no change",
        .readings = {{POLL(1)}, {POLL(2)}},
        .told = {"", {0, 0}, {0, 0}, NEVER, -1, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "a loss lies between the two readings",
        .readings = {{POLL(1)}, {POLL(2), A}, {POLL(4)}, {POLL(5)}},
        .told = {"acquired lost", {1000, 2010}, {2000, 4010}, NEVER, 0, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "the length of a term that was seen whole is at least the inner distance",
        .readings = {{POLL(1)}, {POLL(2), A}, {POLL(3), A}, {POLL(9), A}, {POLL(10)}},
        .told =
            {"acquired lost", {1000, 2010}, {9000, 10010}, NEVER, 6990, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "a term that was first seen held has no known length",
        .readings = {{POLL(1), A}, {POLL(9), A}, {POLL(10)}},
        .told = {"lost", {10, 1010}, {9000, 10010}, NEVER, -1, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "a takeover after a vacancy that three readings saw",
        .readings = {{POLL(1), A}, {POLL(2)}, {POLL(3)}, {POLL(4)}, {POLL(5), B}},
        .told = {"lost takeover",
                 {4000, 5010},
                 {1000, 2010},
                 {1990, 4010},
                 -1,
                 0,
                 1010,
                 "seen",
                 DUTY_LED},
    },
    {
        "a takeover between two readings took from nothing to all of the time between",
        .readings = {{POLL(1), A}, {POLL(2), B}},
        .told = {"takeover", {1000, 2010}, {1000, 2010}, {0, 1010}, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "the session of the new owner began after the loss: its acquisition did too",
        .readings = {{POLL(1), A}, {POLL(2)}, {POLL(5), LED(6, 4500, "b", "10.0.0.2")}},
        .told = {"lost takeover",
                 {4500, 5010},
                 {1000, 2010},
                 {2490, 4010},
                 -1,
                 0,
                 510,
                 "seen",
                 DUTY_LED},
    },
    {
        "a session that began after the reading by some other clock bounds nothing",
        .readings = {{POLL(1)}, {POLL(2), LED(5, 9000, "a", "10.0.0.1")}},
        .told = {"acquired", {1000, 2010}, {0, 0}, NEVER, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "the same instance in another session has returned, and that is no takeover",
        .readings = {{POLL(1), A}, {POLL(2), LED(8, 1500, "a", "10.0.0.1")}},
        .told = {"returned", {1500, 2010}, {1000, 2010}, NEVER, -1, 0, 510, "seen", DUTY_LED},
    },
    {
        "the same instance after a vacancy has returned too",
        .readings = {{POLL(1), A}, {POLL(2)}, {POLL(3), LED(8, 10, "a", "10.0.0.1")}},
        .told = {"lost returned", {2000, 3010}, {1000, 2010}, NEVER, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "the same session after a vacancy has returned: it may lock again",
        .readings = {{POLL(1), A}, {POLL(2)}, {POLL(3), A}},
        .told = {"lost returned", {2000, 3010}, {1000, 2010}, NEVER, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "the same name at another address is another instance",
        .readings = {{POLL(1), A}, {POLL(2), LED(8, 10, "a", "10.9.9.9")}},
        .told = {"takeover", {1000, 2010}, {1000, 2010}, {0, 1010}, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "an address that we may not see is no sign of another instance",
        .readings = {{POLL(1), A}, {POLL(2), LED(8, 10, "a", NULL)}},
        .told = {"returned", {1000, 2010}, {1000, 2010}, NEVER, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "sessions without a name are never the same instance",
        .readings = {{POLL(1), LED(5, 10, "", "10.0.0.1")}, {POLL(2), LED(8, 10, "", "10.0.0.1")}},
        .told = {"takeover", {1000, 2010}, {1000, 2010}, {0, 1010}, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "a pid that is used again by another session is another owner",
        .readings = {{POLL(1), A}, {POLL(2), LED(5, 1700, "b", "10.0.0.1")}},
        .told = {"takeover", {1700, 2010}, {1000, 2010}, {0, 1010}, -1, 0, 310, "seen", DUTY_LED},
    },
    {
        "a start that cannot be seen any more is not a change",
        .readings = {{POLL(1)},
                     {POLL(2), A},
                     {POLL(3), LED(5, 0, "a", "10.0.0.1")},
                     {POLL(4), LED(5, 0, "a", "10.0.0.1")}},
        .told = {"acquired", {1000, 2010}, {0, 0}, NEVER, -1, 2000, 1010, "seen", DUTY_LED},
    },
    {
        "a start that becomes visible bounds an age that had no bound",
        .readings = {{POLL(1), LED(5, 0, "a", "10.0.0.1")}, {POLL(2), A}},
        .told = {"", {10, 1010}, {0, 0}, NEVER, -1, 1000, 1000, "first seen held", DUTY_LED},
    },
    {
        "without privileges an age that nobody saw begin has no upper bound",
        .readings = {{POLL(1), LED(5, 0, "a", "10.0.0.1")}, {POLL(2), LED(5, 0, "a", "10.0.0.1")}},
        .told = {"", {0, 1010}, {0, 0}, NEVER, -1, 1000, -1, "first seen held", DUTY_LED},
    },
    {
        "a pid used again while its start could not be seen: nobody knows when it changed",
        .readings = {{POLL(1), A},
                     {POLL(2), LED(5, 0, "a", "10.0.0.1")},
                     {POLL(4), LED(5, 1700, "b", "10.0.0.1")}},
        .told = {"takeover", {1700, 4010}, {0, 4010}, {0, -1}, -1, 0, 2310, "seen", DUTY_LED},
    },
    {
        "a pid used again after its start was seen for long: it changed since the last reading",
        .readings = {{POLL(1), A}, {POLL(2), A}, {POLL(3), LED(5, 2700, "b", "10.0.0.1")}},
        .told = {"takeover", {2700, 3010}, {2000, 3010}, {0, 1010}, -1, 0, 310, "seen", DUTY_LED},
    },
    {
        "privileges that come and go leave a later change its bounds",
        .readings = {{POLL(1), A},
                     {POLL(2), LED(5, 0, "a", NULL)},
                     {POLL(3), A},
                     {POLL(4), LED(5, 3700, "b", "10.0.0.1")}},
        .told = {"takeover", {3700, 4010}, {3000, 4010}, {0, 1010}, -1, 0, 310, "seen", DUTY_LED},
    },
    {
        "and so does a change that was unsure",
        .readings = {{POLL(1), A},
                     {POLL(2), LED(5, 0, "a", NULL)},
                     {POLL(3), LED(5, 1700, "b", "10.0.0.1")},
                     {POLL(4), LED(5, 3700, "c", "10.0.0.1")}},
        .told = {"takeover takeover",
                 {3700, 4010},
                 {3000, 4010},
                 {0, 1010},
                 0,
                 0,
                 310,
                 "seen",
                 DUTY_LED},
    },
    {
        "an address is remembered while it cannot be seen",
        .readings = {{POLL(1), A},
                     {POLL(2), LED(5, 0, "a", NULL)},
                     {POLL(3), LED(8, 2700, "a", "10.0.0.2")}},
        .told = {"takeover", {2700, 3010}, {2000, 3010}, {0, 1010}, -1, 0, 310, "seen", DUTY_LED},
    },
    {
        "and learnt when it can be seen",
        .readings = {{POLL(1), LED(5, 0, "a", NULL)},
                     {POLL(2), A},
                     {POLL(3), LED(8, 2700, "a", "10.0.0.2")}},
        .told = {"takeover", {2700, 3010}, {2000, 3010}, {0, 1010}, -1, 0, 310, "seen", DUTY_LED},
    },
    {
        "a session that was renamed returns under its last name",
        .readings = {{POLL(1), A},
                     {POLL(2), LED(5, 10, "z", "10.0.0.1")},
                     {POLL(3), LED(8, 2700, "z", "10.0.0.1")}},
        .told = {"returned", {2700, 3010}, {2000, 3010}, NEVER, -1, 0, 310, "seen", DUTY_LED},
    },
    {
        "another pid after a reading without starts is bounded as usual",
        .readings = {{POLL(1), A},
                     {POLL(2), LED(5, 0, "a", "10.0.0.1")},
                     {POLL(4), LED(6, 0, "b", "10.0.0.2")}},
        .told = {"takeover", {2000, 4010}, {2000, 4010}, {0, 2010}, -1, 0, 2010, "seen", DUTY_LED},
    },
    {
        "a gap is told once, and a takeover inside it has the gap's bounds",
        .readings =
            {{POLL(1), A}, {POLL(2), .unread = true}, {POLL(3), .unread = true}, {POLL(9), B}},
        .told = {"unknown takeover",
                 {1000, 9010},
                 {1000, 9010},
                 {0, 8010},
                 -1,
                 0,
                 8010,
                 "seen",
                 DUTY_LED},
    },
    {
        "the same owner on both sides of a gap has not changed",
        .readings = {{POLL(1), A}, {POLL(2), .unread = true}, {POLL(3), A}},
        .told = {"unknown", {10, 1010}, {0, 0}, NEVER, -1, 2000, 1000, "first seen held", DUTY_LED},
    },
    {
        "a second gap is told again",
        .readings = {{POLL(1)}, {POLL(2), .unread = true}, {POLL(3)}, {POLL(4), .unread = true}},
        .told = {"unknown unknown", {0, 0}, {0, 0}, NEVER, -1, -1, -1, NULL, DUTY_UNKNOWN},
    },
    {
        "a duty that was never read has not become unknown; its first reading is a first sight",
        .readings = {{POLL(1), .unread = true}, {POLL(2), .unread = true}, {POLL(3), A}},
        .told = {"", {10, 3010}, {0, 0}, NEVER, -1, 0, 3000, "first seen held", DUTY_LED},
    },
    {
        "a standby that is promoted: locks of before the promotion were never read",
        .readings = {{POLL(1), .unread = true}, {POLL(2)}, {POLL(3), B}},
        .told = {"acquired", {2000, 3010}, {0, 0}, NEVER, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "a duty that gets another key is a new duty",
        .readings = {{POLL(1), A}, {POLL(2), B, .key = 77}},
        .told = {"", {20, 2010}, {0, 0}, NEVER, -1, 0, 1990, "first seen held", DUTY_LED},
    },
    {
        "a duty that was not listed for a poll is a new duty",
        .readings = {{POLL(1), A}, {POLL(2), .missing = true}, {POLL(3), B}},
        .told = {"", {20, 3010}, {0, 0}, NEVER, -1, 0, 2990, "first seen held", DUTY_LED},
    },
};

static const struct scenario restarts_and_clocks[] = {
    {
        "a restart ends the owner's session, and the duty is vacant",
        .readings = {{POLL(1), A}, {POLL(3), .boot = 2500}},
        .told = {"restarted", {10, 1010}, {1000, 3010}, NEVER, -1, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "after a restart the same instance leads: one change, restarted",
        .readings = {{POLL(1), A}, {POLL(3), LED(5, 2600, "a", "10.0.0.1"), .boot = 2500}},
        .told = {"restarted", {2600, 3010}, {1000, 3010}, NEVER, -1, 0, 410, "seen", DUTY_LED},
    },
    {
        "after a restart the same pid is another session also where no start can be seen",
        .readings = {{POLL(1), LED(5, 0, "a", "10.0.0.1")},
                     {POLL(3), LED(5, 0, "a", "10.0.0.1"), .boot = 2500}},
        .told = {"restarted", {1000, 3010}, {1000, 3010}, NEVER, -1, 0, 2010, "seen", DUTY_LED},
    },
    {
        "after a restart another instance leads: a takeover",
        .readings = {{POLL(1), A}, {POLL(3), LED(6, 2600, "b", "10.0.0.2"), .boot = 2500}},
        .told = {"takeover", {2600, 3010}, {1000, 3010}, {0, 2010}, -1, 0, 410, "seen", DUTY_LED},
    },
    {
        "a restart during a vacancy is no change of the duty",
        .readings = {{POLL(1), A},
                     {POLL(2)},
                     {POLL(4), .boot = 3500},
                     {POLL(5), LED(5, 10, "a", "10.0.0.1"), .boot = 3500}},
        .told = {"lost returned", {4000, 5010}, {1000, 2010}, NEVER, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "a restart inside a gap is still seen at its end",
        .readings = {{POLL(1), A},
                     {POLL(3), .unread = true, .boot = 2500},
                     {POLL(4), .boot = 2500}},
        .told =
            {"unknown restarted", {10, 1010}, {1000, 4010}, NEVER, -1, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "another server that ran already has another clock: only its own readings are bounds",
        .readings = {{POLL(5), LED(5, 10, "a", "10.0.0.1"), .boot = 1},
                     {POLL(6), .boot = 2000},
                     {POLL(7), .boot = 2000},
                     {POLL(8), LED(6, 20, "b", "10.0.0.2"), .boot = 2000}},
        .told = {"restarted takeover",
                 {7000, 8010},
                 {0, 6010},
                 {990, -1},
                 -1,
                 0,
                 1010,
                 "seen",
                 DUTY_LED},
    },
    {
        "a clock that was set back makes no takeover long: a direct one",
        .readings = {{POLL(600), A}, {POLL(2), B}},
        .told = {"takeover", {0, 2010}, {0, 2010}, {0, -1}, -1, 0, -1, "seen", DUTY_LED},
    },
    {
        "a clock that was set back during a vacancy makes no takeover short",
        .readings = {{POLL(600), A}, {POLL(601)}, {POLL(2)}, {POLL(3), B}},
        .told = {"lost takeover", {2000, 3010}, {0, 0}, {0, -1}, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "a clock that was set back under an owner leaves an age of at least 0",
        .readings = {{POLL(600)}, {POLL(601), A}, {POLL(2), A}, {POLL(3), A}},
        .told = {"acquired", {0, 2010}, {0, 0}, NEVER, -1, 1000, -1, "first seen held", DUTY_LED},
    },
};

static void test_owners(void **state)
{
    (void)state;
    assert_int_equal(scenarios_check(owners, COUNT(owners)), 0);
}

static void test_restarts_and_clocks(void **state)
{
    (void)state;
    assert_int_equal(scenarios_check(restarts_and_clocks, COUNT(restarts_and_clocks)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_owners),
        cmocka_unit_test(test_restarts_and_clocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
