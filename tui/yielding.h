/* SPDX-License-Identifier: PostgreSQL */
/* The one yield of the live screen: between its dialog and the engine. */
#pragma once

#include "observe/publish.h"
#include "tui/servers.h"
#include "tui/ui.h"

struct yielding;

/* As of `pgleader yield`. */
struct yielding_options {
    int64_t grace_us, wait_us;
};

/* All of these must outlive it. */
struct yielding *yielding_new(const struct server_options *servers,
                              const struct yielding_options *options, struct ui *ui,
                              struct journal *journal);

/* Whoever ends the program while a yield is watched: its outcome is recorded as unknown, within a
 * second, and said on standard error. */
void yielding_free(struct yielding *yielding);

/* Asks about the duty under the cursor; identity is frozen from that picture. */
void yielding_open(struct yielding *yielding, const struct picture *picture);

/* What was typed goes to the guards; they decide on a fresh reading. */
void yielding_send(struct yielding *yielding);

/* Before anything was sent it is cancelled; a watch that is over is put away. */
void yielding_end(struct yielding *yielding);

void yielding_key(struct yielding *yielding); /* a key was pressed: somebody is there */

/* For poll(2): a descriptor or -1, and when to step at the latest; INT64_MAX: there is none. */
void yielding_wants(const struct yielding *yielding, struct pollfd *ret_fd);
int64_t yielding_due_us(const struct yielding *yielding);

/* True if the screen is to be drawn anew. */
bool yielding_step(struct yielding *yielding, const struct picture *picture, bool ready);

/* Right before drawing: guards as of now, and the times that are left. */
void yielding_settle(struct yielding *yielding, int64_t now_us);
