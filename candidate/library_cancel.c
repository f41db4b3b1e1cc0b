/* SPDX-License-Identifier: PostgreSQL */
/* A counted list under a mutex; an entry whose cancel is under way leaves the list with that
 * thread. */
#include "candidate/library_cancel.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "pg/foreign.h"
#include "pg/thread.h"

struct entry {
    struct entry *next;
    struct cancels *set;
    const struct pg_conn *conn; /* its name only: it may be gone */
    struct pg_cancel *cancel;
    int64_t generation;
    bool busy, removed;
};

struct cancels {
    pthread_mutex_t mutex;
    pthread_cond_t idle;
    struct entry *first;
    int owners; /* the candidate, and each thread under way */
};

struct cancels *cancels_new(void)
{
    struct cancels *set = xcalloc(1, sizeof *set);
    (void)pthread_mutex_init(&set->mutex, NULL);
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&set->idle, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    set->owners = 1;
    return set;
}

/* Called with the mutex held, which it gives back. */
static void drop_owner(struct cancels *set)
{
    bool last = --set->owners == 0;
    (void)pthread_mutex_unlock(&set->mutex);
    if (!last)
        return;
    (void)pthread_cond_destroy(&set->idle);
    (void)pthread_mutex_destroy(&set->mutex);
    free(set);
}

/* Takes an entry off the list; a busy one goes when its thread is done. */
static bool take_out(struct entry **link)
{
    struct entry *entry = *link;
    entry->removed = true;
    if (entry->busy)
        return false;
    *link = entry->next;
    pg_foreign_cancel_free(entry->cancel);
    free(entry);
    return true;
}

/* conn NULL: all of them. Called with the mutex held. */
static void take_out_all(struct cancels *set, const struct pg_conn *conn)
{
    for (struct entry **link = &set->first; *link;) {
        bool other = conn && (*link)->conn != conn;
        if (other || !take_out(link))
            link = &(*link)->next;
    }
}

void cancels_clear(struct cancels *set)
{
    (void)pthread_mutex_lock(&set->mutex);
    take_out_all(set, NULL);
    (void)pthread_mutex_unlock(&set->mutex);
}

void cancels_free(struct cancels *set)
{
    if (!set)
        return;
    cancels_clear(set);
    (void)pthread_mutex_lock(&set->mutex);
    drop_owner(set);
}

bool cancels_add(struct cancels *set, struct pg_conn *conn, int64_t generation)
{
    struct pg_cancel *cancel = pg_foreign_cancel_new(conn);
    if (!cancel)
        return false;
    struct entry *entry = xcalloc(1, sizeof *entry);
    *entry = (struct entry){.set = set, .conn = conn, .cancel = cancel, .generation = generation};
    (void)pthread_mutex_lock(&set->mutex);
    entry->next = set->first;
    set->first = entry;
    (void)pthread_mutex_unlock(&set->mutex);
    return true;
}

static void *run(void *argument)
{
    struct entry *entry = argument;
    struct cancels *set = entry->set;
    pg_foreign_cancel_send(entry->cancel);
    (void)pthread_mutex_lock(&set->mutex);
    entry->busy = false;
    struct entry **link = &set->first;
    while (*link != entry)
        link = &(*link)->next;
    if (entry->removed)
        (void)take_out(link);
    (void)pthread_cond_broadcast(&set->idle);
    drop_owner(set);
    return NULL;
}

void cancels_fire(struct cancels *set, int64_t generation)
{
    (void)pthread_mutex_lock(&set->mutex);
    for (struct entry *entry = set->first; entry; entry = entry->next) {
        if (entry->generation != generation || entry->busy || entry->removed)
            continue;
        entry->busy = thread_run_detached(run, entry);
        set->owners += entry->busy;
    }
    (void)pthread_mutex_unlock(&set->mutex);
}

bool cancels_busy(struct cancels *set)
{
    (void)pthread_mutex_lock(&set->mutex);
    bool busy = set->owners > 1;
    (void)pthread_mutex_unlock(&set->mutex);
    return busy;
}

static bool knows(const struct cancels *set, const struct pg_conn *conn)
{
    const struct entry *entry = set->first;
    while (entry && entry->conn != conn)
        entry = entry->next;
    return entry != NULL;
}

void cancels_remove(struct cancels *set, const struct pg_conn *conn, int64_t within_us)
{
    int64_t end_us = clock_monotonic_us() + within_us;
    const struct timespec end = {.tv_sec = (time_t)(end_us / SECOND_US),
                                 .tv_nsec = (long)(end_us % SECOND_US) * 1000};
    int late = 0;
    (void)pthread_mutex_lock(&set->mutex);
    take_out_all(set, conn);
    while (knows(set, conn) && late == 0)
        late = pthread_cond_timedwait(&set->idle, &set->mutex, &end);
    (void)pthread_mutex_unlock(&set->mutex);
}
