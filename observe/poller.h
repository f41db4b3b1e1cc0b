/* SPDX-License-Identifier: PostgreSQL */
/* Polls every server from one poll(2) loop: connects, reads, keeps history, publishes. The loop is
 * the caller's, so that a program can wait for its own descriptors as well. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "observe/config.h"
#include "observe/publish.h"
#include "pg/conn.h"

/* What a program may want to log; every pointer is valid during the call only. Any hook may be
 * NULL. */
struct poller_hooks {
    void *context;
    void (*connected)(void *context, const char *server, bool direct, const char *version);
    void (*failed)(void *context, const char *server,
                   const struct error *err); /* when the reason is new */
    void (*section)(void *context, const char *server,
                    const struct section *section); /* when up changed */
    void (*event)(void *context, const char *server, const struct event *event);
};

struct poller;

/* application_name names the sessions. The board must outlive the poller. */
struct poller *poller_new(struct board *board, const char *application_name,
                          const struct poller_hooks *hooks);
void poller_free(struct poller *poller); /* NULL is fine */

/* Frees the poller, but what it watched is the caller's now. */
struct config *poller_stop(struct poller *poller) MUSTCHECK;

/* Watches what config says from now on, and owns it. A server that stays keeps its connection, its
 * last picture and its counters. */
void poller_set_config(struct poller *poller, struct config *config);

/* Every server is asked now, or tried again, unless it is being asked. */
void poller_hurry(struct poller *poller);

/* The idle session with the server of that name, in pipeline mode, with nothing prepared that
 * counts: the caller's now. NULL while it is being asked, or is not there. */
struct pg_session *poller_take_session(struct poller *poller, const char *server);

/* Fills fds (room for poller_room of them) and sets *ret_timeout_ms for poll(2). Returns how many.
 */
size_t poller_room(const struct poller *poller);
size_t poller_prepare(struct poller *poller, struct pollfd *fds, int *ret_timeout_ms);

/* After poll(2), with the same fds: does all there is to do, and never blocks. */
void poller_step(struct poller *poller, const struct pollfd *fds, size_t n);
