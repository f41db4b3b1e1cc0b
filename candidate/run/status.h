/* SPDX-License-Identifier: PostgreSQL */
/* The status file: how pgleader-run ended, as one JSON object, since a command may use the same
 * exit statuses. Until it ends it says "running". */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "candidate/run/ends.h"

struct status {
    const char *duty, *instance, *lease; /* lease: "TABLE:ROW", or NULL */
    char key[LOCK_KEY_TEXT_SIZE];        /* "" while not known */
    enum end end;
    int status;                               /* to exit with */
    char reason[1024];                        /* more than the end's sentence, or "" */
    const char *rule;                         /* by which leadership ended, or NULL */
    int64_t generation;                       /* of the last term, -1: none */
    bool has_command;                         /* one ended */
    int command;                              /* its wait status */
    int64_t started_us, leading_us, ended_us; /* CLOCK_REALTIME, 0: not */
};

/* Replaces the file at once (a temporary file beside it, renamed); what cannot be replaced, such as
 * a pipe or a mounted file, is written in place. NULL path: nothing to do. */
bool status_write(const struct status *status, const char *path, struct error *err) MUSTCHECK;
