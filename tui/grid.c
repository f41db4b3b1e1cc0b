/* SPDX-License-Identifier: PostgreSQL */
/* Text into cells. UTF-8 is decoded here, because the locale may not know it. */
#include "tui/grid.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "tui/harmless.h"

enum { REPLACEMENT = 0xFFFD, ELLIPSIS = 0x2026, RULE = 0x2500 };

struct grid *grid_new(int width, int height, bool unicode)
{
    struct grid *grid = xcalloc(1, sizeof *grid);
    grid->width = width > 0 ? width : 1;
    grid->height = height > 0 ? height : 1;
    grid->unicode = unicode;
    size_t n = (size_t)grid->width * (size_t)grid->height;
    grid->cells = xcalloc(n, sizeof *grid->cells);
    for (size_t i = 0; i < n; i++)
        grid->cells[i].text[0] = L' ';
    return grid;
}

void grid_free(struct grid *grid)
{
    if (grid)
        free(grid->cells);
    free(grid);
}

static bool cell_equal(const struct cell *a, const struct cell *b)
{
    return a->attr == b->attr && memcmp(a->text, b->text, sizeof a->text) == 0;
}

bool grid_equal(const struct grid *a, const struct grid *b)
{
    if (a->width != b->width || a->height != b->height)
        return false;
    size_t n = (size_t)a->width * (size_t)a->height;
    for (size_t i = 0; i < n; i++) {
        if (!cell_equal(&a->cells[i], &b->cells[i]))
            return false;
    }
    return true;
}

/* Takes one character off *text: what is shown for it, and its width. */
static wchar_t next_character(const struct grid *grid, const char **text, int *ret_width)
{
    size_t length = text_utf8_length(*text, strlen(*text));
    wchar_t c = length ? (wchar_t)utf8_point(*text, length) : REPLACEMENT;
    *text += length ? length : 1;
    *ret_width = 1;
    if (c >= 0x20 && c < 0x7F)
        return c;
    if (!grid->unicode)
        return L'?';
    int width = point_is_format((uint32_t)c) ? -1 : wcwidth(c);
    if (width < 0)
        return REPLACEMENT;
    *ret_width = width;
    return c;
}

int grid_text_width(const struct grid *grid, const char *text)
{
    int total = 0;
    while (*text) {
        int width = 0;
        (void)next_character(grid, &text, &width);
        total += width;
    }
    return total;
}

static struct cell *cell_at(struct grid *grid, int row, int column)
{
    if (row < 0 || row >= grid->height || column < 0 || column >= grid->width)
        return NULL;
    return &grid->cells[(size_t)row * (size_t)grid->width + (size_t)column];
}

static void set_cell(struct grid *grid, int row, int column, unsigned attr, wchar_t c)
{
    struct cell *cell = cell_at(grid, row, column);
    if (cell)
        *cell = (struct cell){.text = {c}, .attr = attr};
}

static void combine(struct grid *grid, int row, int column, wchar_t c)
{
    struct cell *cell = cell_at(grid, row, column);
    if (!cell)
        return;
    if (!cell->text[0])
        cell = cell_at(grid, row, column - 1);
    for (int i = 1; cell && i < CELL_CHARACTERS; i++) {
        if (!cell->text[i]) {
            cell->text[i] = c;
            return;
        }
    }
}

/* Writes what of text lies between the cells `from` and `until` of its own; a wide character that
 * only half lies there is left out. */
static int put_part(struct grid *grid, int row, int column, unsigned attr, const char *text,
                    int from, int until)
{
    int at = 0, used = 0;
    bool shown = false;
    while (*text && at <= until) {
        int width = 0;
        wchar_t c = next_character(grid, &text, &width);
        if (width == 0 && shown)
            combine(grid, row, column + used - 1, c);
        if (width == 0)
            continue;
        shown = at >= from && at + width <= until && column + used + width <= grid->width;
        if (shown) {
            set_cell(grid, row, column + used, attr, c);
            if (width == 2)
                set_cell(grid, row, column + used + 1, attr, L'\0');
            used += width;
        }
        at += width;
    }
    return used;
}

int grid_put(struct grid *grid, int row, int column, int width, unsigned attr, const char *text)
{
    if (width > grid->width - column)
        width = grid->width - column;
    int whole = grid_text_width(grid, text);
    if (width <= 0 || column < 0)
        return 0;
    if (whole <= width)
        return put_part(grid, row, column, attr, text, 0, whole);
    int head = width / 2, tail = width - head - 1;
    int used = put_part(grid, row, column, attr, text, 0, head);
    set_cell(grid, row, column + used, attr, grid->unicode ? ELLIPSIS : L'~');
    used++;
    return used + put_part(grid, row, column + used, attr, text, whole - tail, whole);
}

void grid_put_right(struct grid *grid, int row, int column, int width, unsigned attr,
                    const char *text)
{
    int whole = grid_text_width(grid, text);
    int blank = whole < width ? width - whole : 0;
    (void)grid_put(grid, row, column + blank, width - blank, attr, text);
}

int grid_printf(struct grid *grid, int row, int column, unsigned attr, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    CLEANUP(free_charp) char *text = xvasprintf(format, args);
    va_end(args);
    return grid_put(grid, row, column, grid->width - column, attr, text);
}

void grid_mark(struct grid *grid, int row, int column, int width, unsigned attr)
{
    for (int i = 0; i < width; i++) {
        struct cell *cell = cell_at(grid, row, column + i);
        if (cell)
            cell->attr |= attr;
    }
}

void grid_rule(struct grid *grid, int row, int column)
{
    for (int i = column; i < grid->width; i++)
        set_cell(grid, row, i, GRID_DIM, grid->unicode ? RULE : L'-');
}

/* As UTF-8: a grid that is not unicode holds ASCII alone. */
static void print_character(wchar_t c, FILE *out)
{
    uint32_t point = (uint32_t)c;
    if (point < 0x80) {
        (void)putc((int)point, out);
        return;
    }
    int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    static const unsigned char heads[] = {0, 0xC0, 0xE0, 0xF0};
    (void)putc((int)(heads[more] | point >> (6 * more)), out);
    while (more-- > 0)
        (void)putc((int)(0x80 | (point >> (6 * more) & 0x3F)), out);
}

void grid_print(const struct grid *grid, FILE *out)
{
    for (int row = 0; row < grid->height; row++) {
        const struct cell *cells = grid->cells + (size_t)row * (size_t)grid->width;
        int end = grid->width;
        while (end > 0 && cells[end - 1].text[0] == L' ' && !cells[end - 1].text[1])
            end--;
        for (int column = 0; column < end; column++) {
            for (const wchar_t *c = cells[column].text; *c; c++)
                print_character(*c, out);
        }
        (void)putc('\n', out);
    }
}
