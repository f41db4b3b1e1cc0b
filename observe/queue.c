/* SPDX-License-Identifier: PostgreSQL */
/* Rows of one reading, copied for people to read. */
#include "observe/queue.h"

#include <stdlib.h>

#include "base/arena.h"

/* Who waits since nobody knows when stands last. */
static bool before(const struct lock_row *a, const struct lock_row *b)
{
    if (b->waitstart_us == TIME_UNKNOWN)
        return a->waitstart_us != TIME_UNKNOWN;
    return a->waitstart_us != TIME_UNKNOWN && a->waitstart_us < b->waitstart_us;
}

void queue_fill(const struct snapshot *snapshot, struct duty *duty,
                const struct lock_row *const *rows, size_t n)
{
    const struct lock_row *first[QUEUE_SHOWN];
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (rows[i]->granted || (kept == QUEUE_SHOWN && !before(rows[i], first[kept - 1])))
            continue;
        size_t at = kept < QUEUE_SHOWN ? kept++ : kept - 1;
        for (; at > 0 && before(rows[i], first[at - 1]); at--)
            first[at] = first[at - 1];
        first[at] = rows[i];
    }
    if (kept == 0)
        return;
    duty->queue = arena_array(snapshot->arena, kept, sizeof *duty->queue);
    duty->n_queue = kept;
    for (size_t i = 0; i < kept; i++)
        duty->queue[i] = (struct waiter){
            .pid = first[i]->pid,
            .backend_start_us = first[i]->backend_start_us,
            .since_us = first[i]->waitstart_us,
            .name = arena_strdup(snapshot->arena, lock_row_name(first[i])),
            .client_addr = arena_strdup(snapshot->arena, first[i]->client_addr),
        };
}

void queue_foreign(struct snapshot *snapshot, const struct sessions *sessions)
{
    snapshot->n_foreign = sessions->n_strangers;
    snapshot->foreign =
        arena_array(snapshot->arena, sessions->n_strangers, sizeof *snapshot->foreign);
    for (size_t i = 0; i < sessions->n_strangers; i++) {
        const struct lock_row *row = sessions->strangers[i];
        snapshot->foreign[i] = (struct foreign_lock){
            .key = lock_row_key(row),
            .database = row->lock_database,
            .pid = row->pid,
            .name = arena_strdup(snapshot->arena, lock_row_name(row)),
        };
    }
}
