/* SPDX-License-Identifier: PostgreSQL */
/* Is a text well-formed line by line? What both exposition formats have in common, for tests in C;
 * openmetrics.py knows the rest of the rules. */
#pragma once

#include <stddef.h>

/* The first line that is not valid UTF-8 or neither metadata nor a sample; NULL if there is none.
 */
const char *exposition_bad_line(const char *text, size_t size);
