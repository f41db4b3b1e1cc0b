/* SPDX-License-Identifier: PostgreSQL */
/* The last two rows of every screen: what is said or typed, or else the newest event; and what the
 * keys do at this moment. */
#include <string.h>

#include "base/memory.h"
#include "tui/screen.h"

/* What the keys do while a line is typed, or an order chosen. */
static const char *const typing_keys[] = {"Enter Take it", "Esc Leave it", "Ctrl-U Erase all",
                                          NULL};
static const char *const sorting_keys[] = {"Right Next", "Left Before", "Enter Take it",
                                           "or its first letter", NULL};

static bool in_footer(const struct ui *ui, const struct key_row *key, bool last)
{
    bool must = key->action == ACTION_HELP || key->action == ACTION_QUIT;
    if (key->action == ACTION_YIELD && !ui->may_yield)
        return false;
    bool fills = key->action == ACTION_NEXT_FIELD || key->action == ACTION_PRESS;
    if (fills && !form_is_open(&ui->form))
        return false;
    return key->footer && key->screens & 1U << ui->screen && must == last;
}

/* A field that is typed into takes the question mark too. */
static const char *footer_of(const struct ui *ui, const struct key_row *key)
{
    bool typed = ui->screen == SCREEN_YIELD && form_takes_text(&ui->form);
    return typed && key->action == ACTION_HELP ? "F1 Help" : key->footer;
}

/* Returns the column behind it; 0: it does not fit. */
static int put_key(struct grid *grid, int column, int end, const char *footer)
{
    int row = grid->height - 1, width = grid_text_width(grid, footer);
    if (column + width > end)
        return 0;
    (void)grid_put(grid, row, column, width, GRID_PLAIN, footer);
    grid_mark(grid, row, column, (int)strcspn(footer, " "), GRID_BOLD);
    return column + width + 2;
}

static int put_keys(const struct ui *ui, struct grid *grid, int column, int end, bool last)
{
    for (const struct key_row *key = key_rows; key->keys; key++) {
        int next = in_footer(ui, key, last) ? put_key(grid, column, end, footer_of(ui, key)) : -1;
        if (next == 0)
            break;
        column = next > 0 ? next : column;
    }
    return column;
}

/* What the keys of this screen do, as many as fit: help and the way out always. */
static void render_footer(const struct ui *ui, struct grid *grid)
{
    int needed = 0, column = 0;
    const char *const *typing = ui->entry == ENTRY_SORT ? sorting_keys : typing_keys;
    for (; ui->entry != ENTRY_NONE && *typing && column >= 0; typing++) {
        int next = put_key(grid, column, grid->width, *typing);
        column = next > 0 ? next : -1;
    }
    if (ui->entry != ENTRY_NONE)
        return;
    for (const struct key_row *key = key_rows; key->keys; key++)
        needed += in_footer(ui, key, true) ? grid_text_width(grid, footer_of(ui, key)) + 2 : 0;
    column = put_keys(ui, grid, 0, grid->width - needed, false);
    (void)put_keys(ui, grid, column, grid->width, true);
}

static bool is_of_yield(enum screen_id screen)
{
    return screen == SCREEN_YIELD || screen == SCREEN_WATCH;
}

/* Of a yield that is not on the screen; which key shows it is said where one does. */
static char *yield_words(const struct ui *ui)
{
    const struct yield_view *view = ui->form.view;
    const char *duty = view->target->duty;
    const char *how =
        keys_action(ui->screen, 'Y') == ACTION_YIELD ? "Y shows it" : "Esc leads back";
    if (form_is_dialog(&ui->form))
        return xasprintf("Nothing is sent: the yield dialog of %s is open: %s", duty, how);
    if (view->phase == PHASE_DONE)
        return xasprintf("Yield of %s: %s %s", duty, view->sentence, how);
    return xasprintf("The yield of %s is under way: %s", duty, how);
}

static char *entry_words(const struct ui *ui)
{
    static const char *const prompts[] = {
        [ENTRY_FIND] = "Find: ", [ENTRY_FILTER] = "Filter: ", [ENTRY_COMMAND] = ":"};
    if (ui->entry != ENTRY_SORT)
        return xasprintf("%s%s_", prompts[ui->entry], ui->typed);
    char *text = xstrdup("Sort by");
    for (int i = 0; i < ORDERS; i++) {
        CLEANUP(free_charp) char *before = text;
        bool chosen = i == (int)ui->order;
        text = xasprintf("%s %s%s%s", before, chosen ? "[" : "", list_order_names[i],
                         chosen ? "]" : "");
    }
    return text;
}

/* "03:50:30Z takeover jobs/roll worker-2"; the screen of events has more. */
static char *newest_words(const struct ui *ui, const struct picture *picture)
{
    char clock[WORDS_SIZE];
    bool several = picture->n > 1;
    const struct journal_entry *entry = journal_at(ui->journal, 0);
    const char *who = entry->step     ? entry->step
                      : entry->holder ? instance_name(entry->duty, entry->holder)
                                      : "";
    words_clock(ui->times == TIMES_AGO ? TIMES_UTC : ui->times, entry->read_us, clock);
    return xasprintf("%s %s %s%s%s%s%s", clock, event_rule(entry), entry->duty,
                     several ? " on " : "", several ? entry->server : "", *who ? ": " : "", who);
}

/* What is said at the left; "": nothing. */
static char *left_words(const struct ui *ui, const struct picture *picture)
{
    if (ui->entry != ENTRY_NONE)
        return entry_words(ui);
    if (*ui->message)
        return xstrdup(ui->message);
    if (ui->form.view && !is_of_yield(ui->screen))
        return yield_words(ui);
    if (ui->screen == SCREEN_LIST && ui->journal && ui->journal->n > 0)
        return newest_words(ui, picture);
    return xstrdup("");
}

/* What there is besides what can be seen; "": nothing. */
static char *right_words(const struct ui *ui)
{
    size_t page = (size_t)ui->page;
    if (ui->screen != SCREEN_LIST)
        return xstrdup(ui->scroll < ui->scroll_most ? " more below: Down, PgDn " : "");
    if (ui->list.n <= page)
        return xstrdup("");
    return xasprintf(" lines %zu to %zu of %zu ", ui->top + 1, ui->top + page, ui->list.n);
}

static void render_message(const struct ui *ui, const struct picture *picture, struct grid *grid)
{
    int row = grid->height - 2;
    CLEANUP(free_charp) char *words = left_words(ui, picture);
    CLEANUP(free_charp) char *left = *words ? xasprintf(" %s ", words) : xstrdup("");
    CLEANUP(free_charp) char *right = right_words(ui);
    bool said = ui->entry != ENTRY_NONE || *ui->message || ui->screen != SCREEN_LIST;
    int used = grid_text_width(grid, left), room = grid->width - grid_text_width(grid, right);
    grid_rule(grid, row, 0);
    if (used > room && !said)
        used = room;
    (void)grid_put(grid, row, 0, used, said ? GRID_BOLD : GRID_PLAIN, left);
    if (used <= room)
        (void)grid_put(grid, row, room, grid->width - room, said ? GRID_BOLD : GRID_DIM, right);
}

void screen_bottom(const struct ui *ui, const struct picture *picture, struct grid *grid)
{
    render_message(ui, picture, grid);
    render_footer(ui, grid);
}
