/* SPDX-License-Identifier: PostgreSQL */
/* Threads for the few calls that may block: they end on their own and nobody waits for them. */
#pragma once

#include <stdbool.h>

#include "base/cleanup.h"

/* False if the system has no thread to spare. */
bool thread_run_detached(void *(*run)(void *), void *argument) MUSTCHECK;
