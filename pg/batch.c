/* SPDX-License-Identifier: PostgreSQL */
/* Sections in one pipeline. */
#include "pg/batch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "pg/conn_internal.h"
#include "pg/decode.h"

/* The isolation is said: where serializable is the default, a standby refuses it, and a deferrable
 * transaction waits for writers. */
static const char begin_query[] = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY";

/* Every limit lives as long as the transaction. The search path is emptied, so that no name but the
 * system's is found unqualified; UTC gives a meaning to timestamps without a zone. A database in
 * SQL_ASCII may hold any bytes, and refuses to send as UTF8 what is none: it sends them raw. */
static const char limits_query[] =
    "SELECT pg_catalog.set_config('lock_timeout', $1, true), "
    "pg_catalog.set_config('statement_timeout', $2, true), "
    "pg_catalog.set_config('search_path', '', true), "
    "pg_catalog.set_config('TimeZone', 'UTC', true), "
    "pg_catalog.set_config('client_encoding', CASE pg_catalog.current_setting('server_encoding') "
    "WHEN 'SQL_ASCII' THEN 'SQL_ASCII' ELSE 'UTF8' END, true), "
    "pg_catalog.clock_timestamp() AS clock";
static const char clock_query[] = "SELECT pg_catalog.clock_timestamp() AS clock";

/* The statements of a section, in the order of their results. */
enum step {
    STEP_BEGIN,
    STEP_LIMITS,
    STEP_PREPARE,
    STEP_QUERY,
    STEP_CLOCK,
    STEP_SYNC,
    STEP_COMMIT,
    STEP_END
};

struct entry {
    struct pg_section section;
    struct pg_outcome outcome;
    bool preparing;
};

struct pg_batch {
    struct pg_session *conn;
    struct entry *entries;
    size_t n;
    size_t current; /* the entry whose result comes next */
    enum step step;
    int ends; /* "no more results" in a row: one ends a statement, two are libpq at its end */
};

static bool send_limits(PGconn *pq, const struct pg_section *section)
{
    char lock[32], statement[32];
    (void)snprintf(lock, sizeof lock, "%" PRId64, section->lock_timeout_us / 1000);
    (void)snprintf(statement, sizeof statement, "%" PRId64, section->statement_timeout_us / 1000);
    const char *values[] = {lock, statement};
    return PQsendQueryParams(pq, limits_query, 2, NULL, values, NULL, NULL, 1);
}

static bool send_plain(PGconn *pq, const char *text)
{
    return PQsendQueryParams(pq, text, 0, NULL, NULL, NULL, NULL, 1);
}

static bool send_query(struct pg_session *conn, struct entry *entry)
{
    const struct pg_section *section = &entry->section;
    if (!section->prepared)
        return PQsendQueryParams(conn->pq, section->query, section->n_params, NULL, section->params,
                                 NULL, NULL, 1);
    entry->preparing = !*section->prepared->name;
    if (entry->preparing) {
        (void)snprintf(section->prepared->name, sizeof section->prepared->name, "pgleader_%u",
                       ++conn->statements);
        if (!PQsendPrepare(conn->pq, section->prepared->name, section->query, section->n_params,
                           NULL))
            return false;
    }
    return PQsendQueryPrepared(conn->pq, section->prepared->name, section->n_params,
                               section->params, NULL, NULL, 1);
}

static bool send_section(struct pg_session *conn, struct entry *entry)
{
    PGconn *pq = conn->pq;
    return send_plain(pq, begin_query) && send_limits(pq, &entry->section) &&
           send_query(conn, entry) && send_plain(pq, clock_query) && PQpipelineSync(pq) &&
           send_plain(pq, "COMMIT") && PQpipelineSync(pq);
}

struct pg_batch *pg_batch_start(struct pg_session *conn, const struct pg_section *sections,
                                size_t n, struct error *err)
{
    struct pg_batch *batch = xcalloc(1, sizeof *batch);
    batch->conn = conn;
    batch->entries = xcalloc(n, sizeof *batch->entries);
    batch->n = n;
    for (size_t i = 0; i < n; i++) {
        batch->entries[i].section = sections[i];
        if (!send_section(conn, &batch->entries[i])) {
            (void)pg_set_error(err, ERROR_CONNECT, "send a query", PQerrorMessage(conn->pq));
            pg_batch_free(batch);
            return NULL;
        }
    }
    if (!pg_conn_pump(conn, err)) {
        pg_batch_free(batch);
        return NULL;
    }
    return batch;
}

/* A plan that no longer fits (the ledger was altered) is prepared anew under another name. */
static void forget_prepared(struct pg_prepared *prepared, const char *sqlstate)
{
    static const char *const stale[] = {"0A000", "26000", "42P05"};
    for (size_t i = 0; i < sizeof stale / sizeof *stale; i++) {
        if (strcmp(sqlstate, stale[i]) == 0)
            prepared->name[0] = '\0';
    }
}

static void note_failure(struct entry *entry, enum step step, const PGresult *result)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (entry->outcome.error.kind != ERROR_NONE)
        return; /* the first failure is the reason, the others follow from it */
    char what[160];
    (void)snprintf(what, sizeof what, "read section \"%.100s\"", entry->section.name);
    (void)pg_set_error(&entry->outcome.error, ERROR_QUERY, what, primary ? primary : "");
    if (sqlstate)
        (void)snprintf(entry->outcome.error.sqlstate, sizeof entry->outcome.error.sqlstate, "%s",
                       sqlstate);
    if (!entry->section.prepared)
        return;
    if (entry->preparing && step <= STEP_PREPARE)
        entry->section.prepared->name[0] = '\0';
    else if (sqlstate)
        forget_prepared(entry->section.prepared, sqlstate);
}

/* Takes a result of a step; true if the result was kept. */
static bool take_result(struct entry *entry, enum step step, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK) {
        if (status != PGRES_COMMAND_OK)
            note_failure(entry, step, result);
        return false;
    }
    int clock = PQfnumber(result, "clock");
    if (step == STEP_LIMITS)
        (void)decode_time(result, clock, &entry->outcome.clock_before_us);
    else if (step == STEP_CLOCK)
        (void)decode_time(result, clock, &entry->outcome.clock_after_us);
    else if (step == STEP_QUERY)
        entry->outcome.rows = answer_new(result);
    return step == STEP_QUERY;
}

/* A section that did not come to its closing clock failed as a whole. */
static void close_entry(struct entry *entry)
{
    if (entry->outcome.error.kind == ERROR_NONE)
        return;
    answer_free(entry->outcome.rows);
    entry->outcome.rows = NULL;
}

static void advance(struct pg_batch *batch)
{
    struct entry *entry = &batch->entries[batch->current];
    batch->step++;
    if (batch->step == STEP_PREPARE && !entry->preparing)
        batch->step++;
    if (batch->step > STEP_END) {
        close_entry(entry);
        batch->current++;
        batch->step = STEP_BEGIN;
    }
}

/* Takes the next result that is there; false if none is. */
static bool take_next(struct pg_batch *batch)
{
    PGconn *pq = batch->conn->pq;
    if (batch->current == batch->n || PQisBusy(pq))
        return false;
    PGresult *result = PQgetResult(pq);
    if (!result)
        return ++batch->ends < 2;
    batch->ends = 0;
    bool is_sync = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
    if (PQresultStatus(result) == PGRES_FATAL_ERROR)
        pg_conn_note_fatal(batch->conn, result);
    if (is_sync || !take_result(&batch->entries[batch->current], batch->step, result))
        PQclear(result);
    advance(batch);
    return true;
}

enum pg_progress pg_batch_step(struct pg_batch *batch, struct error *err)
{
    bool alive = pg_conn_pump(batch->conn, err);
    while (take_next(batch))
        ;
    if (batch->current == batch->n)
        return PG_DONE;
    if (alive && PQstatus(batch->conn->pq) == CONNECTION_OK && batch->ends < 2)
        return PG_AGAIN;
    (void)pg_conn_lost(batch->conn, err);
    return PG_FAILED;
}

void pg_batch_give_up(struct pg_batch *batch, const struct error *err)
{
    bool answered = batch->step > STEP_CLOCK; /* all but the end of its transaction */
    for (size_t i = batch->current; i < batch->n; i++) {
        struct pg_outcome *outcome = &batch->entries[i].outcome;
        if ((i > batch->current || !answered) && outcome->error.kind == ERROR_NONE)
            outcome->error = *err;
        if (i == batch->current && outcome->error.kind == ERROR_TIMEOUT)
            (void)snprintf(outcome->error.sqlstate, sizeof outcome->error.sqlstate, "57014");
        close_entry(&batch->entries[i]);
    }
    batch->current = batch->n;
}

const struct pg_outcome *pg_batch_outcome(const struct pg_batch *batch, size_t section)
{
    return &batch->entries[section].outcome;
}

void pg_batch_drop_rows(struct pg_batch *batch, size_t section)
{
    struct pg_outcome *outcome = &batch->entries[section].outcome;
    answer_free(outcome->rows);
    outcome->rows = NULL;
}

void pg_batch_free(struct pg_batch *batch)
{
    if (!batch)
        return;
    for (size_t i = 0; i < batch->n; i++)
        answer_free(batch->entries[i].outcome.rows);
    free(batch->entries);
    free(batch);
}
