/* SPDX-License-Identifier: PostgreSQL */
/* Single statements over the pipeline that every session of ours is in. */
#include "pg/statement.h"

#include <poll.h>
#include <stdio.h>

#include "pg/conn_internal.h"
#include "pg/decode.h"

bool pg_statement_send(struct pg_session *conn, const char *text, int n, const char *const *values,
                       struct error *err)
{
    PGconn *pq = conn->pq;
    if (!PQsendQueryParams(pq, text, n, NULL, values, NULL, NULL, 1) || !PQpipelineSync(pq))
        return pg_conn_lost(conn, err);
    /* Only flushed: an answer that is read here would not wake the caller's poll(2). */
    int left = PQflush(pq);
    if (left < 0)
        return pg_conn_lost(conn, err);
    conn->events = (short)(left > 0 ? POLLIN | POLLOUT : POLLIN);
    return true;
}

static void note_refusal(struct pg_session *conn, const PGresult *result, struct error *err)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);
    pg_conn_note_fatal(conn, result);
    (void)pg_set_error(err, ERROR_QUERY, "run a statement",
                       PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
    if (sqlstate)
        (void)snprintf(err->sqlstate, sizeof err->sqlstate, "%s", sqlstate);
    if (hint)
        error_hint(err, "%s", hint);
}

enum pg_progress pg_statement_step(struct pg_session *conn, struct pg_answer **ret_answer,
                                   struct error *err)
{
    bool alive = pg_conn_pump(conn, err);
    int ends = 0;
    while (!PQisBusy(conn->pq) && ends < 2) {
        PGresult *result = PQgetResult(conn->pq);
        ExecStatusType status = result ? PQresultStatus(result) : PGRES_COMMAND_OK;
        ends = result ? 0 : ends + 1;
        if (status == PGRES_TUPLES_OK) {
            *ret_answer = answer_new(result);
            continue;
        }
        if (result && status != PGRES_COMMAND_OK && status != PGRES_PIPELINE_SYNC) {
            note_refusal(conn, result, err);
            answer_free(STEAL(*ret_answer)); /* what its commit has failed for did not happen */
        }
        PQclear(result);
        if (status == PGRES_PIPELINE_SYNC)
            return PG_DONE;
    }
    if (alive && PQstatus(conn->pq) == CONNECTION_OK && ends < 2 &&
        conn->farewell.kind == ERROR_NONE)
        return PG_AGAIN;
    (void)pg_conn_lost(conn, err);
    return PG_FAILED;
}

void pg_answer_free(struct pg_answer *answer)
{
    answer_free(answer);
}

bool pg_notification_take(struct pg_session *conn, struct pg_notification *ret_notification)
{
    PGnotify *notify = PQnotifies(conn->pq);
    if (!notify)
        return false;
    (void)snprintf(ret_notification->channel, sizeof ret_notification->channel, "%s",
                   notify->relname);
    (void)snprintf(ret_notification->payload, sizeof ret_notification->payload, "%s",
                   notify->extra);
    ret_notification->pid = notify->be_pid;
    PQfreemem(notify);
    return true;
}

void pg_quote_channel(const char *channel, char *out, size_t size)
{
    size_t at = 0;
    out[at++] = '"';
    for (; *channel && at + 3 < size; channel++) {
        if (*channel == '"')
            out[at++] = '"';
        out[at++] = *channel;
    }
    out[at++] = '"';
    out[at] = '\0';
}
