/* SPDX-License-Identifier: PostgreSQL */
/* A poller on a thread of its own: however long it takes to make a picture of thousands of rows,
 * the keyboard is answered meanwhile. Only the board is shared. */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "observe/publish.h"

struct config;
struct lookout;

/* Looks at what config says, which becomes its own, and leaves pictures on the board, which must
 * outlive it. Signals are to be blocked before. NULL, and config is freed, if no thread can be had.
 */
struct lookout *lookout_new(struct board *board, struct config *config,
                            struct error *err) MUSTCHECK;
void lookout_free(struct lookout *lookout); /* waits for the thread, which waits for nothing long */

/* Readable from when the board has news until lookout_seen. */
int lookout_fd(const struct lookout *lookout);
void lookout_seen(const struct lookout *lookout);

/* As poller_set_config and poller_hurry. */
void lookout_set_config(struct lookout *lookout, struct config *config);
void lookout_hurry(struct lookout *lookout);
