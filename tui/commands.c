/* SPDX-License-Identifier: PostgreSQL */
/* The one table of the subcommands. */
#include <stddef.h>

#include "tui/command.h"
#include "tui/doctor.h"
#include "tui/key.h"
#include "tui/ledger.h"
#include "tui/status.h"
#include "tui/top.h"
#include "tui/yield_command.h"

const struct command commands[] = {
    {"doctor", "whether databases, roles and workers are fit to lead", doctor_run},
    {"key", "the lock of a duty: its key, and who else has it", key_run},
    {"ledger", "shows, installs or prints the ledger", ledger_run},
    {"status", "who leads each duty, for people and scripts", status_run},
    {"top", "who leads, live on the terminal", top_run},
    {"yield", "moves a duty away from who leads it now", yield_run},
    {0},
};
