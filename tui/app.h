/* SPDX-License-Identifier: PostgreSQL */
/* The live screen: keyboard, servers, clock and signals in one poll(2) loop. */
#pragma once

#include <stdint.h>

#include "tui/servers.h"
#include "tui/yielding.h"

struct app_options {
    struct server_options servers;
    int64_t interval_us;
    bool allow_yield;
    struct yielding_options yielding;
};

/* Owns config, which was read by these options. Returns the exit status: 0 after a person's q, 128
 * and the signal's number after a signal, 129 when the terminal went away. */
int app_run(const struct app_options *options, struct config *config);
