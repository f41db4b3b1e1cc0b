/* SPDX-License-Identifier: PostgreSQL */
/* The three faces of `pgleader status`. Pure: from a view to text. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "tui/status_view.h"

struct status_paper {
    int width;    /* the terminal's; 0: there is none, and nothing is cut */
    bool unicode; /* what is not ASCII can be shown */
    bool colour;
};

/* A line a server, and a table of the duties, those that need a look first. */
void status_text_render(const struct status_view *view, const struct status_paper *paper,
                        FILE *out);

/* One line of words, whatever names stand in them. */
void status_words_print(const struct status_paper *paper, const char *words, FILE *out);

/* As runbook/status-json.md and tui/status.schema.json say. */
void status_json_render(const struct status_view *view, FILE *out);

/* RFC 4180: a header, then a line a duty, and a line without a duty for a server that has none. */
void status_csv_render(const struct status_view *view, FILE *out);
