/* SPDX-License-Identifier: PostgreSQL */
/* Events: what changed since the program was started, newest first. */
#include <inttypes.h>

#include "base/memory.h"
#include "observe/bounds.h"
#include "tui/screen.h"

enum { CLOCK_WIDTH = 10, LOCAL_CLOCK_WIDTH = 14, RULE_WIDTH = 10, LEAST_NAME = 10 };

/* "node-b (pid 4711)"; the duty's own rule says the rest. */
static char *who(const struct journal_entry *entry)
{
    if (entry->step)
        return xstrdup(entry->step);
    if (!entry->holder)
        return xstrdup("");
    const char *name = instance_name(entry->duty, entry->holder);
    if (entry->pid > 0)
        return xasprintf("%s (pid %" PRId32 ")", *name ? name : "no name", entry->pid);
    return xstrdup(name);
}

/* How long nobody led, as bounds; "" where it is none of a takeover. */
static char *gap(const struct journal_entry *entry)
{
    char least[WORDS_SIZE], most[WORDS_SIZE];
    if (entry->step || entry->rule != RULE_TAKEOVER || entry->upper_us < 0)
        return xstrdup("");
    words_duration(entry->lower_us < 0 ? 0 : entry->lower_us, least);
    words_duration(entry->upper_us, most);
    return xasprintf("vacant for %s to %s", least, most);
}

const char *event_rule(const struct journal_entry *entry)
{
    return entry->step ? "yield" : rules[entry->rule].id;
}

char *event_words(const struct journal_entry *entry, bool several)
{
    CLEANUP(free_charp) char *holder = who(entry);
    CLEANUP(free_charp) char *vacancy = gap(entry);
    return xasprintf("%s%s%s%s%s%s", holder, *holder && *vacancy ? ", " : "", vacancy,
                     several && *holder ? " " : "", several ? "on " : "",
                     several ? entry->server : "");
}

/* The column of duties has as much room as they need, and at most a third of the screen. */
static int name_width(const struct journal *journal, const struct grid *grid)
{
    int most = LEAST_NAME;
    for (size_t i = 0; i < journal->n; i++) {
        int width = grid_text_width(grid, journal_at(journal, i)->duty);
        most = width > most ? width : most;
    }
    return most < grid->width / 3 ? most : grid->width / 3;
}

/* The newest n of them, at most all. */
static void render_entries(const struct ui *ui, const struct picture *picture, size_t n,
                           struct page *page)
{
    const struct journal *journal = ui->journal;
    enum time_style style = ui->times == TIMES_AGO ? TIMES_UTC : ui->times;
    int rule = style == TIMES_LOCAL ? LOCAL_CLOCK_WIDTH : CLOCK_WIDTH, name = rule + RULE_WIDTH;
    int width = name_width(journal, page->grid);
    for (size_t i = 0; i < n && i < journal->n; i++) {
        const struct journal_entry *entry = journal_at(journal, i);
        CLEANUP(free_charp) char *words = event_words(entry, picture->n > 1);
        char clock[WORDS_SIZE];
        int row = page_row(page, page->n);
        words_clock(style, entry->read_us, clock);
        page_entry(page, name + width + 1, 0, "", GRID_PLAIN, words);
        (void)grid_put(page->grid, row, 0, rule - 1, GRID_DIM, clock);
        (void)grid_put(page->grid, row, rule, RULE_WIDTH - 1, GRID_BOLD, event_rule(entry));
        (void)grid_put(page->grid, row, name, width, GRID_PLAIN, entry->duty);
    }
}

int screen_event_lines(const struct ui *ui, const struct picture *picture, int width, size_t n)
{
    struct grid *grid = grid_new(width, 1, true);
    struct page page = {.grid = grid, .mark = -1};
    render_entries(ui, picture, n, &page);
    grid_free(grid);
    return page.n;
}

void screen_events(const struct ui *ui, const struct picture *picture, struct page *page)
{
    page_heading(page, "EVENTS since this screen was opened, newest first");
    if (ui->journal && ui->journal->n > 0)
        render_entries(ui, picture, ui->journal->n, page);
    else
        page_text(page, GRID_PLAIN, "Nothing has changed yet.");
}
