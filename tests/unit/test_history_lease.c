/* SPDX-License-Identifier: PostgreSQL */
/* What history makes of the readings of a lease's row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/scenario.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct scenario leases[] = {
    {
        "a lease that ran out was lost when its row says",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 3500},
         {POLL(2), .name = "a", .expires = 4500},
         {POLL(5), .name = "a", .expires = 4500}},
        {"lost", {0, 1010}, {4500, 5010}, NEVER, -1, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "a lease that was renewed and then ran out inside a gap: the row of now counts",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 3500}, {POLL(9), .name = "a", .expires = 7700}},
        {"lost", {0, 1010}, {7700, 9010}, NEVER, -1, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "a lease that another has now may have been released before it would have run out",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 4000}, {POLL(9), .name = "b", .expires = 20000}},
        {"takeover", {1000, 9010}, {1000, 9010}, {0, 8010}, -1, 0, 8010, "seen", DUTY_LED},
    },
    {
        "a lease that is renewed has not changed",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 4000}, {POLL(3), .name = "a", .expires = 6000}},
        {"", {0, 1010}, {0, 0}, NEVER, -1, 2000, -1, "first seen held", DUTY_LED},
    },
    {
        "the same holder with another acquisition has returned",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 4000, .acquired = 500},
         {POLL(8), .name = "a", .expires = 9000, .acquired = 7100}},
        {"returned", {7100, 8010}, {1000, 8010}, NEVER, 500, 910, 0, "lease", DUTY_LED},
    },
    {
        "an acquisition time that becomes visible is no change",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 4000},
         {POLL(2), .name = "a", .expires = 5000, .acquired = 500}},
        {"", {500, 1010}, {0, 0}, NEVER, -1, 1510, 0, "lease", DUTY_LED},
    },
    {
        "a lease that ran out and was taken again by the same holder between two readings, where "
        "the row has no acquisition time, cannot be told from one that was held",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 2000}, {POLL(8), .name = "a", .expires = 9000}},
        {"", {0, 1010}, {0, 0}, NEVER, -1, 7000, -1, "first seen held", DUTY_LED},
    },
    {
        "a lease's own acquisition precedes the commit that made it visible",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 1500},
         {POLL(2), .name = "a", .expires = 1500},
         {POLL(3), .name = "b", .expires = 9000, .acquired = 2600}},
        {"lost takeover", {2600, 3010}, {1500, 2010}, {590, 1510}, -1, 410, 0, "lease", DUTY_LED},
    },
    {
        "an acquisition of before the vacancy that was seen is not of this lease",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 1500, .acquired = 500},
         {POLL(2), .name = "a", .expires = 1500, .acquired = 500},
         {POLL(3), .name = "a", .expires = 9000, .acquired = 500}},
        {"lost returned", {2000, 3010}, {1500, 2010}, NEVER, 1000, 0, 1010, "seen", DUTY_LED},
    },
    {
        "an acquisition in the future is some other clock's",
        MECHANISM_LEASE,
        {{POLL(1)}, {POLL(2), .name = "a", .expires = 9000, .acquired = 5000}},
        {"acquired", {1000, 2010}, {0, 0}, NEVER, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "a lease outlives the server's restart",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 9000},
         {POLL(4), .name = "a", .expires = 9000, .boot = 3000}},
        {"", {0, 1010}, {0, 0}, NEVER, -1, 3000, -1, "first seen held", DUTY_LED},
    },
    {
        "a lease that ran out while the server restarted was lost, not restarted",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 2000},
         {POLL(4), .name = "a", .expires = 2000, .boot = 3000}},
        {"lost", {0, 1010}, {2000, 4010}, NEVER, -1, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "a lease taken again by its holder over a restart has returned",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 2000, .acquired = 500},
         {POLL(4), .name = "a", .expires = 9000, .acquired = 3500, .boot = 3000}},
        {"returned", {3500, 4010}, {1000, 4010}, NEVER, 500, 510, 0, "lease", DUTY_LED},
    },
    {
        "a term ended by the holder of a lease that had not run out bounds the loss",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 4000, .term = {1, .acquired = 500, .instance = "a"}},
         {POLL(3), .name = "b", .expires = 9000, .term = {2, .acquired = 2500, .instance = "b"},
          .previous = {1, .acquired = 500, .ended = 2000, .reason = "released"}}},
        {"takeover", {2500, 3010}, {2000, 3010}, {0, 1010}, 1500, 510, 0, "ledger", DUTY_LED},
    },
    {
        "a term ended by the holder of a lease that may have run out before bounds nothing",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 1700, .term = {1, .acquired = 500, .instance = "a"}},
         {POLL(3), .name = "b", .expires = 9000, .term = {2, .acquired = 2500, .instance = "b"},
          .previous = {1, .acquired = 500, .ended = 2000, .reason = "released"}}},
        {"takeover", {2500, 3010}, {1000, 3010}, {0, 2010}, 1500, 510, 0, "ledger", DUTY_LED},
    },
    {
        "an observer that has just started does not take a late end for the loss of a lease",
        MECHANISM_LEASE,
        {{POLL(60), .name = "b", .expires = 99000, .term = {2, .acquired = 2500, .instance = "b"},
          .previous = {1, .acquired = 500, .ended = 2000, .reason = "released", .instance = "a"}}},
        {"", {2500, 60010}, {0, 0}, NEVER, 1500, 57510, 0, "ledger", DUTY_LED},
    },
};

static void test_leases(void **state)
{
    (void)state;
    assert_int_equal(scenarios_check(leases, COUNT(leases)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
