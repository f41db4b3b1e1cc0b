/* SPDX-License-Identifier: PostgreSQL */
/* The advisory locks and sessions of one reading, indexed: what collect asks pg_locks in memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "pg/batch.h"
#include "pg/key.h"

/* A lock with its session, or a session without a lock (has_lock false), or a prepared
 * transaction's lock (pid -1). Columns of observe/sql/locks.sql. */
struct lock_row {
    int64_t classid, objid;
    int32_t objsubid; /* -1: no lock */
    int64_t lock_database;
    bool exclusive, granted;
    int64_t waitstart_us;
    int32_t pid;
    int64_t session_database;
    int64_t usesysid;
    const char *application_name;
    const char *client_addr;
    int32_t client_port; /* -1 for a socket, and where we may not see it */
    int64_t backend_start_us;
    int64_t xact_start_us;
    int32_t xmin_age;
};

struct keyed;

/* Pointers into the rows, each array in its own order; all in one arena. */
struct sessions {
    const struct lock_row *
        *locks; /* of this database, key classes 1 and 2; by key, granted first */
    size_t n_locks;
    const struct keyed *keys;      /* what those are sorted by */
    const struct lock_row **names; /* one a session of this database, by instance */
    size_t n_names;
    const struct lock_row **pids; /* one a session, by pid */
    size_t n_pids;
    bool hidden;     /* some session's start may not be seen */
    int32_t foreign; /* granted locks of other databases, or of an extension's objsubid */
    const struct lock_row **strangers; /* the first of those */
    size_t n_strangers;
};

/* Rows of sessions_decode stay in the arena. `database` is the oid of ours. */
bool sessions_decode(const struct pg_answer *answer, int64_t database, struct arena *arena,
                     struct sessions *ret, struct error *err) MUSTCHECK;

/* The same from rows at hand, which must outlive it. */
void sessions_index(const struct lock_row *rows, size_t n, int64_t database, struct arena *arena,
                    struct sessions *out);

/* The rows of one key: *ret_n of them from the returned pointer on. */
const struct lock_row *const *sessions_of_key(const struct sessions *sessions, struct lock_key key,
                                              size_t *ret_n);

struct lock_key lock_row_key(const struct lock_row *row);

/* True if a session of that pid and start exists; where a start is not known nobody can tell, and
 * that is false. */
bool sessions_alive(const struct sessions *sessions, int32_t pid, int64_t backend_start_us);

/* application_name, "" where there is none. */
const char *lock_row_name(const struct lock_row *row);

/* Orders by instance: name and client address; sessions without a name are told apart by pid alone.
 * 0: the same instance. */
int lock_row_compare_instance(const struct lock_row *a, const struct lock_row *b);
