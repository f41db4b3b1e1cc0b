/* SPDX-License-Identifier: PostgreSQL */
/* Expositions in tests: made from a picture, searched, and checked line by line for what both
 * formats have in common; openmetrics.py knows the rest of the rules. */
#pragma once

#include <stddef.h>

#include "exporter/negotiate.h"

struct picture;

/* The first line that is not valid UTF-8 or neither metadata nor a sample; NULL if there is none.
 */
const char *exposition_bad_line(const char *text, size_t size);

/* A whole exposition, from malloc, without what changes from run to run. */
char *exposition_render(const struct picture *picture, enum exposition_format format);

/* What follows head in the first line that begins with it, or NULL; it ends at a newline. */
const char *exposition_sample(const char *text, const char *head);
