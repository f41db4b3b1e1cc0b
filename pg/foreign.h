/* SPDX-License-Identifier: PostgreSQL */
/* Connections that are not ours: libpgleader's callers hand in their own PGconn. Calls block. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

struct pg_conn;   /* libpq's PGconn */
struct pg_cancel; /* libpq's PGcancel */

enum { PG_FOREIGN_VALUES = 4 };

/* Runs a statement with n text parameters, in the connection's transaction if it is in one. On
 * success ret_values holds the first row's values as text in the connection's encoding, each NULL
 * or from malloc; ret_values may be NULL. err: USAGE where the connection is busy, CONNECT where it
 * is lost, else QUERY; `what` fills "could not %s". */
bool pg_foreign_call(struct pg_conn *conn, const char *what, const char *text, int n,
                     const char *const *values, char *ret_values[PG_FOREIGN_VALUES],
                     struct error *err) MUSTCHECK;

bool pg_foreign_in_transaction(const struct pg_conn *conn);

/* What cancels the connection's queries, from any thread and also when the connection is gone; NULL
 * where it is not connected. */
struct pg_cancel *pg_foreign_cancel_new(struct pg_conn *conn);
void pg_foreign_cancel_send(struct pg_cancel *cancel); /* returns when the server has taken it */
void pg_foreign_cancel_free(struct pg_cancel *cancel); /* NULL is fine */
