/* SPDX-License-Identifier: PostgreSQL */
/* Help: the table of keys, and what the signs of the screens mean. */
#include "base/memory.h"
#include "tui/screen.h"
#include "tui/ui_command.h"

enum { KEYS_WIDTH = 14 };

static void render_keys(struct page *page)
{
    for (const struct key_row *key = key_rows; key->keys; key++)
        page_entry(page, 2, KEYS_WIDTH, key->keys, GRID_PLAIN, key->help);
}

static void render_commands(struct page *page)
{
    for (const struct ui_command *row = ui_commands; row->name; row++) {
        CLEANUP(free_charp) char *name = xasprintf(":%s %s", row->name, row->argument);
        page_entry(page, 2, KEYS_WIDTH, name, GRID_PLAIN, row->help);
    }
}

static const char *const signs[][2] = {
    {"!", "wants a person: contested, vacant, stalled, unknown, or not as declared"},
    {">", "the cursor"},
    {"4m12s+", "at least so long: when it began was not seen"},
    {"?", "not known, or not to be seen with these privileges"},
    {"-", "there is none"},
    {"STALE 14s", "the picture is so old: its duties are unknown until the server answers"},
    {"released", "a lock that no duty names was held, and is not any more"},
    {"UNPRIVILEGED", "grant pg_read_all_stats: without it nobody can tell who is who"},
};

void screen_help(const struct ui *ui, const struct picture *picture, struct page *page)
{
    (void)ui;
    (void)picture;
    page_heading(page, "KEYS");
    render_keys(page);
    page_heading(page, "COMMANDS, after a colon; the beginning of a name is enough");
    render_commands(page);
    page_heading(page, "SIGNS");
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        page_entry(page, 2, KEYS_WIDTH, signs[i][0], GRID_PLAIN, signs[i][1]);
}
