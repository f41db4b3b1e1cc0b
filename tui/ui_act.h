/* SPDX-License-Identifier: PostgreSQL */
/* What keys and the command line have in common: each changes the state and no more. */
#pragma once

#include "tui/ui.h"

/* By so many lines: the cursor of the list, or another screen's text. */
void ui_move(struct ui *ui, const struct picture *picture, int64_t by);

/* The next row that holds the text of ui->find; direction is 1 or -1. */
void ui_find(struct ui *ui, const struct picture *picture, int direction);

/* The cursor on a row of the list. */
void ui_point_at(struct ui *ui, const struct picture *picture, size_t row);

/* Shows only what holds the text. A cursor that is on no such duty goes to the first one. */
void ui_filter(struct ui *ui, const char *text);

void ui_go_to(struct ui *ui, enum screen_id screen);
void ui_back(struct ui *ui);

/* As that key does on the list: Escape shows all again, any other quits. */
enum ui_wish ui_quit(struct ui *ui, int code);

/* Asks about the duty under the cursor, or shows the yield that is under way. */
enum ui_wish ui_start_yield(struct ui *ui);
