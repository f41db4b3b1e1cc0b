/* SPDX-License-Identifier: PostgreSQL */
/* Text that others chose, on a terminal: it obeys none of it. */
#pragma once

#include <stdio.h>

/* Writes the text with a question mark for each control character, those of U+0080 to U+009F too.
 */
void print_harmless(FILE *out, const char *text);
