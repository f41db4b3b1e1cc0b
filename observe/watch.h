/* SPDX-License-Identifier: PostgreSQL */
/* One server under watch: its session, its poll, its last picture. */
#pragma once

#include <poll.h>
#include <stdbool.h>

#include "observe/poller.h"

struct watch_context {
    struct board *board;
    struct poller_hooks hooks;
    const char *application_name;
};

struct watch;

/* context, config and server must outlive it. */
struct watch *watch_new(const struct watch_context *context, const struct config *config,
                        const struct config_server *server);
void watch_free(struct watch *watch);

/* Takes over from a watch of the same server, if it is one: picture, counters, and the session if
 * the connection settings are the same. */
void watch_inherit(struct watch *watch, struct watch *old);

void watch_wants(const struct watch *watch, struct pollfd *ret_fd);
int64_t watch_due_us(const struct watch *watch); /* CLOCK_MONOTONIC: the next deadline or poll */

/* Its session, if no poll is under way, else NULL: the caller's now, and a next poll opens another.
 */
struct pg_session *watch_take_session(struct watch *watch);

/* The next poll, or attempt to connect, comes now. */
void watch_hurry(struct watch *watch);

/* ready: its descriptor has something. */
void watch_step(struct watch *watch, bool ready);
