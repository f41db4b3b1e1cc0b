/* SPDX-License-Identifier: PostgreSQL */
/* Remembers who the server is. */
#include "observe/identity.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/memory.h"

/* Read at every poll. */
struct server_row {
    int32_t pid;
    int64_t database_oid;
    bool in_recovery;
    int64_t postmaster_start_us;
};

/* Read now and then. */
struct identity_row {
    const char *database;
    bool privileged;
    bool has_ledger;
};

struct control_row {
    const char *system_identifier;
    int32_t timeline;
};

struct identity {
    struct arena *row_arena, *control_arena; /* of the strings in row and control */
    struct identity_row row;
    struct control_row control;
    struct server_row server;
    int32_t ledger_version;
    int backend_pid;
    int32_t version_num;
    char version[32];
    bool direct;
};

static const struct pg_column server_columns[] = {
    {"pid", PG_INT4, offsetof(struct server_row, pid)},
    {"database_oid", PG_INT8, offsetof(struct server_row, database_oid)},
    {"in_recovery", PG_BOOL, offsetof(struct server_row, in_recovery)},
    {"postmaster_start", PG_TIME, offsetof(struct server_row, postmaster_start_us)},
    {0},
};

static const struct pg_column identity_columns[] = {
    {"database", PG_TEXT, offsetof(struct identity_row, database)},
    {"privileged", PG_BOOL, offsetof(struct identity_row, privileged)},
    {"has_ledger", PG_BOOL, offsetof(struct identity_row, has_ledger)},
    {0},
};

static const struct pg_column control_columns[] = {
    {"system_identifier", PG_TEXT, offsetof(struct control_row, system_identifier)},
    {"timeline", PG_INT4, offsetof(struct control_row, timeline)},
    {0},
};

struct version_row {
    int32_t version;
};

static const struct pg_column version_columns[] = {
    {"version", PG_INT4, offsetof(struct version_row, version)},
    {0},
};

static void forget(struct identity *identity)
{
    identity->row = (struct identity_row){0};
    identity->control = (struct control_row){.timeline = -1};
    identity->ledger_version = -1;
}

struct identity *identity_new(void)
{
    struct identity *identity = xcalloc(1, sizeof *identity);
    identity->row_arena = arena_new();
    identity->control_arena = arena_new();
    forget(identity);
    return identity;
}

void identity_free(struct identity *identity)
{
    if (!identity)
        return;
    arena_free(identity->row_arena);
    arena_free(identity->control_arena);
    free(identity);
}

void identity_connected(struct identity *identity, const struct pg_session *conn)
{
    const char *version = pg_conn_version_text(conn);
    size_t size = strnlen(version, sizeof identity->version - 1);
    memcpy(identity->version, version, size);
    identity->version[size] = '\0';
    identity->version_num = pg_conn_version(conn);
    identity->backend_pid = pg_conn_backend_pid(conn);
    identity->direct = false; /* until the server says which backend it is */
}

/* Each of these queries answers with one row. Its strings are in *arena, which is replaced when the
 * row is good. */
static bool decode_one(const struct pg_answer *answer, const struct pg_column *columns,
                       size_t row_size, struct arena **arena, void *out, struct error *err)
{
    struct arena *fresh = arena_new();
    void *rows = NULL;
    size_t n = 0;
    bool ok = pg_answer_decode(answer, columns, row_size, fresh, &rows, &n, err);
    if (ok && n != 1)
        ok = error_set(err, ERROR_QUERY, "could not read the answer: %zu rows instead of one", n);
    if (ok)
        memcpy(out, rows, row_size);
    if (ok && arena) {
        struct arena *old = *arena;
        *arena = fresh;
        fresh = old;
    }
    arena_free(fresh);
    return ok;
}

bool identity_read_server(struct identity *identity, const struct pg_answer *answer,
                          bool *ret_moved, struct error *err)
{
    struct server_row row;
    if (!decode_one(answer, server_columns, sizeof row, NULL, &row, err))
        return false;
    *ret_moved = row.postmaster_start_us != identity->server.postmaster_start_us ||
                 row.in_recovery != identity->server.in_recovery;
    if (*ret_moved)
        forget(identity);
    identity->server = row;
    identity->direct = row.pid == identity->backend_pid;
    return true;
}

bool identity_read(struct identity *identity, const struct pg_answer *answer, struct error *err)
{
    if (!decode_one(answer, identity_columns, sizeof identity->row, &identity->row_arena,
                    &identity->row, err))
        return false;
    if (!identity->row.has_ledger)
        identity->ledger_version = 0;
    return true;
}

bool identity_read_control(struct identity *identity, const struct pg_answer *answer,
                           struct error *err)
{
    return decode_one(answer, control_columns, sizeof identity->control, &identity->control_arena,
                      &identity->control, err);
}

bool identity_read_ledger_version(struct identity *identity, const struct pg_answer *answer,
                                  struct error *err)
{
    struct version_row row = {.version = -1};
    identity->ledger_version = -1;
    if (!answer)
        return true;
    if (!decode_one(answer, version_columns, sizeof row, NULL, &row, err))
        return false;
    identity->ledger_version = row.version;
    return true;
}

struct server_facts identity_facts(const struct identity *identity, struct arena *arena)
{
    const struct identity_row *row = &identity->row;
    return (struct server_facts){
        .system_identifier = arena_strdup(arena, identity->control.system_identifier),
        .timeline = identity->control.timeline,
        .database = arena_strdup(arena, row->database ? row->database : ""),
        .version = arena_strdup(arena, identity->version),
        .version_num = identity->version_num,
        .postmaster_start_us = identity->server.postmaster_start_us,
        .in_recovery = identity->server.in_recovery,
        .privileged = row->privileged,
        .direct = identity->direct,
        .ledger_version = identity->ledger_version,
    };
}

int32_t identity_version(const struct identity *identity)
{
    return identity->version_num;
}

int64_t identity_database(const struct identity *identity)
{
    return identity->server.database_oid;
}

bool identity_direct(const struct identity *identity)
{
    return identity->direct;
}

bool identity_known(const struct identity *identity)
{
    return identity->row.database != NULL;
}

bool identity_in_recovery(const struct identity *identity)
{
    return identity->server.in_recovery;
}

bool identity_has_ledger(const struct identity *identity)
{
    return identity->row.has_ledger;
}
