/* SPDX-License-Identifier: PostgreSQL */
/* The command line: what keys do, by name. */
#pragma once

#include "tui/ui.h"

struct ui_command {
    const char *name;
    const char *argument; /* as help shows it; "" where there is none */
    const char *help;
    enum ui_wish (*run)(struct ui *ui, const struct picture *picture, const char *argument);
};

/* Ended by a row without a name. */
extern const struct ui_command ui_commands[];

/* Runs a line; the beginning of a name is enough. */
enum ui_wish ui_command(struct ui *ui, const struct picture *picture, const char *line);
