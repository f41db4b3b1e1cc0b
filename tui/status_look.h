/* SPDX-License-Identifier: PostgreSQL */
/* Keeps looking at the servers: one poller, for one picture or for many. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "observe/publish.h"
#include "pg/conn.h"

struct status_look;

/* Owns config, which lives as long as the look. Where config->only_duty is set, no more is waited
 * for than that one needs. */
struct status_look *status_look_new(struct config *config);
void status_look_free(struct status_look *look);

/* Ends the look, but what it looked at is the caller's now. */
struct config *status_look_stop(struct status_look *look) MUSTCHECK;

/* The session with that server, if it is idle, else NULL; the caller's now. */
struct pg_session *status_look_session(struct status_look *look, const char *server);

/* True once the server has said whether there is a ledger, and has read it. */
bool status_look_complete(const struct published *server, bool fresh);

enum status_look_end { LOOK_ENOUGH, LOOK_LATE, LOOK_STOPPED };

/* Polls until every server has said all that a first look can tell, until deadline_us
 * (CLOCK_MONOTONIC), or until stop_fd (-1: none) is readable. always: until one of the latter. */
enum status_look_end status_look_wait(struct status_look *look, bool always, int64_t deadline_us,
                                      int stop_fd);

void status_look_take(struct status_look *look, struct picture *ret_picture);
