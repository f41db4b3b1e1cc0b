/* SPDX-License-Identifier: PostgreSQL */
/* A batch of independent read-only sections in one round trip.
 *
 * Each section is a transaction of its own in one libpq pipeline:
 *     BEGIN .. READ ONLY; limits and the clock; the query; the clock; Sync; COMMIT; Sync
 * so that a section that fails or runs into its timeout loses only itself. The COMMIT stands after
 * the first Sync: before it, a failing query would leave its transaction open and take the next
 * section with it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "pg/conn.h"

enum { PG_PARAMS_MAX = 2 };

/* A statement that a session prepares once and keeps; zero-initialise one for each text and
 * session. */
struct pg_prepared {
    char name[24]; /* "" while it is not prepared */
};

struct pg_section {
    const char *name;
    const char *query;
    int n_params;
    const char *params[PG_PARAMS_MAX]; /* as text */
    struct pg_prepared *prepared;      /* NULL: never prepare, as behind a pooler */
    int64_t lock_timeout_us, statement_timeout_us;
};

struct pg_answer; /* rows of one section */

/* How a section ended. `rows` is NULL when it failed; clocks are the server's, in microseconds. */
struct pg_outcome {
    struct pg_answer *rows;
    int64_t clock_before_us, clock_after_us;
    struct error error;
};

struct pg_batch;

/* Queues n sections (copied by value; their strings must live until the batch ends) on an idle
 * session. */
struct pg_batch *pg_batch_start(struct pg_session *conn, const struct pg_section *sections,
                                size_t n, struct error *err) MUSTCHECK;

/* PG_DONE when every section has its outcome; PG_FAILED when the session is lost. */
enum pg_progress pg_batch_step(struct pg_batch *batch, struct error *err) MUSTCHECK;

/* Waits no longer: every section that has no outcome yet fails with err, and the one that the
 * server is at as cancelled (57014). The session must be abandoned afterwards. */
void pg_batch_give_up(struct pg_batch *batch, const struct error *err);

const struct pg_outcome *pg_batch_outcome(const struct pg_batch *batch, size_t section);

/* The rows of a section are not needed any longer: thousands take memory that the picture of them
 * needs as well. */
void pg_batch_drop_rows(struct pg_batch *batch, size_t section);

void pg_batch_free(struct pg_batch *batch); /* NULL is fine */

/* Decoding: a struct a row, a table of its columns. What is NULL in SQL becomes -1 in a number,
 * TIME_UNKNOWN in a time, NAN in a float8, false in a bool and NULL in a text. */
enum pg_field {
    PG_BOOL,   /* bool <- bool */
    PG_INT4,   /* int32_t <- int2, int4 */
    PG_INT8,   /* int64_t <- int2, int4, int8, oid */
    PG_FLOAT8, /* double <- float8 */
    PG_TIME,   /* int64_t microseconds since the Unix epoch <- timestamptz; infinity is INT64_MAX */
    PG_TEXT,   /* const char * <- text, name, varchar, char; valid UTF-8 */
    PG_INET,   /* const char * <- inet: the address alone */
};

struct pg_column {
    const char *name;
    enum pg_field field;
    size_t offset;
};

/* Decodes all rows into an array in the arena. Columns are found by name; one that is missing or of
 * another type is ERROR_QUERY. `columns` ends with a row without a name. */
bool pg_answer_decode(const struct pg_answer *answer, const struct pg_column *columns,
                      size_t row_size, struct arena *arena, void **ret_rows, size_t *ret_n,
                      struct error *err) MUSTCHECK;

/* "schema"."table" from schema.table or "Odd Name"."x"; false if it is not an identifier or two. */
bool pg_quote_name(struct arena *arena, const char *name, const char **ret_quoted) MUSTCHECK;
