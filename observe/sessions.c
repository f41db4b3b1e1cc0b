/* SPDX-License-Identifier: PostgreSQL */
/* Indexes over one reading of pg_locks and the sessions. */
#include "observe/sessions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"

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

static int compare_locks(const void *a, const void *b)
{
    const struct lock_row *x = *(const struct lock_row *const *)a,
                          *y = *(const struct lock_row *const *)b;
    int by_key = lock_key_compare(lock_row_key(x), lock_row_key(y));
    if (by_key)
        return by_key;
    if (x->granted != y->granted)
        return x->granted ? -1 : 1;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

static const char *name_of(const struct lock_row *row)
{
    return row->application_name ? row->application_name : "";
}

static int compare_names(const void *a, const void *b)
{
    const struct lock_row *x = *(const struct lock_row *const *)a,
                          *y = *(const struct lock_row *const *)b;
    int by_name = strcmp(name_of(x), name_of(y));
    if (by_name)
        return by_name;
    return (x->pid > y->pid) - (x->pid < y->pid);
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

static void index_rows(const struct lock_row *rows, size_t n, int64_t database, struct arena *arena,
                       struct sessions *out)
{
    *out = (struct sessions){
        .locks = arena_array(arena, n, sizeof *out->locks),
        .names = arena_array(arena, n, sizeof *out->names),
        .pids = arena_array(arena, n, sizeof *out->pids),
    };
    for (size_t i = 0; i < n; i++) {
        const struct lock_row *row = &rows[i];
        bool ours = row->lock_database == database && of_duty_class(row);
        if (row->objsubid >= 0 && ours)
            out->locks[out->n_locks++] = row;
        else if (row->objsubid >= 0 && row->granted)
            out->foreign++;
        if (row->pid > 0)
            out->pids[out->n_pids++] = row;
        if (row->pid > 0 && row->session_database == database)
            out->names[out->n_names++] = row;
    }
    qsort(out->locks, out->n_locks, sizeof *out->locks, compare_locks);
    qsort(out->pids, out->n_pids, sizeof *out->pids, compare_pids);
    qsort(out->names, out->n_names, sizeof *out->names, compare_names);
    out->n_pids = one_per_session(out->pids, out->n_pids);
    out->n_names = one_per_session(out->names, out->n_names);
}

bool sessions_decode(const struct pg_answer *answer, int64_t database, struct arena *arena,
                     struct sessions *ret, struct error *err)
{
    void *rows = NULL;
    size_t n = 0;
    if (!pg_answer_decode(answer, lock_columns, sizeof(struct lock_row), arena, &rows, &n, err))
        return false;
    index_rows(rows, n, database, arena, ret);
    return true;
}

const struct lock_row *const *sessions_of_key(const struct sessions *sessions, struct lock_key key,
                                              size_t *ret_n)
{
    size_t low = 0, high = sessions->n_locks;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lock_key_compare(lock_row_key(sessions->locks[middle]), key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    size_t end = low;
    while (end < sessions->n_locks && lock_key_equal(lock_row_key(sessions->locks[end]), key))
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
    int64_t start = (*found)->backend_start_us;
    return start == backend_start_us || start == TIME_UNKNOWN || backend_start_us == TIME_UNKNOWN;
}

/* Candidates are gathered as pointers, then counted by instance. */
struct gathering {
    const struct lock_row **rows;
    size_t n, room;
};

static void gather(struct gathering *gathering, const struct lock_row *row)
{
    if (gathering->n == gathering->room) {
        gathering->room = gathering->room ? 2 * gathering->room : 16;
        gathering->rows = xreallocarray(gathering->rows, gathering->room, sizeof *gathering->rows);
    }
    gathering->rows[gathering->n++] = row;
}

static int compare_instances(const void *a, const void *b)
{
    const struct lock_row *x = *(const struct lock_row *const *)a,
                          *y = *(const struct lock_row *const *)b;
    int by_name = strcmp(name_of(x), name_of(y));
    if (by_name)
        return by_name;
    int by_address =
        strcmp(x->client_addr ? x->client_addr : "", y->client_addr ? y->client_addr : "");
    if (by_address || *name_of(x))
        return by_address;
    return (x->pid > y->pid) -
           (x->pid < y->pid); /* nameless sessions are told apart by pid alone */
}

static int32_t count_instances(struct gathering *gathering)
{
    int32_t distinct = 0;
    if (gathering->n > 1)
        qsort(gathering->rows, gathering->n, sizeof *gathering->rows, compare_instances);
    for (size_t i = 0; i < gathering->n; i++) {
        if (i == 0 || compare_instances(&gathering->rows[i - 1], &gathering->rows[i]) != 0)
            distinct++;
    }
    return distinct;
}

/* Gathers the sessions whose name begins with prefix and, if there is a pattern, is LIKE it. */
static void gather_names(const struct sessions *sessions, const char *prefix, size_t size,
                         const char *pattern, struct gathering *gathering)
{
    size_t low = 0, high = sessions->n_names;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strncmp(name_of(sessions->names[middle]), prefix, size) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < sessions->n_names && strncmp(name_of(sessions->names[low]), prefix, size) == 0;
         low++) {
        if (!pattern || text_like(name_of(sessions->names[low]), pattern))
            gather(gathering, sessions->names[low]);
    }
}

int32_t sessions_count_candidates(const struct sessions *sessions, const char *duty,
                                  const char *pattern, const struct lock_row *const *rows,
                                  size_t n_rows, int32_t *ret_by_name)
{
    struct gathering gathering = {0};
    char kit[128];
    int size = snprintf(kit, sizeof kit, "pgleader:%.100s:", duty);
    gather_names(sessions, kit, (size_t)size, NULL, &gathering);
    if (pattern)
        gather_names(sessions, pattern, strcspn(pattern, "%_\\"), pattern, &gathering);
    *ret_by_name = (int32_t)gathering.n;
    for (size_t i = 0; i < n_rows; i++)
        gather(&gathering, rows[i]);
    int32_t count = count_instances(&gathering);
    free(gathering.rows);
    return count;
}
