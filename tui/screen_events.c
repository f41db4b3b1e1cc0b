/* SPDX-License-Identifier: PostgreSQL */
/* Events: what changed since the program was started, newest first. */
#include <inttypes.h>

#include "base/memory.h"
#include "observe/bounds.h"
#include "tui/screen.h"

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

static const char *server_of(const struct picture *picture, const struct journal_entry *entry)
{
    return picture->n > 1 ? entry->server : "";
}

void screen_events(const struct ui *ui, const struct picture *picture, struct page *page)
{
    page_heading(page, "EVENTS since this screen was opened, newest first");
    if (!ui->journal || ui->journal->n == 0)
        (void)grid_put(page->grid, page_next(page), 0, page->grid->width, GRID_PLAIN,
                       "Nothing has changed yet.");
    for (size_t i = 0; ui->journal && i < ui->journal->n; i++) {
        const struct journal_entry *entry = journal_at(ui->journal, i);
        CLEANUP(free_charp) char *holder = who(entry);
        CLEANUP(free_charp) char *vacancy = gap(entry);
        char clock[WORDS_SIZE];
        const char *id = entry->step ? "yield" : rules[entry->rule].id;
        words_clock(ui->times == TIMES_AGO ? TIMES_UTC : ui->times, entry->read_us, clock);
        int row = page_next(page), width = page->grid->width, name = width / 3;
        (void)grid_put(page->grid, row, 0, 14, GRID_DIM, clock);
        (void)grid_put(page->grid, row, 10, 9, GRID_BOLD, id);
        (void)grid_put(page->grid, row, 20, name - 2, GRID_PLAIN, entry->duty);
        (void)grid_printf(page->grid, row, 20 + name, GRID_PLAIN, "%s%s%s%s%s", holder,
                          *holder && *vacancy ? ", " : "", vacancy, picture->n > 1 ? "  on " : "",
                          server_of(picture, entry));
    }
}
