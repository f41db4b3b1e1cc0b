/* SPDX-License-Identifier: PostgreSQL */
/* The one table of the subcommands. */
#include <stddef.h>

#include "tui/command.h"

const struct command commands[] = {
    {0},
};
