/* SPDX-License-Identifier: PostgreSQL */
/* What changed between two pictures: pure data in, pure data out; no clock, no I/O. */
#pragma once

#include "observe/snapshot.h"

/* Carries previous (may be NULL: the observer has just begun) on into next: fills each duty's
 * trail, judges state, age and mismatch, and writes next's events and takeover histogram. next is
 * the only one changed. */
void history_advance(const struct snapshot *previous, struct snapshot *next);
