/* SPDX-License-Identifier: PostgreSQL */
/* Leads a duty and runs the command meanwhile. */
#pragma once

#include "candidate/run/arguments.h"
#include "candidate/run/status.h"

/* Blocks until it has ended. *status is filled in: how it ended, and what to exit with. Fails only
 * before it has begun. */
bool run_candidate(const struct arguments *arguments, struct status *status,
                   struct error *err) MUSTCHECK;
