/* SPDX-License-Identifier: PostgreSQL */
/* Keys to state. */
#include "tui/ui.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "tui/screen.h"
#include "tui/typing.h"

static const int64_t intervals[] = {500000,        SECOND_US,      2 * SECOND_US,
                                    5 * SECOND_US, 10 * SECOND_US, 30 * SECOND_US};
enum { INTERVALS = sizeof intervals / sizeof *intervals };

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

void ui_settle(struct ui *ui, const struct picture *picture, int width, int height)
{
    if (!list_is_of(&ui->list, picture, ui->order, ui->inverted, ui->filter)) {
        list_done(&ui->list);
        list_build(picture, ui->order, ui->inverted, ui->filter, &ui->list);
    }
    if (!ui->server) {
        ui->cursor = first_duty(&ui->list);
        remember(ui, picture);
    } else {
        find_again(ui, picture);
    }
    int mark = -1;
    ui->page = screen_page(ui, height);
    ui->scroll_most = screen_lines(ui, picture, width, &mark) - ui->page;
    if (ui->form.follow && mark >= 0)
        show_line(ui, mark);
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

static void move(struct ui *ui, const struct picture *picture, int64_t by)
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
    ui->cursor = (size_t)(to < 0 ? 0 : to > last ? last : to);
    remember(ui, picture);
}

static void find(struct ui *ui, const struct picture *picture, int direction)
{
    size_t n = ui->list.n;
    if (!*ui->find) {
        ui_say(ui, "Nothing to find yet: / asks for a text");
        return;
    }
    for (size_t step = 1; step <= n; step++) {
        size_t i = (ui->cursor + (direction > 0 ? step : n - step % n)) % n;
        if (list_row_matches(&ui->list.rows[i], ui->find)) {
            ui->cursor = i;
            remember(ui, picture);
            return;
        }
    }
    ui_say(ui, "Not found: %s", ui->find);
}

static void go_to(struct ui *ui, enum screen_id screen)
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

static void back(struct ui *ui)
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

static enum ui_wish change_interval(struct ui *ui, int direction)
{
    int at = 0;
    while (at < INTERVALS - 1 && intervals[at] < ui->interval_us)
        at++;
    at += direction;
    if (at < 0 || at >= INTERVALS) {
        ui_say(ui, "No %s than that", direction < 0 ? "oftener" : "seldomer");
        return WISH_NONE;
    }
    ui->interval_us = intervals[at];
    return WISH_INTERVAL;
}

/* While a yield is watched, whoever ends the program is told what that means, once. */
static enum ui_wish quit(struct ui *ui, int code)
{
    bool watched = ui->form.view && !form_is_dialog(&ui->form) &&
                   ui->form.view->phase != PHASE_DONE && !ui->warned;
    if (watched && code != CODE_ESCAPE) {
        ui->warned = true;
        ui_say(ui, "A yield is under way: once more ends pgleader, and its outcome stays unknown");
        return WISH_NONE;
    }
    if (code != CODE_ESCAPE)
        return WISH_QUIT;
    if (!*ui->filter)
        ui_say(ui, "q quits");
    ui->filter[0] = '\0';
    return WISH_NONE;
}

static void start_entry(struct ui *ui, enum ui_entry entry)
{
    ui->entry = entry;
    (void)snprintf(ui->typed, sizeof ui->typed, "%s", entry == ENTRY_FILTER ? ui->filter : "");
}

static enum ui_wish start_yield(struct ui *ui)
{
    const struct list_row *row = ui_row(ui);
    if (ui->form.view)
        go_to(ui, form_is_dialog(&ui->form) ? SCREEN_YIELD : SCREEN_WATCH);
    else if (!ui->may_yield)
        ui_say(ui, "This screen ends no session: start it with --allow-yield, or use `pgleader "
                   "yield DUTY`");
    else if (!row)
        ui_say(ui, "Nothing can be yielded here: the cursor is on no duty of the picture");
    else if (!row->fresh)
        ui_say(ui, "Nothing can be yielded: the picture is old, and who leads is unknown");
    else if (ui->screen == SCREEN_DUTY)
        return WISH_YIELD_OPEN;
    else {
        go_to(ui, SCREEN_DUTY);
        ui_say(ui, "Y once more asks whether to yield it");
    }
    return WISH_NONE;
}

/* Esc in the dialog and in the watch: what is under way goes on. */
static enum ui_wish leave_yield(struct ui *ui)
{
    bool ends = form_is_dialog(&ui->form) || ui->form.view->phase == PHASE_DONE;
    ui->screen = SCREEN_DUTY;
    ui->below = SCREEN_LIST;
    ui->scroll = 0;
    if (ui->form.view->phase <= PHASE_ASKING)
        ui_say(ui, "Cancelled: nothing was sent");
    return ends ? WISH_YIELD_END : WISH_NONE;
}

static enum ui_wish press(struct ui *ui)
{
    struct yield_form *form = &ui->form;
    if (form->focus == FORM_CANCEL || form->view->phase == PHASE_DONE)
        return leave_yield(ui);
    if (form->focus != FORM_YIELD) {
        form_move(form, 1);
        return WISH_NONE;
    }
    struct arena *arena = arena_new();
    const char *obstacle = form_obstacle(form, arena);
    if (obstacle)
        ui_say(ui, "Nothing is sent: %s", obstacle);
    else
        form->confirmed = true;
    arena_free(arena);
    return obstacle ? WISH_NONE : WISH_YIELD_SEND;
}

/* The keys of the dialog and the watch alone; false for any other. */
static bool act_yield(struct ui *ui, enum action action, enum ui_wish *ret_wish)
{
    bool shown = ui->screen == SCREEN_YIELD || ui->screen == SCREEN_WATCH;
    *ret_wish = WISH_NONE;
    if (action == ACTION_YIELD)
        *ret_wish = start_yield(ui);
    else if (!shown || !ui->form.view)
        return false;
    else if (action == ACTION_BACK)
        *ret_wish = leave_yield(ui);
    else if (action == ACTION_NEXT_FIELD || action == ACTION_PREVIOUS_FIELD)
        form_move(&ui->form, action == ACTION_NEXT_FIELD ? 1 : -1);
    else if (action == ACTION_PRESS && !ui->form.confirmed)
        *ret_wish = press(ui);
    else
        return false;
    return true;
}

void ui_follow_yield(struct ui *ui)
{
    bool dialog = form_is_dialog(&ui->form);
    enum screen_id from = dialog ? SCREEN_WATCH : SCREEN_YIELD;
    enum screen_id to = dialog ? SCREEN_YIELD : SCREEN_WATCH;
    if (ui->screen == from) {
        ui->screen = to;
        ui->scroll = 0;
    }
    if (ui->helped == from)
        ui->helped = to;
}

/* The keys that move; false for any other. */
static bool act_move(struct ui *ui, const struct picture *picture, enum action action)
{
    static const struct {
        enum action action;
        int lines, half_pages;
    } moves[] = {
        {ACTION_DOWN, 1, 0},         {ACTION_UP, -1, 0},        {ACTION_HALF_DOWN, 0, 1},
        {ACTION_HALF_UP, 0, -1},     {ACTION_PAGE_DOWN, 0, 2},  {ACTION_PAGE_UP, 0, -2},
        {ACTION_FIRST, -INT_MAX, 0}, {ACTION_LAST, INT_MAX, 0},
    };
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        if (moves[i].action == action) {
            int half = ui->page > 1 ? ui->page / 2 : 1;
            int pages = moves[i].half_pages / 2 * ui->page;
            move(ui, picture, (int64_t)moves[i].lines + pages + moves[i].half_pages % 2 * half);
            return true;
        }
    }
    return false;
}

/* The keys that change what is shown; false for any other. */
static bool act_view(struct ui *ui, const struct picture *picture, enum action action)
{
    if (action == ACTION_OPEN && ui_row(ui))
        go_to(ui, SCREEN_DUTY);
    else if (action == ACTION_BACK)
        back(ui);
    else if (action == ACTION_EVENTS)
        go_to(ui, SCREEN_EVENTS);
    else if (action == ACTION_LOCKS)
        go_to(ui, SCREEN_LOCKS);
    else if (action == ACTION_HELP)
        go_to(ui, SCREEN_HELP);
    else if (action == ACTION_FIND)
        start_entry(ui, ENTRY_FIND);
    else if (action == ACTION_FILTER)
        start_entry(ui, ENTRY_FILTER);
    else if (action == ACTION_FIND_NEXT)
        find(ui, picture, 1);
    else if (action == ACTION_FIND_PREVIOUS)
        find(ui, picture, -1);
    else if (action == ACTION_SORT)
        ui->order = (ui->order + 1) % ORDERS;
    else if (action == ACTION_INVERT)
        ui->inverted = !ui->inverted;
    else if (action == ACTION_PAUSE)
        ui->paused = !ui->paused;
    else if (action == ACTION_TIMES)
        ui->times = (ui->times + 1) % TIMES;
    else
        return false;
    return true;
}

static enum ui_wish act(struct ui *ui, const struct picture *picture, enum action action, int code)
{
    enum ui_wish wish = WISH_NONE;
    if (act_yield(ui, action, &wish) || act_move(ui, picture, action) ||
        act_view(ui, picture, action))
        return wish;
    if (action == ACTION_QUIT)
        return quit(ui, code);
    if (action == ACTION_FASTER || action == ACTION_SLOWER)
        return change_interval(ui, action == ACTION_FASTER ? -1 : 1);
    if (action == ACTION_SAVE)
        return WISH_SAVE;
    return action == ACTION_REDRAW ? WISH_REDRAW : WISH_NONE;
}

static void end_entry(struct ui *ui, const struct picture *picture)
{
    bool filters = ui->entry == ENTRY_FILTER;
    char *kept = filters ? ui->filter : ui->find;
    ui->entry = ENTRY_NONE;
    (void)snprintf(kept, UI_TEXT_SIZE, "%s", ui->typed);
    if (!filters && *ui->find)
        find(ui, picture, 1);
}

static void type(struct ui *ui, const struct picture *picture, int code)
{
    if (code == CODE_ENTER)
        end_entry(ui, picture);
    else if (code == CODE_ESCAPE)
        ui->entry = ENTRY_NONE;
    else
        typing_key(ui->typed, sizeof ui->typed, code);
}

enum ui_wish ui_key(struct ui *ui, const struct picture *picture, int code)
{
    ui->message[0] = '\0';
    if (ui->screen == SCREEN_YIELD && form_type(&ui->form, code))
        return WISH_NONE;
    if (ui->entry == ENTRY_NONE)
        return act(ui, picture, keys_action(ui->screen, code), code);
    type(ui, picture, code);
    return WISH_NONE;
}
