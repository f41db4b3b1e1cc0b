/* SPDX-License-Identifier: PostgreSQL */
/* The connections whose queries a loss cancels. Each cancel blocks, so it runs on a thread of its
 * own, which may outlive the candidate: the set is counted. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cancels;
struct pg_conn;

struct cancels *cancels_new(void);
void cancels_free(struct cancels *set); /* NULL is fine */

/* False if the connection is not there. The owner of the connection calls it. */
bool cancels_add(struct cancels *set, struct pg_conn *conn, int64_t generation) MUSTCHECK;

/* Cancels what the connections of that generation run, and does not wait. */
void cancels_fire(struct cancels *set, int64_t generation);

bool cancels_busy(struct cancels *set); /* a cancel is under way */

/* Takes out one connection, and waits for its cancel, but no longer than within_us; or all of them,
 * and does not wait. */
void cancels_remove(struct cancels *set, const struct pg_conn *conn, int64_t within_us);
void cancels_clear(struct cancels *set);
