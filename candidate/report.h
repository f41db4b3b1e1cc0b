/* SPDX-License-Identifier: PostgreSQL */
/* Says on a connection of its own that the work of a term has stopped: for a guard, whose candidate
 * is gone. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Blocks, at most within_us, and tries again meanwhile. */
bool report_stopped(const char *conninfo, const char *duty, int64_t generation,
                    const char *instance, int64_t within_us, struct error *err) MUSTCHECK;
