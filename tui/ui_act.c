/* SPDX-License-Identifier: PostgreSQL */
/* Keys to state. */
#include "tui/ui_act.h"

#include <limits.h>
#include <string.h>

#include "tui/typing.h"
#include "tui/ui_command.h"

static const int64_t intervals[] = {500000,        SECOND_US,      2 * SECOND_US,
                                    5 * SECOND_US, 10 * SECOND_US, 30 * SECOND_US};
enum { INTERVALS = sizeof intervals / sizeof *intervals };

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
enum ui_wish ui_quit(struct ui *ui, int code)
{
    bool watched = ui->form.view && !form_is_dialog(&ui->form) &&
                   ui->form.view->phase != PHASE_DONE && !ui->warned;
    if (watched && code != CODE_ESCAPE) {
        ui->warned = true;
        ui_say(ui, "A yield is under way; once more quits, outcome unknown");
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

static void shift(struct ui *ui, int by)
{
    if (ui->shift + by < 0 || ui->shift + by > ui->shift_most)
        ui_say(ui, "%s", by < 0 ? "These are the first columns" : "There are no more columns");
    else
        ui->shift += by;
}

enum ui_wish ui_start_yield(struct ui *ui)
{
    const struct list_row *row = ui_row(ui);
    if (ui->form.view)
        ui_go_to(ui, form_is_dialog(&ui->form) ? SCREEN_YIELD : SCREEN_WATCH);
    else if (!ui->may_yield)
        ui_say(ui, "Read-only: start it with --allow-yield, or `pgleader yield`");
    else if (!row)
        ui_say(ui, "Nothing to yield: the cursor is on no duty");
    else if (!row->fresh)
        ui_say(ui, "Nothing to yield: who leads is unknown, the picture is old");
    else if (row->duty->read && row->duty->owners <= 0)
        ui_say(ui, "Nothing to yield: nobody leads it");
    else if (ui->screen == SCREEN_DUTY)
        return WISH_YIELD_OPEN;
    else {
        ui_go_to(ui, SCREEN_DUTY);
        ui_say(ui, "Y once more asks whether to yield it");
    }
    return WISH_NONE;
}

/* Esc in the dialog and in the watch: what is under way goes on. */
static enum ui_wish leave_yield(struct ui *ui)
{
    enum yield_phase phase = ui->form.view->phase;
    bool ends = phase <= PHASE_ASKING || phase == PHASE_DONE;
    ui->screen = SCREEN_DUTY;
    ui->below = SCREEN_LIST;
    ui->scroll = 0;
    if (phase <= PHASE_ASKING)
        ui_say(ui, "Cancelled: nothing was sent");
    return ends ? WISH_YIELD_END : WISH_NONE;
}

static enum ui_wish press(struct ui *ui)
{
    struct yield_form *form = &ui->form;
    if (form->focus == FORM_CANCEL || form->view->phase > PHASE_ASKING)
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
        *ret_wish = ui_start_yield(ui);
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
            ui_move(ui, picture, (int64_t)moves[i].lines + pages + moves[i].half_pages % 2 * half);
            return true;
        }
    }
    return false;
}

static void open_duty(struct ui *ui)
{
    if (ui_row(ui))
        ui_go_to(ui, SCREEN_DUTY);
    else
        ui_say(ui, "Nothing to open: the cursor is on no duty");
}

static void next_times(struct ui *ui)
{
    static const char *const words[TIMES] = {
        [TIMES_UTC] = "Times in UTC",
        [TIMES_LOCAL] = "Times in the local zone",
        [TIMES_AGO] = "Times of the detail as ages",
    };
    ui->times = (ui->times + 1) % TIMES;
    ui_say(ui, "%s", words[ui->times]);
}

/* The keys that change what is shown; false for any other. */
static bool act_view(struct ui *ui, const struct picture *picture, enum action action)
{
    if (action == ACTION_OPEN)
        open_duty(ui);
    else if (action == ACTION_BACK)
        ui_back(ui);
    else if (action == ACTION_EVENTS)
        ui_go_to(ui, SCREEN_EVENTS);
    else if (action == ACTION_LOCKS)
        ui_go_to(ui, SCREEN_LOCKS);
    else if (action == ACTION_HELP)
        ui_go_to(ui, SCREEN_HELP);
    else if (action == ACTION_FIND)
        start_entry(ui, ENTRY_FIND);
    else if (action == ACTION_FILTER)
        start_entry(ui, ENTRY_FILTER);
    else if (action == ACTION_FIND_NEXT)
        ui_find(ui, picture, 1);
    else if (action == ACTION_FIND_PREVIOUS)
        ui_find(ui, picture, -1);
    else if (action == ACTION_SORT)
        start_entry(ui, ENTRY_SORT);
    else if (action == ACTION_COMMAND)
        start_entry(ui, ENTRY_COMMAND);
    else if (action == ACTION_SHIFT_LEFT || action == ACTION_SHIFT_RIGHT)
        shift(ui, action == ACTION_SHIFT_LEFT ? -1 : 1);
    else if (action == ACTION_INVERT)
        ui->inverted = !ui->inverted;
    else if (action == ACTION_PAUSE)
        ui->paused = !ui->paused;
    else if (action == ACTION_TIMES)
        next_times(ui);
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
        return ui_quit(ui, code);
    if (action == ACTION_FASTER || action == ACTION_SLOWER)
        return change_interval(ui, action == ACTION_FASTER ? -1 : 1);
    if (action == ACTION_SAVE)
        ui->path[0] = '\0';
    static const enum ui_wish wishes[ACTIONS] = {[ACTION_SAVE] = WISH_SAVE,
                                                 [ACTION_COPY] = WISH_COPY,
                                                 [ACTION_REFRESH] = WISH_REFRESH,
                                                 [ACTION_REDRAW] = WISH_REDRAW};
    return wishes[action];
}

static enum ui_wish end_entry(struct ui *ui, const struct picture *picture)
{
    enum ui_entry entry = ui->entry;
    ui->entry = ENTRY_NONE;
    if (entry == ENTRY_COMMAND)
        return ui_command(ui, picture, ui->typed);
    if (entry == ENTRY_FILTER) {
        ui_filter(ui, ui->typed);
        return WISH_NONE;
    }
    (void)snprintf(ui->find, sizeof ui->find, "%s", ui->typed);
    if (*ui->find)
        ui_find(ui, picture, 1);
    return WISH_NONE;
}

static enum ui_wish type(struct ui *ui, const struct picture *picture, int code)
{
    if (code == CODE_ENTER)
        return end_entry(ui, picture);
    if (code == CODE_ESCAPE || (code == CODE_BACKSPACE && !*ui->typed))
        ui->entry = ENTRY_NONE;
    else
        typing_key(ui->typed, sizeof ui->typed, code);
    return WISH_NONE;
}

/* The order's first letter takes it; the list follows the choice at once. */
static void choose_order(struct ui *ui, int code)
{
    bool next = code == CODE_RIGHT || code == CODE_DOWN || code == CODE_TAB || code == '>' ||
                code == CODE_F6;
    bool before = code == CODE_LEFT || code == CODE_UP || code == CODE_BACKTAB;
    if (next || before) {
        ui->order = (ui->order + (next ? 1 : ORDERS - 1)) % ORDERS;
        return;
    }
    for (int i = 0; i < ORDERS; i++) {
        if (code == list_order_names[i][0])
            ui->order = (enum list_order)i;
    }
    ui->entry = ENTRY_NONE;
}

/* False: the key is not the field's. What is pasted may be longer than a field. */
static bool type_field(struct ui *ui, int code)
{
    const char *text = ui->form.texts[ui->form.focus];
    size_t before = strlen(text);
    if (!form_type(&ui->form, code))
        return false;
    if (code >= 0x20 && code < CODE_UP && strlen(text) == before)
        ui_say(ui, "No more fits into this field");
    return true;
}

enum ui_wish ui_key(struct ui *ui, const struct picture *picture, int code)
{
    ui->message[0] = '\0';
    ui->touched = true;
    if (ui->screen == SCREEN_YIELD && type_field(ui, code))
        return WISH_NONE;
    if (ui->entry == ENTRY_SORT) {
        choose_order(ui, code);
        return WISH_NONE;
    }
    if (ui->entry != ENTRY_NONE)
        return type(ui, picture, code);
    return act(ui, picture, keys_action(ui->screen, code), code);
}
