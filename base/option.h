/* SPDX-License-Identifier: PostgreSQL */
/* One table of command-line options feeds getopt_long and --help. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"

enum option_type { OPTION_FLAG, OPTION_STRING, OPTION_LIST, OPTION_DURATION, OPTION_SIZE };

/* A repeatable option's values, in order; the strings are argv's own. */
struct option_list {
    const char **items;
    int n;
};

/* `value` points to bool (FLAG), const char * (STRING), struct option_list (LIST), int64_t
 * microseconds (DURATION) or int64_t (SIZE). `fallback` is shown in --help; the caller sets it. */
struct option_row {
    const char *name;     /* "web.listen-address" */
    const char *argument; /* "ADDRESS", NULL for a flag */
    const char *help;     /* one sentence */
    const char *fallback; /* the default in words, or NULL */
    enum option_type type;
    void *value;
};

/* Reads argv by the table (ended by a row without a name). On success *ret_rest is the index of the
 * first operand. On failure err is ERROR_USAGE and names the option. */
bool option_parse(const struct option_row *table, int argc, char **argv, int *ret_rest,
                  struct error *err) MUSTCHECK;

/* The option part of --help, a paragraph each. */
void option_print_help(const struct option_row *table, FILE *out);
