/* SPDX-License-Identifier: PostgreSQL */
/* The controlling terminal, lent to the command: in a process group of its own it could not read
 * it, and Ctrl-C would not be for it. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Lends the terminal to the group if it is ours to give: false where there is none, or where we
 * are in the background. */
bool terminal_lend(pid_t group);

/* Takes it back from the group, if the group has it. */
void terminal_take_back(pid_t group);
