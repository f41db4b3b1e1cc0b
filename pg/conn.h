/* SPDX-License-Identifier: PostgreSQL */
/* One asynchronous session with a server. Nothing here blocks; the caller waits in poll(2) on fd
 * and events, then steps. Deadlines are the caller's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct pg_session;

struct pg_conn_options {
    const char *conninfo;         /* libpq's */
    const char *application_name; /* used unless conninfo or PGAPPNAME gives one */
    const char *own_name;         /* or NULL; else the application_name whatever they give */
    int silent_after_s;           /* a peer that is silent for so long is lost; 0: libpq's own */
    const char *password;         /* or NULL */
    const char *password_file;    /* or NULL; read now, its first line is the password */
    size_t first_host;            /* of several hosts or addresses, which one is tried first; any */
};

enum pg_progress { PG_AGAIN, PG_DONE, PG_FAILED };

/* Starts to connect; the options' strings must live until the session is there. NULL and err when
 * it cannot even begin. */
struct pg_session *pg_conn_start(const struct pg_conn_options *options,
                                 struct error *err) MUSTCHECK;

/* Goes on connecting: PG_DONE when the session is there. */
enum pg_progress pg_conn_connect(struct pg_session *conn, struct error *err) MUSTCHECK;

/* True while it asks for the address of a host, and has not begun to knock. */
bool pg_conn_looking_up(const struct pg_session *conn);

int pg_conn_fd(
    const struct pg_session *conn); /* may change while connecting; -1 if there is none */
short pg_conn_events(const struct pg_session *conn); /* POLLIN, POLLOUT or both */

int pg_conn_backend_pid(const struct pg_session *conn); /* as the protocol says */
int pg_conn_version(const struct pg_session *conn);     /* 150018 */

/* The version as the server writes it, without what a distribution adds; lives as long as conn. */
const char *pg_conn_version_text(const struct pg_session *conn);

/* Between batches: takes what the server said unasked. False when the session has ended. */
bool pg_conn_idle(struct pg_session *conn, struct error *err) MUSTCHECK;

/* Asks the server to cancel what runs, on a thread of its own, since libpq's cancel may block; then
 * closes. */
void pg_conn_abandon(struct pg_session *conn);

/* Closes; NULL is fine. */
void pg_conn_close(struct pg_session *conn);
