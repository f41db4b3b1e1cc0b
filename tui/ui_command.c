/* SPDX-License-Identifier: PostgreSQL */
/* Lines to state. */
#include "tui/ui_command.h"

#include <string.h>

#include "base/text.h"
#include "tui/ui_act.h"

static enum ui_wish to_duty(struct ui *ui, const struct picture *picture, const char *argument)
{
    for (size_t i = 0; i < ui->list.n; i++) {
        const struct duty *duty = ui->list.rows[i].duty;
        if (!duty || !text_equal(duty->name, argument))
            continue;
        ui_point_at(ui, picture, i);
        ui_go_to(ui, SCREEN_DUTY);
        return WISH_NONE;
    }
    ui_say(ui, "No such duty in the list: %s", argument);
    return WISH_NONE;
}

static enum ui_wish filter(struct ui *ui, const struct picture *picture, const char *argument)
{
    (void)picture;
    ui_filter(ui, argument);
    ui_go_to(ui, SCREEN_LIST);
    return WISH_NONE;
}

static enum ui_wish help(struct ui *ui, const struct picture *picture, const char *argument)
{
    (void)picture;
    (void)argument;
    ui_go_to(ui, SCREEN_HELP);
    return WISH_NONE;
}

static enum ui_wish quit(struct ui *ui, const struct picture *picture, const char *argument)
{
    (void)picture;
    (void)argument;
    return ui_quit(ui, 'Q');
}

static enum ui_wish refresh(struct ui *ui, const struct picture *picture, const char *argument)
{
    (void)ui;
    (void)picture;
    (void)argument;
    return WISH_REFRESH;
}

static enum ui_wish save(struct ui *ui, const struct picture *picture, const char *argument)
{
    (void)picture;
    (void)snprintf(ui->path, sizeof ui->path, "%s", argument);
    return WISH_SAVE;
}

static enum ui_wish sort(struct ui *ui, const struct picture *picture, const char *argument)
{
    (void)picture;
    for (int i = 0; i < ORDERS; i++) {
        if (*argument && strncmp(list_order_names[i], argument, strlen(argument)) == 0) {
            ui->order = (enum list_order)i;
            return WISH_NONE;
        }
    }
    ui_say(ui, "Sort by what? attention, duty, owner, held or wait");
    return WISH_NONE;
}

static enum ui_wish yield(struct ui *ui, const struct picture *picture, const char *argument)
{
    if (*argument)
        (void)to_duty(ui, picture, argument);
    return *ui->message ? WISH_NONE : ui_start_yield(ui);
}

const struct ui_command ui_commands[] = {
    {"duty", "DUTY", "the detail of that duty", to_duty},
    {"filter", "TEXT", "show only what holds the text; without one, all", filter},
    {"help", "", "this page", help},
    {"quit", "", "end pgleader", quit},
    {"refresh", "", "look at every server now", refresh},
    {"save", "FILE", "write the screen to a new file, as text", save},
    {"sort", "ORDER", "by attention, duty, owner, held or wait", sort},
    {"yield", "DUTY", "as Y on that duty, or on the one under the cursor", yield},
    {.name = NULL},
};

enum ui_wish ui_command(struct ui *ui, const struct picture *picture, const char *line)
{
    line += strspn(line, " ");
    size_t n = strcspn(line, " ");
    const char *argument = line + n + strspn(line + n, " ");
    for (const struct ui_command *row = ui_commands; row->name && n > 0; row++) {
        if (strncmp(row->name, line, n) == 0)
            return row->run(ui, picture, argument);
    }
    if (n > 0)
        ui_say(ui, "No such command: %.*s; ? lists them", (int)n, line);
    return WISH_NONE;
}
