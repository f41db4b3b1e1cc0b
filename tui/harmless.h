/* SPDX-License-Identifier: PostgreSQL */
/* Text that others chose, on a terminal: it obeys none of it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Writes the text with a question mark for each control character, those of U+0080 to U+009F too,
 * each format character, and each byte that is no UTF-8. */
void print_harmless(FILE *out, const char *text);

/* The code point at text, a character of so many bytes (text_utf8_length). */
uint32_t utf8_point(const char *text, size_t length);

/* Characters without a picture of their own that turn or hide what stands beside them. */
bool point_is_format(uint32_t c);
