/* SPDX-License-Identifier: PostgreSQL */
/* A text of several statements in one message, with transactions of its own: a file of the ledger.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "pg/conn.h"

/* What the server said meanwhile, WARNING and above; all from malloc, "" where not given. */
struct pg_warning {
    char *message, *detail, *hint;
};

struct pg_warnings {
    struct pg_warning *items;
    size_t n;
};

void pg_warnings_done(struct pg_warnings *warnings);

/* Runs the text on an idle session, outside its pipeline, and waits for its end: at most until
 * deadline_us of CLOCK_MONOTONIC. Rows are dropped. After a failure the session is in no known
 * state: close it. Warnings are kept in either case. */
bool pg_script_run(struct pg_session *conn, const char *text, int64_t deadline_us,
                   struct pg_warnings *warnings, struct error *err) MUSTCHECK;
