/* SPDX-License-Identifier: PostgreSQL */
/* What a yield came to, from hand-made readings: who holds the key, and which term is the newest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tui/guard.h"
#include "tui/yield_outcome.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int64_t start_us = INT64_C(1700000000) * SECOND_US;

struct scene {
    struct yield_target target;
    struct yield_facts facts;
    struct yield_ledger ledger;
    struct yield_lock lock;
};

static struct scene sound(void)
{
    struct scene scene = {
        .target = {.duty = "jobs/x",
                   .mechanism = MECHANISM_LOCK,
                   .key = {0, 42, 1},
                   .database = "app",
                   .owners = 1,
                   .pid = 100,
                   .backend_start_us = start_us,
                   .application_name = "a",
                   .client_addr = "10.0.0.1",
                   .generation = 9,
                   .instance = "a"},
        .facts = {.key = {0, 42, 1}, .n_locks = 1, .server = {.database = "app"}},
        .ledger = {.mechanism = "lock", .term_open = true, .previous_stopped_us = TIME_UNKNOWN},
    };
    return scene;
}

/* The holder's pid, start and name; the newest term; what that comes to. */
static const struct {
    const char *words;
    int32_t pid;
    int64_t later_us;
    const char *name;
    bool ledger;
    int64_t generation;
    const char *instance;
    bool held, settled;
    enum yield_outcome outcome;
} sights[] = {
    {"the same session", 100, 0, "a", true, 9, "a", true, false, YIELD_NOT_CONFIRMED},
    {"nobody", 0, 0, "", true, 9, "a", false, false, YIELD_VACANT},
    {"another, term begun", 101, 1, "b", true, 10, "b", false, true, YIELD_MOVED},
    {"another, term not begun", 101, 1, "b", true, 9, "a", false, false, YIELD_MOVED},
    {"the same session, a new term", 100, 0, "a", true, 10, "a", false, true, YIELD_RETURNED},
    {"the same instance, a new session", 101, 1, "z", true, 10, "a", false, true, YIELD_RETURNED},
    {"the pid was used again, by another", 100, 1, "b", true, 10, "b", false, true, YIELD_MOVED},
    {"no ledger, another name", 101, 1, "b", false, 0, "", false, true, YIELD_MOVED},
    {"no ledger, the same name", 101, 1, "a", false, 0, "", false, true, YIELD_RETURNED},
    {"no ledger, no names", 101, 1, "", false, 0, "", false, true, YIELD_MOVED},
};

static void test_outcomes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(sights); i++) {
        struct scene scene = sound();
        struct arena *arena = arena_new();
        scene.facts.locks = &scene.lock;
        scene.facts.ledger = &scene.ledger;
        scene.lock = (struct yield_lock){.objid = 42,
                                         .objsubid = 1,
                                         .exclusive = true,
                                         .granted = sights[i].pid > 0,
                                         .pid = sights[i].pid,
                                         .backend_start_us = start_us + sights[i].later_us,
                                         .application_name = sights[i].name,
                                         .client_addr = "10.0.0.1"};
        scene.ledger.generation = sights[i].generation;
        scene.ledger.term_instance = sights[i].instance;
        scene.ledger.term_pid = sights[i].generation > 9 ? sights[i].pid : 100;
        scene.ledger.term_backend_start_us =
            start_us + (sights[i].generation > 9 ? sights[i].later_us : 0);
        if (!sights[i].ledger) {
            scene.facts.ledger = NULL;
            scene.target.generation = -1;
            scene.target.instance = NULL;
        }
        struct yield_sight sight = yield_see(&scene.target, &scene.facts, arena);
        if (sight.held != sights[i].held || yield_settled(&sight) != sights[i].settled ||
            yield_judge(&sight) != sights[i].outcome)
            fail_msg("%s: held %d, settled %d, %s", sights[i].words, sight.held,
                     yield_settled(&sight), yield_outcome_names[yield_judge(&sight)]);
        arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outcomes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
