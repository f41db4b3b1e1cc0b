/* SPDX-License-Identifier: PostgreSQL */
/* One fork and exec, held back until everybody knows of it. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

struct child {
    pid_t pid; /* and its process group */
    int fd;    /* lets it go, and tells why it could not be executed */
};

/* Forks: in a process group of its own, our standard input, output and error, every other
 * descriptor that we inherited, and signals as they were at our own start. It does nothing yet. */
bool child_fork(char *const *argv, char *const *environment, struct child *ret_child,
                struct error *err) MUSTCHECK;

/* It executes its program now. If we end before, it never does. */
void child_let_go(const struct child *child);

/* Once it has ended: 0 if it was executed, else the errno. Closes the descriptor. */
int child_why_not_executed(struct child *child);
