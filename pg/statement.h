/* SPDX-License-Identifier: PostgreSQL */
/* One statement at a time on a session of one's own, outside a transaction, and what the server
 * says unasked. Nothing blocks. */
#pragma once

#include <stdbool.h>

#include "pg/batch.h"
#include "pg/conn.h"

/* Sends a statement with n text parameters. No other may be under way. False when the session is
 * lost. */
bool pg_statement_send(struct pg_session *conn, const char *text, int n, const char *const *values,
                       struct error *err) MUSTCHECK;

/* PG_DONE: it has ended; *ret_answer holds its rows (freed by pg_answer_free), or is NULL where it
 * failed, and then err says why. PG_FAILED: the session is lost. */
enum pg_progress pg_statement_step(struct pg_session *conn, struct pg_answer **ret_answer,
                                   struct error *err) MUSTCHECK;

void pg_answer_free(struct pg_answer *answer); /* NULL is fine */

/* A NOTIFY of a channel that the session listens to. */
struct pg_notification {
    char channel[64];
    char payload[1024]; /* what is longer is cut */
    int pid;            /* of the session that sent it */
};

/* Takes the next one that has come; false if there is none. */
bool pg_notification_take(struct pg_session *conn, struct pg_notification *ret_notification);

/* "pgleader:jobs/x" with the quotes that LISTEN needs; into out, cut to its size. */
void pg_quote_channel(const char *channel, char *out, size_t size);
