/* SPDX-License-Identifier: PostgreSQL */
/* JSON as it is written, value by value: valid whatever the strings hold, and nothing is kept. What
 * is not known is null. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Zero-initialised but for `out`. */
struct json {
    FILE *out;
    int depth;
    bool more; /* something stands before, in the same object or array */
};

/* `name`: of a member of an object; NULL for the element of an array, and for the whole. */

void json_open(struct json *json, const char *name, char bracket); /* '{' or '[' */
void json_close(struct json *json, char bracket);                  /* '}' or ']' */

void json_text(struct json *json, const char *name, const char *text); /* NULL: null */
void json_bool(struct json *json, const char *name, bool value);
void json_null(struct json *json, const char *name);
void json_integer(struct json *json, const char *name, int64_t value);
void json_count(struct json *json, const char *name, int64_t value);  /* below 0: null */
void json_number(struct json *json, const char *name, double value);  /* not finite: null */
void json_time(struct json *json, const char *name, int64_t time_us); /* not a time: null */

/* As a number of seconds, exact; TIME_UNKNOWN: null. */
void json_seconds(struct json *json, const char *name, int64_t us);
