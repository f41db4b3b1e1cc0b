/* SPDX-License-Identifier: PostgreSQL */
/* What the files of `pgleader ledger` share. */
#pragma once

#include "tui/servers.h"

struct ledger_arguments {
    struct server_options servers;
    bool yes, json, help;
};

/* Both return the exit status. */
int ledger_status(const struct config *config, const struct ledger_arguments *arguments);
int ledger_install(const struct config *config, const struct ledger_arguments *arguments);
