/* SPDX-License-Identifier: PostgreSQL */
/* The command line of pgleader-run. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/log.h"
#include "pg/key.h"

struct arguments {
    const char *duty, *name;
    char *conninfo; /* "" where none is given */
    bool has_key;   /* --lock; else the ledger's registry has the key, or it is a lease */
    struct lock_key key;
    const char *lease;     /* "TABLE:ROW", or NULL */
    char *lease_table;     /* its parts */
    const char *lease_row; /* NULL: named by the duty */
    int64_t lease_us, timeout_us, kill_after_us, settle_us;
    bool queue, recontend, version, help;
    const char *status_file, *health;
    enum log_level log_level;
    enum log_format log_format;
    char **command; /* behind "--" */
    char **argv;    /* main's */
    int argc;
};

/* Reads and checks argv, in which a password is hidden. On failure err is ERROR_USAGE, and status
 * file, duty and name are set as far as they were read. arguments_done must follow in any case. */
bool arguments_read(int argc, char **argv, struct arguments *arguments,
                    struct error *err) MUSTCHECK;

void arguments_done(struct arguments *arguments);

void arguments_print_help(FILE *out);
