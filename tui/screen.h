/* SPDX-License-Identifier: PostgreSQL */
/* From state and picture to a grid: pure functions. A screen is a file. */
#pragma once

#include "tui/grid.h"
#include "tui/ui.h"

/* The part of a grid that a screen fills, line by line; what is scrolled away is only counted. */
struct page {
    struct grid *grid;
    int first, height; /* rows of the grid */
    int top;           /* lines above it */
    int n;             /* lines so far */
    int mark;          /* the first line of what is typed into; -1: there is none */
    int mark_end;      /* its last one, where the next character goes; not before mark */
};

/* The row of a line; -1 where it is not on the page, which grid_put takes for nothing. */
int page_row(const struct page *page, int line);

/* The row of the next line; -1 where it is not on the page, which grid_put takes for nothing. */
int page_next(struct page *page);

/* A bold label and a text beside it, on as many lines as it needs. */
void page_entry(struct page *page, int indent, int label_width, const char *label, unsigned attr,
                const char *text);

/* The same with the labels' usual width. */
void page_field(struct page *page, const char *label, unsigned attr, const char *format, ...)
    PRINTF_LIKE(4, 5);

/* A blank line and a heading. */
void page_heading(struct page *page, const char *format, ...) PRINTF_LIKE(2, 3);

/* Lines of text alone, across the page. */
void page_text(struct page *page, unsigned attr, const char *text);

typedef void screen_content(const struct ui *ui, const struct picture *picture, struct page *page);

screen_content screen_duty, screen_events, screen_locks, screen_help, screen_yield, screen_watch;

/* The list scrolls with its cursor; row and height are those of its titles and its rows. */
void screen_list(const struct ui *ui, const struct picture *picture, int64_t now_us,
                 struct grid *grid, int row, int height);

/* How many columns after the first can be scrolled away until the last one is seen. */
int screen_list_shift(const struct ui *ui, int width);

/* The last two rows: what is said or typed, else the newest event; and what keys do. */
void screen_bottom(const struct ui *ui, const struct picture *picture, struct grid *grid);

/* How many lines the newest n events take. */
int screen_event_lines(const struct ui *ui, const struct picture *picture, int width, size_t n);

/* "takeover", or that it is the step of a yield. */
const char *event_rule(const struct journal_entry *entry);

/* "node-b (pid 4711), vacant for 41ms to 143ms on prod-us": what an entry says besides its rule
 * and its duty; from malloc. */
char *event_words(const struct journal_entry *entry, bool several);

/* The whole screen at now_us (CLOCK_MONOTONIC), after ui_settle. */
void screen_render(const struct ui *ui, const struct picture *picture, int64_t now_us,
                   struct grid *grid);

/* How many rows of the list, or lines of any other content, fit; and how many lines there are,
 * with page.mark and page.mark_end. */
int screen_page(const struct ui *ui, int height);
int screen_lines(const struct ui *ui, const struct picture *picture, int width, int *ret_mark,
                 int *ret_mark_end);

/* The next time (CLOCK_MONOTONIC) that the screen looks otherwise although nothing happens, because
 * an age on it has grown; INT64_MAX: never. */
int64_t screen_due_us(const struct ui *ui, const struct picture *picture, int64_t now_us);

/* What is wrong with a server's picture at now_us: how old it is, and why. False: nothing. */
bool screen_banner(const struct published *published, int64_t now_us, enum time_style style,
                   char *out, size_t size);
