/* SPDX-License-Identifier: PostgreSQL */
/* One flat JSON object, written pair by pair; valid whatever the strings hold. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;
    bool more; /* a pair stands there already */
};

struct json json_begin(FILE *out);
void json_text(struct json *json, const char *name, const char *text); /* NULL or "": left out */
void json_number(struct json *json, const char *name, int64_t number);
void json_time(struct json *json, const char *name, int64_t realtime_us); /* 0: left out */
void json_end(struct json *json);                                         /* and a new line */

/* "2026-11-29T20:59:44.123Z" */
enum { TIME_TEXT_SIZE = 40 };
void time_format(int64_t realtime_us, char out[TIME_TEXT_SIZE]);
