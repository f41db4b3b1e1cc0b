/* SPDX-License-Identifier: PostgreSQL */
/* The local log of yields, where no ledger takes them. */
#pragma once

#include "tui/guard.h"

/* One line on standard error, and one to syslog. */
void yield_log(const struct yield_target *target, const char *reason, const char *what);
