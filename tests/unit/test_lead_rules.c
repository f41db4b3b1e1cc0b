/* SPDX-License-Identifier: PostgreSQL */
/* The state machine of a candidate: every row, and that nothing else moves it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "candidate/rules.h"

/* From each state, where each event leads; LEAD_STATES: nowhere. */
static const enum lead_state expected[LEAD_STATES][LEAD_EVENTS] = {
    [LEAD_FOLLOWER] = {LEAD_ACQUIRING, LEAD_STATES, LEAD_STATES, LEAD_STATES, LEAD_STATES,
                       LEAD_STATES, LEAD_STATES, LEAD_STATES, LEAD_STATES, LEAD_STATES, LEAD_STATES,
                       LEAD_STATES},
    [LEAD_ACQUIRING] = {LEAD_STATES, LEAD_FOLLOWER, LEAD_FOLLOWER, LEAD_LEADER, LEAD_STATES,
                        LEAD_FOLLOWER, LEAD_FOLLOWER, LEAD_FOLLOWER, LEAD_STATES, LEAD_STATES,
                        LEAD_STATES, LEAD_FOLLOWER},
    [LEAD_LEADER] = {LEAD_STATES, LEAD_STATES, LEAD_STATES, LEAD_STATES, LEAD_YIELDING,
                     LEAD_YIELDING, LEAD_YIELDING, LEAD_UNCERTAIN, LEAD_UNCERTAIN, LEAD_UNCERTAIN,
                     LEAD_STATES, LEAD_STATES},
    [LEAD_YIELDING] = {LEAD_STATES, LEAD_STATES, LEAD_STATES, LEAD_STATES, LEAD_STATES, LEAD_STATES,
                       LEAD_STATES, LEAD_UNCERTAIN, LEAD_UNCERTAIN, LEAD_UNCERTAIN, LEAD_FOLLOWER,
                       LEAD_STATES},
    [LEAD_UNCERTAIN] = {LEAD_STATES, LEAD_STATES, LEAD_STATES, LEAD_STATES, LEAD_STATES,
                        LEAD_STATES, LEAD_STATES, LEAD_STATES, LEAD_STATES, LEAD_STATES,
                        LEAD_FOLLOWER, LEAD_STATES},
};

static void test_every_event_in_every_state(void **state)
{
    (void)state;
    for (int from = 0; from < LEAD_STATES; from++) {
        for (int event = 0; event < LEAD_EVENTS; event++) {
            const struct lead_rule *rule =
                lead_rule_find((enum lead_state)from, (enum lead_event)event);
            enum lead_state to = rule ? rule->to : LEAD_STATES;
            if (to != expected[from][event])
                fail_msg("event %d in state %s leads to %d", event,
                         lead_state_name((enum lead_state)from), to);
        }
    }
}

static void test_ids_are_unique_and_sentences_end(void **state)
{
    (void)state;
    for (const struct lead_rule *a = lead_rules; a->id; a++) {
        assert_int_equal(a->sentence[strlen(a->sentence) - 1], '.');
        for (const struct lead_rule *b = a + 1; b->id; b++) {
            assert_string_not_equal(a->id, b->id);
            assert_false(a->from == b->from && a->event == b->event);
        }
    }
}

/* Whoever is in doubt, or is giving up, starts nothing new; and nobody leads but by "granted". */
static void test_only_a_leader_may_work(void **state)
{
    (void)state;
    for (int s = 0; s < LEAD_STATES; s++)
        assert_int_equal(lead_state_may_work((enum lead_state)s), s == LEAD_LEADER);
    for (const struct lead_rule *rule = lead_rules; rule->id; rule++)
        assert_true(rule->to != LEAD_LEADER || rule->event == EVENT_GRANTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_event_in_every_state),
        cmocka_unit_test(test_ids_are_unique_and_sentences_end),
        cmocka_unit_test(test_only_a_leader_may_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
