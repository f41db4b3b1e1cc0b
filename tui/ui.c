/* SPDX-License-Identifier: PostgreSQL */
/* State and pictures: which row the cursor is on, and how far a screen has scrolled. */
#include "tui/ui.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/text.h"
#include "tui/screen.h"
#include "tui/ui_act.h"

void ui_init(struct ui *ui, const struct journal *journal, int64_t interval_us)
{
    *ui = (struct ui){.journal = journal, .interval_us = interval_us, .page = 1};
}

void ui_done(struct ui *ui)
{
    list_done(&ui->list);
    free(STEAL(ui->server));
    free(STEAL(ui->duty));
}

void ui_say(struct ui *ui, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(ui->message, sizeof ui->message, format, args);
    va_end(args);
}

static bool is_under_cursor(const struct ui *ui, const struct picture *picture,
                            const struct list_row *row)
{
    return text_equal(picture->servers[row->server]->server, ui->server) &&
           text_equal(row->duty ? row->duty->name : NULL, ui->duty);
}

/* Remembers which row the cursor is on. */
static void remember(struct ui *ui, const struct picture *picture)
{
    const struct list_row *row = ui->cursor < ui->list.n ? &ui->list.rows[ui->cursor] : NULL;
    free(STEAL(ui->server));
    free(STEAL(ui->duty));
    if (row)
        ui->server = xstrdup(picture->servers[row->server]->server);
    if (row && row->duty)
        ui->duty = xstrdup(row->duty->name);
}

/* The first row that a person can open: a server's line is none. */
static size_t first_duty(const struct list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        if (list->rows[i].duty)
            return i;
    }
    return 0;
}

static void find_again(struct ui *ui, const struct picture *picture)
{
    for (size_t i = 0; i < ui->list.n; i++) {
        if (is_under_cursor(ui, picture, &ui->list.rows[i])) {
            ui->cursor = i;
            return;
        }
    }
    /* In the detail of a duty that is gone the screen says so, and shows no other. */
    if (ui->screen != SCREEN_LIST)
        return;
    if (ui->cursor >= ui->list.n)
        ui->cursor = ui->list.n ? ui->list.n - 1 : 0;
    if (ui->cursor == 0)
        ui->cursor = first_duty(&ui->list);
    remember(ui, picture);
}

/* Scrolls until the line and the one below it can be seen. */
static void show_line(struct ui *ui, int line)
{
    if (ui->scroll < line + 2 - ui->page)
        ui->scroll = line + 2 - ui->page;
    if (ui->scroll > line)
        ui->scroll = line;
}

/* Whoever has scrolled down the events keeps their place while new ones come above. */
static void keep_place(struct ui *ui, const struct picture *picture, int width)
{
    size_t added = ui->journal ? ui->journal->added : 0;
    if (ui->screen == SCREEN_EVENTS && ui->scroll > 0 && added > ui->seen_events)
        ui->scroll += screen_event_lines(ui, picture, width, added - ui->seen_events);
    ui->seen_events = added;
}

void ui_settle(struct ui *ui, const struct picture *picture, int width, int height)
{
    if (!list_is_of(&ui->list, picture, ui->order, ui->inverted, ui->filter)) {
        list_done(&ui->list);
        list_build(picture, ui->order, ui->inverted, ui->filter, &ui->list);
    }
    if (!ui->server || !ui->touched) {
        ui->cursor = first_duty(&ui->list);
        remember(ui, picture);
    } else {
        find_again(ui, picture);
    }
    int mark = -1, mark_end = -1;
    ui->shift_most = screen_list_shift(ui, width);
    if (ui->shift > ui->shift_most)
        ui->shift = ui->shift_most;
    ui->page = screen_page(ui, height);
    keep_place(ui, picture, width);
    ui->scroll_most = screen_lines(ui, picture, width, &mark, &mark_end) - ui->page;
    if (ui->form.follow && mark >= 0) {
        show_line(ui, mark);
        show_line(ui, mark_end);
    }
    if (ui->scroll > ui->scroll_most)
        ui->scroll = ui->scroll_most;
    if (ui->scroll < 0)
        ui->scroll = 0;
    size_t page = (size_t)ui->page;
    if (ui->cursor < ui->top)
        ui->top = ui->cursor;
    if (ui->cursor >= ui->top + page)
        ui->top = ui->cursor + 1 - page;
    if (ui->top + page > ui->list.n)
        ui->top = ui->list.n > page ? ui->list.n - page : 0;
}

const struct list_row *ui_row(const struct ui *ui)
{
    const struct list_row *row = ui->cursor < ui->list.n ? &ui->list.rows[ui->cursor] : NULL;
    return row && row->duty && text_equal(row->duty->name, ui->duty) ? row : NULL;
}

void ui_point_at(struct ui *ui, const struct picture *picture, size_t row)
{
    ui->cursor = row;
    remember(ui, picture);
}

void ui_move(struct ui *ui, const struct picture *picture, int64_t by)
{
    if (ui->screen != SCREEN_LIST) {
        ui->form.follow = false;
        int64_t to = (int64_t)ui->scroll + by;
        ui->scroll = to < 0 ? 0 : to > ui->scroll_most ? ui->scroll_most : (int)to;
        return;
    }
    int64_t last = (int64_t)ui->list.n - 1, to = (int64_t)ui->cursor + by;
    if (last < 0)
        return;
    ui_point_at(ui, picture, (size_t)(to < 0 ? 0 : to > last ? last : to));
}

void ui_find(struct ui *ui, const struct picture *picture, int direction)
{
    size_t n = ui->list.n;
    if (!*ui->find) {
        ui_say(ui, "Nothing to find yet: / asks for a text");
        return;
    }
    for (size_t step = 1; step <= n; step++) {
        size_t i = (ui->cursor + (direction > 0 ? step : n - step % n)) % n;
        if (list_row_matches(&ui->list.rows[i], ui->find)) {
            ui_point_at(ui, picture, i);
            return;
        }
    }
    ui_say(ui, "Not found: %s", ui->find);
}

void ui_filter(struct ui *ui, const char *text)
{
    (void)snprintf(ui->filter, sizeof ui->filter, "%s", text);
    ui->cursor = ui->top = 0;
}

void ui_go_to(struct ui *ui, enum screen_id screen)
{
    if (ui->screen == screen)
        return;
    if (screen == SCREEN_HELP)
        ui->helped = ui->screen;
    else
        ui->below = ui->screen;
    ui->screen = screen;
    ui->scroll = 0;
}

void ui_back(struct ui *ui)
{
    enum screen_id from = ui->screen;
    if (from == SCREEN_HELP) {
        ui->screen = ui->helped;
    } else {
        bool lists = from == SCREEN_DUTY || ui->below == from;
        ui->screen = lists ? SCREEN_LIST : ui->below;
        ui->below = SCREEN_LIST;
    }
    ui->scroll = 0;
}
