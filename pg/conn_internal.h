/* SPDX-License-Identifier: PostgreSQL */
/* What the files of pg/ share of a connection. */
#pragma once

#include <libpq-fe.h>

#include "pg/conn.h"

struct pg_session {
    PGconn *pq;              /* NULL while a name is looked up */
    struct resolve *resolve; /* that lookup */
    struct pg_conn_options options;
    char *password; /* from a file; wiped when libpq has it */
    short events;
    unsigned statements; /* prepared so far: each name is used once a session */
    char version[32];
    struct error farewell; /* the server's own words before it closed the session */
};

/* Sets err from libpq's words on the connection, on one line. Always returns false. */
bool pg_set_error(struct error *err, enum error_kind kind, const char *what, const char *words);

/* Keeps the words of a message that ends the session. */
void pg_conn_note_fatal(struct pg_session *conn, const PGresult *message);

/* Sets err for a session that is lost: by the server's words if it said why. Always false. */
bool pg_conn_lost(const struct pg_session *conn, struct error *err);

/* Sends what is left of the output and takes what came in. False when the session is lost. */
bool pg_conn_pump(struct pg_session *conn, struct error *err) MUSTCHECK;
