/* SPDX-License-Identifier: PostgreSQL */
/* Which sections a poll asks: the healthy first, the failing in turns, none beyond the time there
 * is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "observe/plan.h"

enum { TABLES = 12 };

struct scene {
    struct probes probes;
    struct identity *identity;
    struct roles *roles;
    struct plan plan;
    int64_t now_us;
};

/* A server without a ledger, with that many lease tables. */
static int set_up(void **state)
{
    struct scene *scene = xcalloc(1, sizeof *scene);
    probes_init(&scene->probes);
    scene->identity = identity_new();
    scene->roles = roles_new();
    plan_init(&scene->plan);
    for (int i = 0; i < TABLES; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "t%d", i);
        (void)probes_lease(&scene->probes, name, name);
    }
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;
    probes_done(&scene->probes);
    identity_free(scene->identity);
    roles_free(scene->roles);
    plan_done(&scene->plan);
    free(scene);
    return 0;
}

static void make(struct scene *scene)
{
    const struct plan_needs needs = {.probes = &scene->probes,
                                     .identity = scene->identity,
                                     .roles = scene->roles,
                                     .open_pids = "{}"};
    plan_begin(&scene->plan, scene->now_us);
    for (size_t i = PROBE_FIXED; i < scene->probes.n; i++)
        scene->probes.items[i].wanted = true;
    plan_make(&scene->plan, &needs);
}

static void note(struct scene *scene, size_t table, const char *sqlstate)
{
    struct error err = {.kind = ERROR_QUERY, .message = "why"};
    if (sqlstate)
        (void)snprintf(err.sqlstate, sizeof err.sqlstate, "%s", sqlstate);
    probes_note(&scene->probes, PROBE_FIXED + table, sqlstate ? &err : NULL, scene->now_us);
}

static size_t planned_tables(const struct scene *scene)
{
    size_t n = 0;
    for (size_t i = PROBE_FIXED; i < scene->probes.n; i++)
        n += scene->probes.items[i].planned;
    return n;
}

static bool is_planned(const struct scene *scene, size_t table)
{
    return scene->probes.items[PROBE_FIXED + table].planned;
}

static void test_healthy(void **state)
{
    struct scene *scene = *state;
    make(scene);
    assert_string_equal(scene->plan.sections[0].name, "server");
    assert_string_equal(scene->plan.sections[1].name, "locks");
    assert_int_equal(planned_tables(scene), TABLES);
    for (size_t i = 0; i < scene->plan.n; i++) {
        assert_true(scene->plan.sections[i].lock_timeout_us > 0);
        assert_true(scene->plan.sections[i].statement_timeout_us > 0);
        assert_string_not_equal(scene->plan.sections[i].name, "ledger");
        assert_string_not_equal(scene->plan.sections[i].name, "roles");
    }
}

/* What each failure costs, and so how many that failed so share a poll. */
static void test_share(void **state)
{
    static const struct {
        const char *sqlstate;
        size_t together;
    } rows[] = {{"57014", 1}, {"55P03", 5}, {"42P01", TABLES}};
    struct scene *scene = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t table = 0; table < TABLES; table++) {
            note(scene, table, NULL);
            note(scene, table, rows[i].sqlstate);
        }
        make(scene);
        assert_int_equal(planned_tables(scene), rows[i].together);
    }
}

/* The failing take turns, behind one that is well. */
static void test_turns(void **state)
{
    struct scene *scene = *state;
    bool asked[TABLES] = {false};
    for (size_t table = 1; table < TABLES; table++)
        note(scene, table, "55P03");
    for (int poll = 0; poll < 3; poll++) {
        make(scene);
        assert_true(is_planned(scene, 0));
        for (size_t table = 1; table < TABLES; table++) {
            asked[table] = asked[table] || is_planned(scene, table);
            if (is_planned(scene, table))
                assert_true(scene->probes.items[PROBE_FIXED + table].position >
                            scene->probes.items[PROBE_FIXED].position);
        }
    }
    for (size_t table = 1; table < TABLES; table++)
        assert_true(asked[table]);
}

/* Once they are read again, ever more of them are asked. */
static void test_share_grows(void **state)
{
    static const size_t together[] = {5, 7};
    struct scene *scene = *state;
    for (size_t table = 0; table < TABLES; table++)
        note(scene, table, "55P03");
    for (size_t poll = 0; poll < 2; poll++) {
        size_t failing = 0;
        make(scene);
        for (size_t table = 0; table < TABLES; table++) {
            failing +=
                is_planned(scene, table) && scene->probes.items[PROBE_FIXED + table].failures > 0;
            if (is_planned(scene, table))
                note(scene, table, NULL);
        }
        assert_int_equal(failing, together[poll]);
        plan_note(&scene->plan, false, true);
    }
    plan_note(&scene->plan, true, false);
    assert_int_equal(scene->plan.share_us, SECOND_US);
}

/* After three failures in a row a section pauses; the two that every picture needs never do. */
static void test_pause(void **state)
{
    struct scene *scene = *state;
    const struct error err = {.kind = ERROR_QUERY, .sqlstate = "57014", .message = "why"};
    for (int i = 0; i < 3; i++) {
        note(scene, 0, "42P01");
        probes_note(&scene->probes, PROBE_LOCKS, &err, scene->now_us);
        probes_note(&scene->probes, PROBE_SERVER, &err, scene->now_us);
    }
    make(scene);
    assert_false(is_planned(scene, 0));
    assert_string_equal(scene->plan.sections[0].name, "server");
    assert_string_equal(scene->plan.sections[1].name, "locks");
    scene->now_us += 5 * SECOND_US;
    make(scene);
    assert_true(is_planned(scene, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_healthy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_share, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_share_grows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pause, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
