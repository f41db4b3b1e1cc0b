/* SPDX-License-Identifier: PostgreSQL */
/* The simple query protocol, which takes several statements at once and has no place in a pipeline.
 */
#include "pg/script.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "pg/conn_internal.h"

static char *field(const PGresult *result, int code)
{
    const char *text = PQresultErrorField(result, code);
    return xstrdup(text ? text : "");
}

static void take_warning(void *context, const PGresult *notice)
{
    struct pg_warnings *warnings = context;
    const char *severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (!severity || strcmp(severity, "WARNING") != 0)
        return;
    warnings->items = xreallocarray(warnings->items, warnings->n + 1, sizeof(struct pg_warning));
    warnings->items[warnings->n++] = (struct pg_warning){
        .message = field(notice, PG_DIAG_MESSAGE_PRIMARY),
        .detail = field(notice, PG_DIAG_MESSAGE_DETAIL),
        .hint = field(notice, PG_DIAG_MESSAGE_HINT),
    };
}

void pg_warnings_done(struct pg_warnings *warnings)
{
    for (size_t i = 0; i < warnings->n; i++) {
        free(warnings->items[i].message);
        free(warnings->items[i].detail);
        free(warnings->items[i].hint);
    }
    free(warnings->items);
    *warnings = (struct pg_warnings){0};
}

static bool note_failure(struct pg_session *conn, const PGresult *result, struct error *err)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);
    pg_conn_note_fatal(conn, result);
    (void)pg_set_error(err, ERROR_QUERY, "run the script",
                       PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
    if (sqlstate)
        (void)snprintf(err->sqlstate, sizeof err->sqlstate, "%s", sqlstate);
    if (hint)
        error_hint(err, "%s", hint);
    return false;
}

/* Until a result is there, or the last was taken. */
static bool wait_result(struct pg_session *conn, int64_t deadline_us, struct error *err)
{
    for (;;) {
        if (!pg_conn_pump(conn, err))
            return false;
        if (!PQisBusy(conn->pq))
            return true;
        int64_t left_us = deadline_us - clock_monotonic_us();
        if (left_us <= 0)
            return error_set(err, ERROR_TIMEOUT, "could not run the script: no answer in time");
        struct pollfd fd = {.fd = pg_conn_fd(conn), .events = pg_conn_events(conn)};
        (void)poll(&fd, 1, left_us < INT64_C(3600) * SECOND_US ? (int)(left_us / 1000) + 1 : -1);
    }
}

static bool take_results(struct pg_session *conn, int64_t deadline_us, struct error *err)
{
    bool ok = true;
    for (;;) {
        if (!wait_result(conn, deadline_us, err))
            return false;
        PGresult *result = PQgetResult(conn->pq);
        if (!result)
            return ok;
        ExecStatusType status = PQresultStatus(result);
        if (ok && status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
            ok = note_failure(conn, result, err);
        PQclear(result);
    }
}

bool pg_script_run(struct pg_session *conn, const char *text, int64_t deadline_us,
                   struct pg_warnings *warnings, struct error *err)
{
    if (!PQexitPipelineMode(conn->pq))
        return pg_set_error(err, ERROR_CONNECT, "run the script", PQerrorMessage(conn->pq));
    PQnoticeReceiver before = PQsetNoticeReceiver(conn->pq, take_warning, warnings);
    bool ok = PQsendQuery(conn->pq, text) ? take_results(conn, deadline_us, err)
                                          : pg_conn_lost(conn, err);
    (void)PQsetNoticeReceiver(conn->pq, before, conn);
    if (ok && !PQenterPipelineMode(conn->pq))
        return pg_set_error(err, ERROR_CONNECT, "run the script", PQerrorMessage(conn->pq));
    return ok;
}
