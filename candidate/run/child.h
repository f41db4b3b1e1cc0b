/* SPDX-License-Identifier: PostgreSQL */
/* The program that runs while we lead: its process group, and the guard that ends it when we are
 * killed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* What the guard ends, and reports as stopped; group 0: nothing runs. */
struct guard_note {
    pid_t group;
    int64_t generation; /* -1: nothing to report */
};

struct guard_options {
    const char *conninfo, *duty, *instance;
    int64_t kill_after_us;
};

/* Forks the guard: a process that does nothing but wait until we are gone, however that came, and
 * then ends the group that it was told of last and reports its work stopped. Call it before any
 * thread or connection. */
bool guard_start(const struct guard_options *options, int *ret_fd, pid_t *ret_pid,
                 struct error *err) MUSTCHECK;
bool guard_tell(int fd, struct guard_note note);

/* Starts argv in a process group of its own, with the extra environment ("NAME=value", NULL-ended),
 * our standard input, and signals as they were at our own start. */
bool child_start(char *const *argv, char *const *environment, pid_t *ret_pid,
                 struct error *err) MUSTCHECK;

/* True while any process of the group runs; one that only waits to be reaped does not. */
bool group_alive(pid_t group);
