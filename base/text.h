/* SPDX-License-Identifier: PostgreSQL */
/* Small readers and checks of text: numbers, durations, UTF-8, LIKE patterns. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/cleanup.h"

bool text_equal(const char *a, const char *b); /* two NULLs are equal, NULL and "" are not */

/* The whole of text as a decimal integer, with sign; false if it is anything else or out of range.
 */
bool text_to_int64(const char *text, int64_t *ret_value) MUSTCHECK;

/* "250ms", "1s", "5m", "1h30m", "2d": microseconds, at least 0; a bare number but 0 is refused. */
bool text_to_duration_us(const char *text, int64_t *ret_us) MUSTCHECK;

/* Length in bytes of the UTF-8 character at text (of size bytes), or 0 where there is none.
 * RFC 3629: no surrogates, no overlong forms, nothing past U+10FFFF. */
size_t text_utf8_length(const char *text, size_t size);

/* Copies size bytes to out, which has room for 3 * size + 1, each byte that is not UTF-8 as U+FFFD,
 * and a NUL at the end. Returns the bytes written without the NUL. */
size_t text_utf8_sanitize(const char *text, size_t size, char *out);

/* SQL's LIKE with the escape character backslash, byte by byte; linear in space, never exponential.
 */
bool text_like(const char *text, const char *pattern);

/* Writes text with &, <, >, " and ' as HTML's entities. */
void text_html_escape(FILE *out, const char *text);

/* Writes text as the inside of a JSON string, each byte that is not UTF-8 as U+FFFD; logfmt uses
 * the same escapes. */
void text_json_escape(FILE *out, const char *text);
