/* SPDX-License-Identifier: PostgreSQL */
/* A screen as plain data: cells of text with attributes. Whatever a name holds, it takes the cells
 * that it was given and no others. */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <wchar.h>

#include "base/cleanup.h"

/* Colours are the terminal's own, and never the only sign of anything. */
enum grid_attr {
    GRID_PLAIN = 0,
    GRID_BOLD = 1 << 0,
    GRID_DIM = 1 << 1,
    GRID_REVERSE = 1 << 2,
    GRID_UNDERLINE = 1 << 3,
    GRID_RED = 1 << 4,
    GRID_YELLOW = 1 << 5,
    GRID_GREEN = 1 << 6,
};

enum { CELL_CHARACTERS = 3 };

/* A character and what combines with it, ended by L'\0'. The right half of a wide character is an
 * empty cell. */
struct cell {
    wchar_t text[CELL_CHARACTERS + 1];
    unsigned attr;
};

struct grid {
    int width, height;
    bool unicode; /* what is not ASCII can be shown; else it is '?' */
    struct cell *cells;
};

/* Blank, of at least one cell. */
struct grid *grid_new(int width, int height, bool unicode);
void grid_free(struct grid *grid); /* NULL is fine */

/* True if both would look the same. */
bool grid_equal(const struct grid *a, const struct grid *b);

/* How many cells text takes when nothing is cut. */
int grid_text_width(const struct grid *grid, const char *text);

/* Writes text (UTF-8 or not) into at most width cells from (row, column), cut in its middle where
 * it is longer: names differ at both ends. Control, format and unprintable characters are shown as
 * U+FFFD or '?'. What lies outside of the grid is not written. Returns the cells taken. */
int grid_put(struct grid *grid, int row, int column, int width, unsigned attr, const char *text);

/* The same, at the right end of its width. */
void grid_put_right(struct grid *grid, int row, int column, int width, unsigned attr,
                    const char *text);

/* grid_put without a limit but the grid's edge, of text that is put together. */
int grid_printf(struct grid *grid, int row, int column, unsigned attr, const char *format, ...)
    PRINTF_LIKE(5, 6);

/* Adds attributes to cells that are written already. */
void grid_mark(struct grid *grid, int row, int column, int width, unsigned attr);

/* A line across, from column to the edge. */
void grid_rule(struct grid *grid, int row, int column);

/* The characters alone, each row a line without blanks at its end. */
void grid_print(const struct grid *grid, FILE *out);
