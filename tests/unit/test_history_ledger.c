/* SPDX-License-Identifier: PostgreSQL */
/* What the ledger adds to the readings: it sharpens bounds, and replaces none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/scenario.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct scenario acquisitions[] = {
    {
        "a term that began after the grant bounds the acquisition from above",
        .readings = {{POLL(1), A}, {POLL(2), B, .term = {2, 6, 20, 1400, .instance = "b"}}},
        .told = {"takeover", {1000, 1400}, {1000, 2010}, {0, 400}, -1, 610, 0, "ledger", DUTY_LED},
    },
    {
        "a term that is read one poll later sharpens as well",
        .readings = {{POLL(1), A},
                     {POLL(2), B},
                     {POLL(3), B, .term = {2, 6, 20, 1400, .instance = "b"}},
                     {POLL(4), B, .term = {2, 6, 20, 1400, .instance = "b"}}},
        .told = {"takeover", {1000, 1400}, {1000, 2010}, {0, 400}, -1, 2610, 0, "ledger", DUTY_LED},
    },
    {
        "what the ledger said stays true when it cannot be read for a while",
        .readings = {{POLL(1), A},
                     {POLL(2), B, .term = {2, 6, 20, 1400, .instance = "b"}},
                     {POLL(3), B}},
        .told = {"takeover", {1000, 1400}, {1000, 2010}, {0, 400}, -1, 1610, 400, "seen", DUTY_LED},
    },
    {
        "a term begun long after the lock was seen held does not make its owner young",
        .readings = {{POLL(1), A},
                     {POLL(2), B},
                     {POLL(60), B, .term = {2, 6, 20, 59000, .instance = "b"}}},
        .told =
            {"takeover", {1000, 2010}, {1000, 2010}, {0, 1010}, -1, 58000, 1010, "seen", DUTY_LED},
    },
    {
        "nor where it was first seen held",
        .readings = {{POLL(2), B}, {POLL(60), B, .term = {2, 6, 20, 59000, .instance = "b"}}},
        .told = {"", {20, 2010}, {0, 0}, NEVER, -1, 58000, 1990, "first seen held", DUTY_LED},
    },
    {
        "a term of an earlier tenure of the same session is not of this one",
        .readings = {{POLL(5), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(6), B, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(7), A, .term = {1, 5, 10, 500, .instance = "a"}}},
        .told = {"takeover takeover",
                 {6000, 7010},
                 {6000, 7010},
                 {0, 1010},
                 0,
                 0,
                 1010,
                 "seen",
                 DUTY_LED},
    },
    {
        "an observer that has just started reads the acquisition in the ledger",
        .readings = {{POLL(60), B, .term = {2, 6, 20, 1400, .instance = "b"}}},
        .told = {"", {20, 1400}, {0, 0}, NEVER, -1, 58610, 0, "ledger", DUTY_LED},
    },
    {
        "and keeps it as a bound where the ledger cannot be read any more",
        .readings = {{POLL(60), B, .term = {2, 6, 20, 1400, .instance = "b"}}, {POLL(61), B}},
        .told = {"", {20, 1400}, {0, 0}, NEVER, -1, 59610, 1380, "first seen held", DUTY_LED},
    },
    {
        "the open term of a session that is gone is not believed",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(2), B, .term = {1, 5, 10, 500, .instance = "a"}}},
        .told = {"takeover", {1000, 2010}, {1000, 2010}, {0, 1010}, 500, 0, 1010, "seen", DUTY_LED},
    },
    {
        "a term of the same pid and another start is not believed",
        .readings = {{POLL(1)}, {POLL(2), A, .term = {1, 5, 9, 1500, .instance = "a"}}},
        .told = {"acquired", {1000, 2010}, {0, 0}, NEVER, -1, 0, 1010, "seen", DUTY_LED},
    },
};

static const struct scenario losses[] = {
    {
        "an owner that ended its term bounds the loss from below",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(2), .term = {1, 5, 10, 500, .ended = 1800, .reason = "shutdown"}}},
        .told = {"lost", {10, 500}, {1800, 2010}, NEVER, 1300, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "also where that is read only later, and then the takeover is sharper",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(2)},
                     {POLL(3), B, .term = {2, 6, 20, 2700, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 1800, .reason = "shutdown"}}},
        .told = {"lost takeover",
                 {2000, 2700},
                 {1800, 2010},
                 {0, 900},
                 1300,
                 310,
                 0,
                 "ledger",
                 DUTY_LED},
    },
    {
        "or while it is still vacant",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(2)},
                     {POLL(3), .term = {1, 5, 10, 500, .ended = 1800, .reason = "shutdown"}}},
        .told = {"lost", {10, 500}, {1800, 2010}, NEVER, 1300, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "an end that is older than the reading which saw it held bounds nothing",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .ended = 900, .reason = "shutdown"}},
                     {POLL(2), .term = {1, 5, 10, 500, .ended = 900, .reason = "shutdown"}}},
        .told = {"lost", {10, 1010}, {1000, 2010}, NEVER, 400, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "an end by a session whose start nobody can see may be another session's",
        .readings = {{POLL(1), LED(5, 0, "a", NULL)},
                     {POLL(2), .term = {1, 5, 0, 500, .ended = 1800, .reason = "shutdown"}}},
        .told = {"lost", {0, 1010}, {1000, 2010}, NEVER, -1, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "an end by another server's clock bounds nothing",
        .readings = {{POLL(5), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(7), .boot = 2000,
                      .term = {1, 5, 10, 500, .ended = 5500, .reason = "shutdown"}},
                     {POLL(8), B, .boot = 2000,
                      .term = {2, 6, 20, 7500, .refused = 5400, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 5500, .reason = "shutdown"}}},
        .told = {"restarted takeover",
                 {7000, 7500},
                 {0, 7010},
                 {0, -1},
                 -1,
                 510,
                 0,
                 "ledger",
                 DUTY_LED},
    },
    {
        "a term that was read only when its session was gone is known as its own",
        .readings = {{POLL(1), A},
                     {POLL(3), .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(4), B, .term = {2, 6, 20, 3700, .refused = 2400, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 3700, .reason = "superseded"}}},
        .told = {"lost takeover",
                 {3000, 3700},
                 {2400, 3010},
                 {0, 1300},
                 -1,
                 310,
                 0,
                 "ledger",
                 DUTY_LED},
    },
    {
        "a restart during the vacancy takes nothing from what was refused before it",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(3), .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(5), LED(6, 4500, "b", "10.0.0.2"), .boot = 4000,
                      .term = {2, 6, 4500, 4700, .refused = 2400, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 4700, .reason = "superseded"}}},
        .told = {"lost takeover",
                 {4500, 4700},
                 {2400, 3010},
                 {1490, 2300},
                 500,
                 310,
                 0,
                 "ledger",
                 DUTY_LED},
    },
    {
        "a term that its successor superseded says nothing of the loss",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(3), B, .term = {2, 6, 20, 2700, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 2700, .reason = "superseded"}}},
        .told =
            {"takeover", {1000, 2700}, {1000, 3010}, {0, 1700}, 500, 310, 0, "ledger", DUTY_LED},
    },
    {
        "the end of a term that lay between is not the end of the one that was seen",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(9), B, .term = {30, 6, 20, 8700, .refused = 8500, .instance = "b"},
                      .previous = {20, .acquired = 3000, .ended = 8000, .reason = "shutdown"}},
                     {POLL(10), B, .term = {30, 6, 20, 8700, .refused = 8500, .instance = "b"},
                      .previous = {20, .acquired = 3000, .ended = 8000, .reason = "shutdown"}}},
        .told =
            {"takeover", {1000, 8700}, {1000, 9010}, {0, 7700}, 500, 1310, 0, "ledger", DUTY_LED},
    },
    {
        "a refusal says that it was still held, where no term lay between; generations may jump",
        .readings = {{POLL(1), A, .term = {100, 5, 10, 500, .instance = "a"}},
                     {POLL(3), B, .term = {900, 6, 20, 2700, .refused = 2400, .instance = "b"},
                      .previous = {100, .acquired = 500, .ended = 2700, .reason = "superseded"}}},
        .told =
            {"takeover", {1000, 2700}, {2400, 3010}, {0, 300}, 1900, 310, 0, "ledger", DUTY_LED},
    },
    {
        "a refusal counts also where its term is read a poll later",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(3), B},
                     {POLL(4), B, .term = {2, 6, 20, 2700, .refused = 2400, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 2700, .reason = "superseded"}}},
        .told =
            {"takeover", {1000, 2700}, {2400, 3010}, {0, 300}, 500, 1310, 0, "ledger", DUTY_LED},
    },
    {
        "a refusal after the duty was seen vacant was by somebody whom nobody saw",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(2), .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(9), B, .term = {2, 6, 20, 8700, .refused = 8400, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 8700, .reason = "superseded"}}},
        .told = {"lost takeover",
                 {2000, 8700},
                 {1000, 2010},
                 {0, 7700},
                 500,
                 310,
                 0,
                 "ledger",
                 DUTY_LED},
    },
    {
        "a refusal by an owner without a term, seen between, is not the loss of the term before",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(2), C, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(4), B, .term = {2, 6, 20, 3700, .refused = 3400, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 3700, .reason = "superseded"}}},
        .told = {"takeover takeover",
                 {2000, 3700},
                 {2000, 4010},
                 {0, 1700},
                 0,
                 310,
                 0,
                 "ledger",
                 DUTY_LED},
    },
    {
        "a refusal over a restart may be another server's",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(4), LED(6, 2100, "b", "10.0.0.2"), .boot = 2000,
                      .term = {2, 6, 2100, 3700, .refused = 3400, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 3700, .reason = "superseded"}}},
        .told =
            {"takeover", {2100, 3700}, {1000, 4010}, {0, 2700}, 500, 310, 0, "ledger", DUTY_LED},
    },
    {
        "a refusal that is older than the server is another server's",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(3), .boot = 2000},
                     {POLL(4), LED(6, 2100, "b", "10.0.0.2"), .boot = 2000,
                      .term = {2, 6, 2100, 3700, .refused = 1900, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 3700, .reason = "superseded"}}},
        .told = {"restarted takeover",
                 {3000, 3700},
                 {1000, 3010},
                 {0, 2700},
                 500,
                 310,
                 0,
                 "ledger",
                 DUTY_LED},
    },
    {
        "the exporter's own restart: the ledger tells of the last takeover",
        .readings = {{POLL(60), B, .term = {2, 6, 20, 1400, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 1300, .reason = "shutdown",
                                   .instance = "a"}}},
        .told = {"", {20, 1400}, {0, 0}, {0, 100}, 800, 58610, 0, "ledger", DUTY_LED},
    },
    {
        "or its refusal, where the owner before did not end its term",
        .readings = {{POLL(60), B, .term = {2, 6, 20, 1400, .refused = 1150, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 1400, .reason = "superseded",
                                   .instance = "a"}}},
        .told = {"", {20, 1400}, {0, 0}, {0, 250}, -1, 58610, 0, "ledger", DUTY_LED},
    },
    {
        "but not while its own term is not begun",
        .readings = {{POLL(60), B, .term = {2, 9, 20, 1400, .instance = "z"},
                      .previous = {1, .acquired = 500, .ended = 1300, .reason = "shutdown",
                                   .instance = "a"}}},
        .told = {"", {20, 60010}, {0, 0}, NEVER, 800, 0, 59990, "first seen held", DUTY_LED},
    },
    {
        "but not a refusal that is older than the server",
        .readings = {{POLL(60), LED(6, 20, "b", "10.0.0.2"), .boot = 1200,
                      .term = {2, 6, 20, 1400, .refused = 1150, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 1400, .reason = "superseded",
                                   .instance = "a"}}},
        .told = {"", {20, 1400}, {0, 0}, NEVER, -1, 58610, 0, "ledger", DUTY_LED},
    },
    {
        "and not where the same instance led before",
        .readings = {{POLL(60), B, .term = {2, 6, 20, 1400, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 1300, .reason = "shutdown",
                                   .instance = "b"}}},
        .told = {"", {20, 1400}, {0, 0}, NEVER, 800, 58610, 0, "ledger", DUTY_LED},
    },
    {
        "a takeover that was seen is not replaced by one that is recorded",
        .readings = {{POLL(1), A},
                     {POLL(3), B},
                     {POLL(4), B, .term = {9, 6, 20, 2900, .instance = "b"},
                      .previous = {8, .acquired = 500, .ended = 700, .reason = "shutdown",
                                   .instance = "x"}}},
        .told =
            {"takeover", {1000, 2900}, {1000, 3010}, {0, 1900}, -1, 1110, 0, "ledger", DUTY_LED},
    },
    {
        "a vacant duty's last term is read in the ledger by an observer that has just started",
        .readings = {{POLL(60), .term = {1, 5, 10, 500, .ended = 900, .reason = "shutdown"}}},
        .told = {"", {0, 0}, {0, 0}, NEVER, 400, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "an old recorded term is not the length of a later one without a term",
        .readings = {{POLL(1), .term = {1, 9, 10, 500, .ended = 900, .reason = "shutdown"}},
                     {POLL(2), A, .term = {1, 9, 10, 500, .ended = 900, .reason = "shutdown"}},
                     {POLL(60), A, .term = {1, 9, 10, 500, .ended = 900, .reason = "shutdown"}},
                     {POLL(61), .term = {1, 9, 10, 500, .ended = 900, .reason = "shutdown"}}},
        .told = {"acquired lost",
                 {1000, 2010},
                 {60000, 61010},
                 NEVER,
                 57990,
                 -1,
                 -1,
                 NULL,
                 DUTY_VACANT},
    },
};

static const struct scenario contested[] = {
    {
        "a live session whose term another's lock contradicts, once, may be a moment's difference",
        .readings = {{POLL(1), B}, {POLL(2), B, .term = {1, 5, 10, 500}, .alive = true}},
        .told = {"", {20, 1010}, {0, 0}, NEVER, -1, 1000, 990, "first seen held", DUTY_LED},
    },
    {
        "the same pair in two polls running is contested",
        .readings = {{POLL(1), B, .term = {1, 5, 10, 500}, .alive = true},
                     {POLL(2), B, .term = {1, 5, 10, 500}, .alive = true}},
        .told = {"", {20, 1010}, {0, 0}, NEVER, -1, 1000, 990, "first seen held", DUTY_CONTESTED},
    },
    {
        "another owner is another pair",
        .readings = {{POLL(1), B, .term = {1, 5, 10, 500}, .alive = true},
                     {POLL(2), C, .term = {1, 5, 10, 500}, .alive = true}},
        .told = {"takeover", {1000, 2010}, {1000, 2010}, {0, 1010}, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "another term is another pair",
        .readings = {{POLL(1), B, .term = {1, 5, 10, 500}, .alive = true},
                     {POLL(2), B, .term = {2, 8, 10, 500}, .alive = true}},
        .told = {"", {20, 1010}, {0, 0}, NEVER, -1, 1000, 990, "first seen held", DUTY_LED},
    },
    {
        "polls with a gap between are not running",
        .readings = {{POLL(1), B, .term = {1, 5, 10, 500}, .alive = true},
                     {POLL(2), .unread = true},
                     {POLL(3), B, .term = {1, 5, 10, 500}, .alive = true}},
        .told = {"unknown", {20, 1010}, {0, 0}, NEVER, -1, 2000, 990, "first seen held", DUTY_LED},
    },
};

static void test_acquisitions(void **state)
{
    (void)state;
    assert_int_equal(scenarios_check(acquisitions, COUNT(acquisitions)), 0);
}

static void test_losses(void **state)
{
    (void)state;
    assert_int_equal(scenarios_check(losses, COUNT(losses)), 0);
}

static void test_contested(void **state)
{
    (void)state;
    assert_int_equal(scenarios_check(contested, COUNT(contested)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_acquisitions),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_contested),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
