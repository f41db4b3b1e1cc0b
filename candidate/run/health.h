/* SPDX-License-Identifier: PostgreSQL */
/* /livez, /readyz and /leaderz over HTTP, served inside the caller's own loop: that it answers says
 * that the loop turns. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* What is answered; the caller changes it between two calls of health_run. */
struct health_state {
    bool ready, leading;
    const char *line; /* the body of every answer: a JSON object */
};

struct health;

/* address: "HOST:PORT", as base/listen.h has it. */
struct health *health_start(const char *address, const struct health_state *state,
                            struct error *err) MUSTCHECK;
void health_stop(struct health *health); /* NULL is fine */

const char *health_names(const struct health *health); /* the addresses bound */

/* What to wait for in poll(2), and how long at most (-1: for ever). */
int health_fd(const struct health *health);
int health_wait_ms(const struct health *health);

/* Serves what can be served without waiting. */
void health_run(struct health *health);
