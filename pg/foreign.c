/* SPDX-License-Identifier: PostgreSQL */
/* Blocking calls on somebody else's connection. */
#include "pg/foreign.h"

#include <stdio.h>
#include <string.h>

#include <libpq-fe.h>

/* libpq's words with line ends become one line. The ledger's own begin with "could not" and stand
 * as they are. */
static bool set_error(struct error *err, enum error_kind kind, const char *what, const char *words)
{
    char line[900];
    (void)snprintf(line, sizeof line, "%s", words && *words ? words : "no reason given");
    size_t size = strlen(line);
    while (size > 0 && (line[size - 1] == '\n' || line[size - 1] == ' '))
        line[--size] = '\0';
    for (char *c = line; *c; c++) {
        if (*c == '\n' || *c == '\t' || *c == '\r')
            *c = ' ';
    }
    if (strncmp(line, "could not ", 10) == 0)
        return error_set(err, kind, "%s", line);
    return error_set(err, kind, "could not %s: %s", what, line);
}

static bool refused(const PGconn *conn, const PGresult *result, const char *what, struct error *err)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *words = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);
    bool lost = PQstatus(conn) != CONNECTION_OK;
    (void)set_error(err, lost ? ERROR_CONNECT : ERROR_QUERY, what,
                    words ? words : PQerrorMessage(conn));
    if (err && sqlstate)
        (void)snprintf(err->sqlstate, sizeof err->sqlstate, "%s", sqlstate);
    if (hint)
        error_hint(err, "%s", hint);
    return false;
}

static bool copy_row(const PGresult *result, char *ret_values[PG_FOREIGN_VALUES])
{
    bool ok = true;
    for (int i = 0; i < PG_FOREIGN_VALUES; i++) {
        ret_values[i] = NULL;
        if (i >= PQnfields(result) || PQntuples(result) == 0 || PQgetisnull(result, 0, i))
            continue;
        ret_values[i] = strdup(PQgetvalue(result, 0, i));
        ok = ok && ret_values[i];
    }
    for (int i = 0; !ok && i < PG_FOREIGN_VALUES; i++) {
        free(ret_values[i]);
        ret_values[i] = NULL;
    }
    return ok;
}

bool pg_foreign_call(struct pg_conn *conn, const char *what, const char *text, int n,
                     const char *const *values, char *ret_values[PG_FOREIGN_VALUES],
                     struct error *err)
{
    PGTransactionStatusType status = conn ? PQtransactionStatus(conn) : PQTRANS_UNKNOWN;
    if (status == PQTRANS_UNKNOWN)
        return error_set(err, ERROR_CONNECT, "could not %s: the connection is not there", what);
    if (status == PQTRANS_ACTIVE || PQpipelineStatus(conn) != PQ_PIPELINE_OFF)
        return error_set(err, ERROR_USAGE,
                         "could not %s: the connection is busy with another command", what);
    PGresult *result = PQexecParams(conn, text, n, NULL, values, NULL, NULL, 0);
    bool ok = PQresultStatus(result) == PGRES_TUPLES_OK;
    if (!ok)
        (void)refused(conn, result, what, err);
    else if (ret_values && !copy_row(result, ret_values))
        ok = error_set(err, ERROR_SYSTEM, "could not %s: out of memory", what);
    PQclear(result);
    return ok;
}

bool pg_foreign_in_transaction(const struct pg_conn *conn)
{
    PGTransactionStatusType status = conn ? PQtransactionStatus(conn) : PQTRANS_UNKNOWN;
    return status == PQTRANS_INTRANS || status == PQTRANS_INERROR;
}

struct pg_cancel *pg_foreign_cancel_new(struct pg_conn *conn)
{
    return conn && PQstatus(conn) == CONNECTION_OK ? PQgetCancel(conn) : NULL;
}

void pg_foreign_cancel_send(struct pg_cancel *cancel)
{
    char words[256];
    (void)PQcancel(cancel, words, sizeof words);
}

void pg_foreign_cancel_free(struct pg_cancel *cancel)
{
    PQfreeCancel(cancel);
}
