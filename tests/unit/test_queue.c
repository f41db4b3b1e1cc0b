/* SPDX-License-Identifier: PostgreSQL */
/* Who waits for a lock, in the order in which PostgreSQL serves them; and locks of other databases,
 * counted all and shown in part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "observe/queue.h"

enum { OURS = 5, KEY = 7, HELD = 100, WAITERS = 3 * QUEUE_SHOWN };

static struct lock_row row_of(int32_t pid, int64_t since_us)
{
    return (struct lock_row){.objid = KEY,
                             .objsubid = LOCK_OBJSUBID_INT8,
                             .lock_database = OURS,
                             .exclusive = true,
                             .waitstart_us = since_us,
                             .pid = pid,
                             .session_database = OURS,
                             .application_name = pid == 3 ? NULL : "worker",
                             .backend_start_us = 1};
}

/* The queue of these rows, whatever their order. */
static struct duty queue_of(struct snapshot *snapshot, const struct lock_row *rows, size_t n)
{
    struct sessions sessions;
    size_t n_key = 0;
    struct duty duty;
    duty_init(&duty);
    sessions_index(rows, n, OURS, snapshot->arena, &sessions);
    const struct lock_row *const *of_key =
        sessions_of_key(&sessions, lock_key_from_int8(KEY), &n_key);
    queue_fill(snapshot, &duty, of_key, n_key);
    return duty;
}

static void longest_first_unknown_last(void **state)
{
    (void)state;
    struct snapshot *snapshot = snapshot_new();
    struct lock_row rows[] = {row_of(1, TIME_UNKNOWN), row_of(2, 300), row_of(3, 100),
                              row_of(4, 200), row_of(HELD, TIME_UNKNOWN)};
    rows[4].granted = true;
    struct duty duty = queue_of(snapshot, rows, 5);
    assert_int_equal(duty.n_queue, 4);
    static const int32_t order[] = {3, 4, 2, 1};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(duty.queue[i].pid, order[i]);
    assert_string_equal(duty.queue[0].name, "");
    assert_int_equal(duty.queue[3].since_us, TIME_UNKNOWN);
    snapshot_unref(snapshot);
}

static void nobody_waits(void **state)
{
    (void)state;
    struct snapshot *snapshot = snapshot_new();
    struct lock_row held = row_of(HELD, TIME_UNKNOWN);
    held.granted = true;
    assert_int_equal(queue_of(snapshot, &held, 1).n_queue, 0);
    assert_int_equal(queue_of(snapshot, NULL, 0).n_queue, 0);
    snapshot_unref(snapshot);
}

/* Of many, those who wait the longest are kept, in whatever order they come. */
static void many_wait(void **state)
{
    (void)state;
    struct snapshot *snapshot = snapshot_new();
    struct lock_row rows[WAITERS];
    for (int i = 0; i < WAITERS; i++)
        rows[i] = row_of(1 + i * 7 % WAITERS, 1000 + i * 7 % WAITERS);
    struct duty duty = queue_of(snapshot, rows, WAITERS);
    assert_int_equal(duty.n_queue, QUEUE_SHOWN);
    for (int i = 0; i < QUEUE_SHOWN; i++)
        assert_int_equal(duty.queue[i].pid, 1 + i);
    snapshot_unref(snapshot);
}

static void strangers_are_counted_all(void **state)
{
    (void)state;
    struct snapshot *snapshot = snapshot_new();
    struct lock_row rows[FOREIGN_SHOWN + 5];
    struct sessions sessions;
    for (int i = 0; i < FOREIGN_SHOWN + 5; i++) {
        rows[i] = row_of(1000 + i, TIME_UNKNOWN);
        rows[i].lock_database = OURS + 1;
        rows[i].granted = true;
    }
    sessions_index(rows, FOREIGN_SHOWN + 5, OURS, snapshot->arena, &sessions);
    queue_foreign(snapshot, &sessions);
    assert_int_equal(sessions.foreign, FOREIGN_SHOWN + 5);
    assert_int_equal(snapshot->n_foreign, FOREIGN_SHOWN);
    assert_int_equal(snapshot->foreign[0].database, OURS + 1);
    assert_int_equal(snapshot->foreign[0].pid, 1000);
    snapshot_unref(snapshot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(longest_first_unknown_last),
        cmocka_unit_test(nobody_waits),
        cmocka_unit_test(many_wait),
        cmocka_unit_test(strangers_are_counted_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
