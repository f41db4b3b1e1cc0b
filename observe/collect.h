/* SPDX-License-Identifier: PostgreSQL */
/* One server's reading: plans the sections of a poll, and makes a snapshot of what they answered.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "observe/config.h"
#include "observe/snapshot.h"
#include "pg/batch.h"

/* What must be remembered between two polls and is no part of the picture: the registry's
 * definitions, role names, prepared statements, who the server is. */
struct collector;

/* config and server must outlive it. */
struct collector *collector_new(const struct config *config, const struct config_server *server);
void collector_free(struct collector *collector); /* NULL is fine */

/* A new session: nothing is prepared in it, and the server may be another one. */
void collector_connected(struct collector *collector, const struct pg_session *conn);

/* The sections of the next poll, owned by the collector until the next plan. now_us:
 * CLOCK_MONOTONIC. */
const struct pg_section *collector_plan(struct collector *collector, int64_t now_us, size_t *ret_n);

/* Reads the answers to the plan, and drops the rows of the long ones. started_us and ended_us are
 * CLOCK_REALTIME around the round trip. `previous` (may be NULL) is the last good snapshot. Returns
 * NULL when a section without which there is no picture failed; err says which. */
struct snapshot *collector_take(struct collector *collector, struct pg_batch *batch,
                                const struct snapshot *previous, int64_t started_us,
                                int64_t ended_us, struct error *err) MUSTCHECK;

/* How each section known so far went last; owned by the collector. */
const struct section *collector_sections(const struct collector *collector, size_t *ret_n);

/* True if a poll right now would read what the last one lacks: the name of a role that it met, who
 * the server has become, the ledger that it found there, or the rows and sessions that its registry
 * names. Never more than twice running. */
bool collector_incomplete(const struct collector *collector);

/* Every section failed, for the reason in err: the session was lost or never there. */
void collector_failed(struct collector *collector, const struct error *err);

/* Microseconds that the server worked on the last poll, by its own clock, waits for locks not
 * counted. */
int64_t collector_cost_us(const struct collector *collector);
