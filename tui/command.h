/* SPDX-License-Identifier: PostgreSQL */
/* The subcommands of pgleader, and how they end. */
#pragma once

#include "base/error.h"

/* Shared by all; a subcommand's own stand in its file. */
enum {
    STATUS_USAGE = 64,
    STATUS_UNAVAILABLE = 69,
    STATUS_UNWRITTEN = 74,
    STATUS_NO_PERMISSION = 77
};

struct command {
    const char *name;
    const char *summary;               /* one line of `pgleader --help` */
    int (*run)(int argc, char **argv); /* argv[0] is the subcommand's name; the exit status */
};

/* Ended by a row without a name. */
extern const struct command commands[];

/* "pgleader NAME: MESSAGE", then detail and hint, on standard error; returns status. */
int command_fail(const char *name, const struct error *err, int status);

/* The status once all is printed; the other one, with a line on standard error, where it could not
 * be: who reads nothing must not take it for nothing to report. */
int command_written(const char *name, int status, int unwritten);
