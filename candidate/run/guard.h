/* SPDX-License-Identifier: PostgreSQL */
/* The guard: a process that waits until pgleader-run is gone, however that came, and then ends the
 * command and reports its work stopped. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct guard_options {
    const char *conninfo, *duty, *instance;
    const char *marker; /* "NAME=value" in the command's environment: finds what left its group */
    int64_t kill_after_us;
    char **argv; /* main's: the guard shows another name in ps, not to be killed by ours */
    int argc;
};

/* What runs now; group 0: nothing. */
struct guard_note {
    pid_t group;
    int64_t generation; /* -1: nothing to report */
};

struct guard {
    struct guard_options options;
    pid_t pid; /* 0: none runs */
    int fd;
    int64_t started_us;     /* CLOCK_BOOTTIME */
    struct guard_note note; /* the last */
};

/* Forks it. It holds no descriptor of ours but standard error, and no signal but SIGKILL ends it.
 * It knows the last note at once. */
bool guard_start(struct guard *guard, struct error *err) MUSTCHECK;

/* A guard that is gone learns it when it is started again. */
void guard_tell(struct guard *guard, struct guard_note note);

/* To be called after SIGCHLD: true if the guard itself was killed. */
bool guard_died(struct guard *guard);

/* Nothing runs any more: waits until the guard has ended. */
void guard_end(struct guard *guard);
