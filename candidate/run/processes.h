/* SPDX-License-Identifier: PostgreSQL */
/* Processes as /proc shows them. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct process {
    pid_t pid, parent, group;
    bool zombie; /* only waits to be reaped */
};

/* Calls visit for every process of the machine until it returns false. */
void processes_each(bool (*visit)(void *context, const struct process *process), void *context);

/* The same for our own children, zombies too; theirs come later, when they are ours. */
void processes_each_child(bool (*visit)(void *context, const struct process *process),
                          void *context);

/* Whether it was started with "NAME=value" in its environment; false also where we may not look. */
bool process_has_environment(pid_t pid, const char *pair);
