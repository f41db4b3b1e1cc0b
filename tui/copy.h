/* SPDX-License-Identifier: PostgreSQL */
/* What the person takes along: text for the terminal's clipboard. */
#pragma once

#include "tui/ui.h"

/* The duty's name; in its detail the psql line that finds the lock's owner; in the watch how the
 * yield stands. connects: for each server of the picture what psql connects by. NULL: there is
 * nothing under the cursor. From malloc. */
char *copy_text(const struct ui *ui, const struct picture *picture, char *const *connects);

/* The sequence that asks a terminal to keep the text (OSC 52); from malloc. */
char *copy_sequence(const char *text);
