/* SPDX-License-Identifier: PostgreSQL */
/* Golden files: what a rendering must look like, in tests/golden/. `--update` as the program's
 * argument rewrites them instead of comparing. */
#pragma once

#include <stddef.h>

/* Reads the program's arguments; call it first in main. */
void golden_begin(int argc, char **argv);

/* NULL if text is what tests/golden/NAME holds; else what differs first, from malloc. */
char *golden_difference(const char *name, const char *text, size_t size);
