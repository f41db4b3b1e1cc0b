/* SPDX-License-Identifier: PostgreSQL */
/* One reading of pg_locks, made by hand: which locks are ours, whose they are, and how many
 * instances are candidates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "observe/candidates.h"
#include "observe/sessions.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { OURS = 5, OTHER = 6, START = 1000 };

/* A session of our database without a lock, unless more is said. */
#define SESSION(pid_, name_, address_)                                                             \
    .objsubid = -1, .classid = -1, .objid = -1, .lock_database = -1, .pid = (pid_),                \
    .session_database = OURS, .application_name = (name_), .client_addr = (address_),              \
    .backend_start_us = START + (pid_)

/* A lock of our database, and its session. */
#define LOCK(class_, obj_, sub_, pid_, granted_)                                                   \
    .classid = (class_), .objid = (obj_), .objsubid = (sub_), .lock_database = OURS,               \
    .exclusive = true, .granted = (granted_), .pid = (pid_), .session_database = OURS,             \
    .application_name = "w", .client_addr = "10.0.0.1", .backend_start_us = START + (pid_)

static const struct lock_row rows[] = {
    {LOCK(0, 42, 1, 12, false)},
    {LOCK(0, 42, 1, 11, false)},
    {LOCK(0, 42, 1, 13, true)},
    {LOCK(0, 42, 2, 13, true)}, /* the pair of the same halves */
    {LOCK(42, 0, 1, 13, true)}, /* neighbours of the key */
    {LOCK(0, 43, 1, 14, true)},
    {LOCK(4294967295, 4294967291, 1, 14, true)}, /* -5 */
    {LOCK(4294967295, 4294967291, 2, 14, true)}, /* -1,-5 */
    {LOCK(0, 42, 21, 15, true)},                 /* an extension's */
    {LOCK(0, 42, 3, 15, false)},                 /* an extension's, and waited for */
    {LOCK(0, 42, 0, 15, true)},
    {.classid = 0,
     .objid = 42,
     .objsubid = 1,
     .lock_database = OTHER,
     .exclusive = true,
     .granted = true,
     .pid = 16,
     .session_database = OTHER,
     .application_name = "far",
     .backend_start_us = START + 16}, /* the same key of another database */
    {.classid = 0,
     .objid = 42,
     .objsubid = 1,
     .lock_database = OTHER,
     .granted = false,
     .pid = 17,
     .session_database = OTHER,
     .application_name = "far",
     .backend_start_us = START + 17},
    {.classid = 0,
     .objid = 77,
     .objsubid = 1,
     .lock_database = OURS,
     .exclusive = true,
     .granted = true,
     .pid = -1,
     .session_database = -1,
     .backend_start_us = TIME_UNKNOWN}, /* a prepared transaction */
    {SESSION(18, "idle", "10.0.0.2")},
    {SESSION(19, NULL, NULL)},
    {.objsubid = -1,
     .pid = 20,
     .session_database = OTHER,
     .application_name = "idle",
     .backend_start_us = START + 20},
};

static struct sessions index_all(struct arena *arena)
{
    struct sessions sessions;
    sessions_index(rows, COUNT(rows), OURS, arena, &sessions);
    return sessions;
}

static void test_our_locks(void **state)
{
    static const struct {
        struct lock_key key;
        size_t n;
        int32_t first_pid;
    } wanted[] = {
        {{0, 42, 1}, 3, 13}, /* granted first, then by pid */
        {{0, 42, 2}, 1, 13},
        {{42, 0, 1}, 1, 13},
        {{0, 43, 1}, 1, 14},
        {{0, 41, 1}, 0, 0},
        {{0, 0, 1}, 0, 0},
        {{4294967295, 4294967291, 1}, 1, 14},
        {{4294967295, 4294967291, 2}, 1, 14},
        {{4294967295, 4294967295, 2}, 0, 0},
        {{0, 77, 1}, 1, -1},
        {{0, 42, 21}, 0, 0},
        {{0, 42, 0}, 0, 0},
    };
    struct arena *arena = arena_new();
    (void)state;
    struct sessions sessions = index_all(arena);
    assert_int_equal(sessions.n_locks, 9);
    for (size_t i = 0; i < COUNT(wanted); i++) {
        size_t n = 99;
        const struct lock_row *const *found = sessions_of_key(&sessions, wanted[i].key, &n);
        assert_int_equal(n, wanted[i].n);
        if (n > 0)
            assert_int_equal(found[0]->pid, wanted[i].first_pid);
    }
    size_t n = 0;
    const struct lock_row *const *found = sessions_of_key(&sessions, wanted[0].key, &n);
    assert_true(found[0]->granted && !found[1]->granted);
    assert_int_equal(found[1]->pid, 11);
    assert_int_equal(found[2]->pid, 12);
    arena_free(arena);
}

/* Whatever the order in which pg_locks shows them. */
static void test_granted_first(void **state)
{
    static const struct lock_row mixed[] = {
        {LOCK(0, 50, 1, 30, false)}, {LOCK(0, 50, 1, 40, true)},  {LOCK(0, 50, 1, 10, false)},
        {LOCK(0, 50, 1, 5, true)},   {LOCK(0, 50, 1, 20, false)}, {LOCK(0, 50, 1, 25, true)},
    };
    static const int32_t expected[] = {5, 25, 40, 10, 20, 30};
    struct arena *arena = arena_new();
    struct sessions sessions;
    size_t n = 0;
    (void)state;
    sessions_index(mixed, COUNT(mixed), OURS, arena, &sessions);
    const struct lock_row *const *found =
        sessions_of_key(&sessions, (struct lock_key){0, 50, 1}, &n);
    assert_int_equal(n, COUNT(expected));
    for (size_t i = 0; i < n; i++)
        assert_int_equal(found[i]->pid, expected[i]);
    arena_free(arena);
}

/* Granted locks of other databases or of an extension: counted, never decoded. */
static void test_foreign_locks(void **state)
{
    struct arena *arena = arena_new();
    (void)state;
    assert_int_equal(index_all(arena).foreign, 3);
    arena_free(arena);
}

static void test_sessions_once_each(void **state)
{
    struct arena *arena = arena_new();
    (void)state;
    struct sessions sessions = index_all(arena);
    assert_int_equal(sessions.n_pids, 10); /* 11 to 20, of any database */
    for (size_t i = 0; i < sessions.n_pids; i++)
        assert_int_equal(sessions.pids[i]->pid, 11 + (int)i);
    assert_int_equal(sessions.n_names, 7); /* of ours */
    for (size_t i = 0; i < sessions.n_names; i++)
        assert_int_equal(sessions.names[i]->session_database, OURS);
    for (size_t i = 1; i < sessions.n_names; i++)
        assert_true(
            strcmp(lock_row_name(sessions.names[i - 1]), lock_row_name(sessions.names[i])) <= 0);
    arena_free(arena);
}

static void test_alive(void **state)
{
    static const struct {
        int32_t pid;
        int64_t start;
        bool alive;
    } wanted[] = {
        {13, START + 13, true},
        {13, START + 12, false}, /* the pid is used again */
        {13, TIME_UNKNOWN, false},
        {16, START + 16, true}, /* of another database, but alive */
        {19, START + 19, true},
        {99, START + 99, false},
        {-1, TIME_UNKNOWN, false}, /* a prepared transaction is no session */
        {0, 0, false},
    };
    struct arena *arena = arena_new();
    (void)state;
    struct sessions sessions = index_all(arena);
    for (size_t i = 0; i < COUNT(wanted); i++)
        assert_int_equal(sessions_alive(&sessions, wanted[i].pid, wanted[i].start),
                         wanted[i].alive);
    arena_free(arena);
}

static void test_hidden_start(void **state)
{
    struct lock_row one[] = {{SESSION(5, "a", NULL)}};
    struct arena *arena = arena_new();
    struct sessions sessions;
    (void)state;
    assert_false(index_all(arena).hidden); /* a prepared transaction hides nothing */
    one[0].backend_start_us = TIME_UNKNOWN;
    sessions_index(one, 1, OURS, arena, &sessions);
    assert_true(sessions.hidden);
    assert_false(sessions_alive(&sessions, 5, TIME_UNKNOWN));
    assert_false(sessions_alive(&sessions, 5, START + 5));
    arena_free(arena);
}

static void test_nothing(void **state)
{
    struct arena *arena = arena_new();
    struct sessions sessions;
    size_t n = 99;
    int32_t by_name = 99;
    (void)state;
    sessions_index(NULL, 0, OURS, arena, &sessions);
    assert_int_equal(sessions.n_locks + sessions.n_pids + sessions.n_names, 0);
    assert_int_equal(sessions.foreign, 0);
    (void)sessions_of_key(&sessions, (struct lock_key){0, 42, 1}, &n);
    assert_int_equal(n, 0);
    assert_false(sessions_alive(&sessions, 13, START + 13));
    struct candidates *candidates = candidates_new(&sessions);
    assert_int_equal(candidates_count(candidates, "jobs/x", "%", NULL, 0, &by_name), 0);
    assert_int_equal(by_name, 0);
    candidates_free(candidates);
    candidates_free(NULL);
    arena_free(arena);
}

/* Candidates: instances, which are names with addresses, not sessions. */
static const struct lock_row fleet[] = {
    {LOCK(0, 42, 1, 1, true)},  /* w at 10.0.0.1 */
    {LOCK(0, 42, 1, 2, false)}, /* the same instance waits in a second session */
    {LOCK(0, 7, 1, 3, true)},   /* and leads another duty */
    {SESSION(10, "worker-1", "10.0.0.1")},
    {SESSION(11, "worker-1", "10.0.0.1")},
    {SESSION(12, "worker-1", "10.0.0.2")},
    {SESSION(13, "worker-2", "10.0.0.1")},
    {SESSION(14, "worker-20", "10.0.0.1")},
    {SESSION(15, "workers", "10.0.0.1")},
    {SESSION(16, "work", "10.0.0.1")},
    {SESSION(17, "a%b", "10.0.0.1")},
    {SESSION(18, "a_b", "10.0.0.1")},
    {SESSION(19, "axb", "10.0.0.1")},
    {SESSION(20, "", "10.0.0.1")},
    {SESSION(21, NULL, "10.0.0.1")},
    {SESSION(22, "pgleader:jobs/x:i1", "10.0.0.1")},
    {SESSION(23, "pgleader:jobs/x:i2", "10.0.0.1")},
    {SESSION(24, "pgleader:jobs/x:i2", "10.0.0.1")},
    {SESSION(25, "pgleader:jobs/xy:i1", "10.0.0.1")},
    {SESSION(26, "pgleader:jobs/", "10.0.0.1")},
    {.objsubid = -1,
     .pid = 30,
     .session_database = OTHER,
     .application_name = "worker-9",
     .backend_start_us = START},
    {.classid = 0,
     .objid = 8,
     .objsubid = 1,
     .lock_database = OURS,
     .exclusive = true,
     .granted = true,
     .pid = 40,
     .session_database = OURS,
     .application_name = "worker-1",
     .client_addr = "10.0.0.1",
     .backend_start_us = START},
    {.classid = 0,
     .objid = 9,
     .objsubid = 1,
     .lock_database = OURS,
     .exclusive = true,
     .granted = true,
     .pid = 41,
     .session_database = OURS,
     .backend_start_us = START},
    {.classid = 0,
     .objid = 9,
     .objsubid = 1,
     .lock_database = OURS,
     .exclusive = true,
     .granted = false,
     .pid = 42,
     .session_database = OURS,
     .backend_start_us = START},
};

static const struct {
    const char *words, *duty, *pattern;
    uint32_t objid; /* of the duty's key */
    int32_t expected;
    bool by_name;
} candidate_rows[] = {
    {"an owner who waits too is one", "jobs/y", NULL, 42, 1, false},
    {"no pattern, nobody holds it", "jobs/y", NULL, 1, 0, false},
    {"a name at two addresses is two", "jobs/y", "worker-1", 1, 2, true},
    {"a prefix", "jobs/y", "worker-%", 1, 4, true},
    {"owners and a pattern", "jobs/y", "worker-%", 42, 5, true},
    {"an owner that the pattern matches is counted once", "jobs/y", "worker-%", 8, 4, true},
    {"one character", "jobs/y", "worker-_", 1, 3, true},
    {"a pattern with an end", "jobs/y", "%2", 1, 2, true},
    {"in the middle", "jobs/y", "w%r%", 1, 6, true},
    {"escaped percent", "jobs/y", "a\\%b", 1, 1, true},
    {"escaped underscore", "jobs/y", "a\\_b", 1, 1, true},
    {"underscore", "jobs/y", "a_b", 1, 3, true},
    {"nobody matches", "jobs/y", "nobody-%", 1, 0, false},
    {"no name at all", "jobs/y", "", 1, 4, true}, /* each by its pid */
    {"sessions without a name are told apart", "jobs/y", NULL, 9, 2, false},
    {"the kit's name", "jobs/x", NULL, 1, 2, true},
    {"the kit's name of a longer duty", "jobs/xy", NULL, 1, 1, true},
    {"the kit's name and an owner", "jobs/x", NULL, 42, 3, true},
    {"the kit's name and a pattern that matches it", "jobs/x", "pgleader:jobs/x:%", 1, 2, true},
    {"the kit's name and another pattern", "jobs/x", "worker-%", 1, 6, true},
};

static void test_candidates(void **state)
{
    struct arena *arena = arena_new();
    struct sessions sessions;
    (void)state;
    sessions_index(fleet, COUNT(fleet), OURS, arena, &sessions);
    struct candidates *shared = candidates_new(&sessions);
    for (size_t i = 0; i < 2 * COUNT(candidate_rows); i++) {
        size_t row = i % COUNT(candidate_rows), n = 0;
        int32_t by_name = -1;
        struct lock_key key = {0, candidate_rows[row].objid, 1};
        const struct lock_row *const *found = sessions_of_key(&sessions, key, &n);
        int32_t count = candidates_count(shared, candidate_rows[row].duty,
                                         candidate_rows[row].pattern, found, n, &by_name);
        if (count != candidate_rows[row].expected || (by_name > 0) != candidate_rows[row].by_name)
            fail_msg("%s: %d, by name %d", candidate_rows[row].words, count, by_name);
    }
    candidates_free(shared);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_our_locks),     cmocka_unit_test(test_granted_first),
        cmocka_unit_test(test_foreign_locks), cmocka_unit_test(test_sessions_once_each),
        cmocka_unit_test(test_alive),         cmocka_unit_test(test_hidden_start),
        cmocka_unit_test(test_nothing),       cmocka_unit_test(test_candidates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
