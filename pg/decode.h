/* SPDX-License-Identifier: PostgreSQL */
/* Rows in binary format into structs: the part of pg/batch.h that reads libpq's results. */
#pragma once

#include <libpq-fe.h>

#include "pg/batch.h"

struct pg_answer *answer_new(PGresult *result); /* owns result */
void answer_free(struct pg_answer *answer);     /* NULL is fine */

/* The timestamptz in row 0 of that column. */
bool decode_time(const PGresult *result, int column, int64_t *ret_us);
