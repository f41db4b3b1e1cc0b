/* SPDX-License-Identifier: PostgreSQL */
/* Indexes over one reading of pg_locks and the sessions. */
#include "observe/sessions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "observe/snapshot.h"

static const struct pg_column lock_columns[] = {
    {"classid", PG_INT8, offsetof(struct lock_row, classid)},
    {"objid", PG_INT8, offsetof(struct lock_row, objid)},
    {"objsubid", PG_INT4, offsetof(struct lock_row, objsubid)},
    {"lock_database", PG_INT8, offsetof(struct lock_row, lock_database)},
    {"exclusive", PG_BOOL, offsetof(struct lock_row, exclusive)},
    {"granted", PG_BOOL, offsetof(struct lock_row, granted)},
    {"waitstart", PG_TIME, offsetof(struct lock_row, waitstart_us)},
    {"pid", PG_INT4, offsetof(struct lock_row, pid)},
    {"session_database", PG_INT8, offsetof(struct lock_row, session_database)},
    {"usesysid", PG_INT8, offsetof(struct lock_row, usesysid)},
    {"application_name", PG_TEXT, offsetof(struct lock_row, application_name)},
    {"client_addr", PG_INET, offsetof(struct lock_row, client_addr)},
    {"client_port", PG_INT4, offsetof(struct lock_row, client_port)},
    {"backend_start", PG_TIME, offsetof(struct lock_row, backend_start_us)},
    {"xact_start", PG_TIME, offsetof(struct lock_row, xact_start_us)},
    {"xmin_age", PG_INT4, offsetof(struct lock_row, xmin_age)},
    {0},
};

struct lock_key lock_row_key(const struct lock_row *row)
{
    return (struct lock_key){(uint32_t)row->classid, (uint32_t)row->objid, (uint16_t)row->objsubid};
}

static bool of_duty_class(const struct lock_row *row)
{
    return row->objsubid == LOCK_OBJSUBID_INT8 || row->objsubid == LOCK_OBJSUBID_PAIR;
}

/* A row with what it is sorted by beside it: a comparison that follows pointers waits for memory.
 */
struct keyed {
    uint64_t first, second;
    const struct lock_row *row;
};

static int compare_keyed(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return (x->second > y->second) - (x->second < y->second);
}

/* Signed numbers in unsigned order. */
static uint64_t ordered(int32_t number)
{
    return (uint32_t)number ^ UINT32_C(0x80000000);
}

/* By key, as lock_key_compare has it, granted first, then by pid. */
enum { KEY_SHIFT = 33 }; /* what is above belongs to the key */

static struct keyed keyed_lock(struct lock_key key, const struct lock_row *row)
{
    struct keyed keyed = {
        .first = (uint64_t)key.objsubid << 48 | (uint64_t)key.classid << 16 | key.objid >> 16,
        .second = (uint64_t)(key.objid & 0xFFFF) << KEY_SHIFT,
        .row = row,
    };
    if (row)
        keyed.second |= (uint64_t)!row->granted << 32 | ordered(row->pid);
    return keyed;
}

static bool same_key(const struct keyed *a, const struct keyed *b)
{
    return a->first == b->first && a->second >> KEY_SHIFT == b->second >> KEY_SHIFT;
}

static void sort_keyed(struct keyed *keyed, size_t n, const struct lock_row **rows)
{
    if (n > 1)
        qsort(keyed, n, sizeof *keyed, compare_keyed);
    for (size_t i = 0; i < n; i++)
        rows[i] = keyed[i].row;
}

const char *lock_row_name(const struct lock_row *row)
{
    return row->application_name ? row->application_name : "";
}

int lock_row_compare_instance(const struct lock_row *a, const struct lock_row *b)
{
    const char *name = lock_row_name(a);
    int by_name = strcmp(name, lock_row_name(b));
    if (by_name)
        return by_name;
    int by_address =
        strcmp(a->client_addr ? a->client_addr : "", b->client_addr ? b->client_addr : "");
    if (by_address || *name)
        return by_address;
    return (a->pid > b->pid) - (a->pid < b->pid);
}

/* By instance, and within one by pid. */
static int compare_names(const void *a, const void *b)
{
    const struct lock_row *x = *(const struct lock_row *const *)a,
                          *y = *(const struct lock_row *const *)b;
    int by_instance = lock_row_compare_instance(x, y);
    return by_instance ? by_instance : (x->pid > y->pid) - (x->pid < y->pid);
}

static int compare_pids(const void *a, const void *b)
{
    const struct lock_row *x = *(const struct lock_row *const *)a,
                          *y = *(const struct lock_row *const *)b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

/* Sorted arrays of pointers with one entry a session. */
static size_t one_per_session(const struct lock_row **rows, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || rows[kept - 1]->pid != rows[i]->pid)
            rows[kept++] = rows[i];
    }
    return kept;
}

static void note_stranger(struct sessions *out, const struct lock_row *row)
{
    out->foreign++;
    if (out->n_strangers < FOREIGN_SHOWN)
        out->strangers[out->n_strangers++] = row;
}

void sessions_index(const struct lock_row *rows, size_t n, int64_t database, struct arena *arena,
                    struct sessions *out)
{
    *out = (struct sessions){
        .locks = arena_array(arena, n, sizeof *out->locks),
        .names = arena_array(arena, n, sizeof *out->names),
        .pids = arena_array(arena, n, sizeof *out->pids),
        .strangers =
            arena_array(arena, n < FOREIGN_SHOWN ? n : FOREIGN_SHOWN, sizeof *out->strangers),
    };
    struct keyed *locks = arena_array(arena, n, sizeof *locks);
    struct keyed *pids = arena_array(arena, n, sizeof *pids);
    for (size_t i = 0; i < n; i++) {
        const struct lock_row *row = &rows[i];
        bool ours = row->lock_database == database && of_duty_class(row);
        if (row->objsubid >= 0 && ours)
            locks[out->n_locks++] = keyed_lock(lock_row_key(row), row);
        else if (row->objsubid >= 0 && row->granted)
            note_stranger(out, row);
        if (row->pid > 0) {
            pids[out->n_pids++] = (struct keyed){.first = (uint64_t)row->pid, .row = row};
            out->hidden = out->hidden || row->backend_start_us == TIME_UNKNOWN;
        }
    }
    sort_keyed(locks, out->n_locks, out->locks);
    out->keys = locks;
    sort_keyed(pids, out->n_pids, out->pids);
    out->n_pids = one_per_session(out->pids, out->n_pids);
    for (size_t i = 0; i < out->n_pids; i++) {
        if (out->pids[i]->session_database == database)
            out->names[out->n_names++] = out->pids[i];
    }
    if (out->n_names > 1)
        qsort(out->names, out->n_names, sizeof *out->names, compare_names);
}

bool sessions_decode(const struct pg_answer *answer, int64_t database, struct arena *arena,
                     struct sessions *ret, struct error *err)
{
    void *rows = NULL;
    size_t n = 0;
    if (!pg_answer_decode(answer, lock_columns, sizeof(struct lock_row), arena, &rows, &n, err))
        return false;
    sessions_index(rows, n, database, arena, ret);
    return true;
}

const struct lock_row *const *sessions_of_key(const struct sessions *sessions, struct lock_key key,
                                              size_t *ret_n)
{
    const struct keyed wanted = keyed_lock(key, NULL);
    size_t low = 0, high = sessions->n_locks;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_keyed(&sessions->keys[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    size_t end = low;
    while (end < sessions->n_locks && same_key(&sessions->keys[end], &wanted))
        end++;
    *ret_n = end - low;
    return sessions->locks + low;
}

bool sessions_alive(const struct sessions *sessions, int32_t pid, int64_t backend_start_us)
{
    struct lock_row wanted = {.pid = pid};
    const struct lock_row *key = &wanted;
    const struct lock_row **found =
        sessions->n_pids
            ? bsearch(&key, sessions->pids, sessions->n_pids, sizeof *sessions->pids, compare_pids)
            : NULL;
    if (!found)
        return false;
    return backend_start_us != TIME_UNKNOWN && (*found)->backend_start_us == backend_start_us;
}
