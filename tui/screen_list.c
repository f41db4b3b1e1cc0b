/* SPDX-License-Identifier: PostgreSQL */
/* The main list. What a terminal has no room for is left out by column, never cut off. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "observe/bounds.h"
#include "tui/screen.h"

enum { CELL_SIZE = 512, MARK_WIDTH = 2 };

struct column {
    const char *title;
    int from;  /* the least width of a terminal that has it */
    int width; /* at least */
    int share; /* of the cells that are left over */
    bool right;
    void (*text)(const struct list_row *row, char out[CELL_SIZE]);
    size_t (*most)(const struct list_row *row); /* bytes of the text or more, quickly; NULL: it
                                                   gets what is left */
};

static bool begins_character(char c)
{
    return ((unsigned char)c & 0xC0) != 0x80;
}

/* Of a name that is longer than any screen is wide, both ends: they tell it from others. */
static void copy_name(const char *name, char out[CELL_SIZE])
{
    size_t n = strlen(name), head = CELL_SIZE / 2 - 4, tail = n - head;
    if (n < CELL_SIZE) {
        (void)snprintf(out, CELL_SIZE, "%s", name);
        return;
    }
    while (head > 0 && !begins_character(name[head]))
        head--;
    while (!begins_character(name[tail]))
        tail++;
    (void)snprintf(out, CELL_SIZE, "%.*s...%s", (int)head, name, name + tail);
}

/* Of a whole number that is not negative. */
static size_t digits(int64_t number)
{
    size_t n = 1;
    for (; number >= 10; number /= 10)
        n++;
    return n;
}

/* Of words_duration: "59m59s" to "99d23h", and from there on by the days. */
static size_t duration_most(int64_t us)
{
    return us < 100 * DAY_US ? 6 : digits(us / DAY_US) + 4;
}

static void duty_text(const struct list_row *row, char out[CELL_SIZE])
{
    copy_name(row->duty->name, out);
}

static size_t duty_most(const struct list_row *row)
{
    return strlen(row->duty->name);
}

static void owner_text(const struct list_row *row, char out[CELL_SIZE])
{
    const struct duty *duty = row->duty;
    if (!duty->read)
        (void)snprintf(out, CELL_SIZE, "?");
    else if (duty->owners <= 0)
        (void)snprintf(out, CELL_SIZE, "- none -");
    else
        copy_name(duty_holder(duty), out);
}

static size_t owner_most(const struct list_row *row)
{
    return row->duty->owners > 0 ? strlen(duty_holder(row->duty)) : sizeof "- none -";
}

static void pid_text(const struct list_row *row, char out[CELL_SIZE])
{
    if (row->duty->owners > 0 && row->duty->owner.pid > 0)
        (void)snprintf(out, CELL_SIZE, "%" PRId32, row->duty->owner.pid);
    else
        (void)snprintf(out, CELL_SIZE, "-");
}

static size_t pid_most(const struct list_row *row)
{
    return row->duty->owners > 0 ? digits(row->duty->owner.pid) : 1;
}

static void generation_text(const struct list_row *row, char out[CELL_SIZE])
{
    if (row->duty->generation >= 0)
        (void)snprintf(out, CELL_SIZE, "%" PRId64, row->duty->generation);
    else
        (void)snprintf(out, CELL_SIZE, "-");
}

static size_t generation_most(const struct list_row *row)
{
    return digits(row->duty->generation);
}

/* With a + where it is only known to be at least so long. */
static void held_text(const struct list_row *row, char out[CELL_SIZE])
{
    char age[WORDS_SIZE];
    const struct duty *duty = row->duty;
    bool least = duty->age_uncertainty_us < 0 || duty->age_uncertainty_us >= SECOND_US;
    if (duty->age_us >= 0 && duty->age_us < SECOND_US)
        (void)snprintf(age, sizeof age, "0s");
    else
        words_duration(duty->age_us, age);
    if (duty->owners <= 0)
        (void)snprintf(out, CELL_SIZE, "-");
    else
        (void)snprintf(out, CELL_SIZE, "%s%s", age, duty->age_us >= 0 && least ? "+" : "");
}

static size_t held_most(const struct list_row *row)
{
    return duration_most(row->duty->age_us) + 1;
}

static void candidates_text(const struct list_row *row, char out[CELL_SIZE])
{
    if (row->duty->candidates >= 0)
        (void)snprintf(out, CELL_SIZE, "%" PRId32, row->duty->candidates);
    else
        (void)snprintf(out, CELL_SIZE, "?");
}

static size_t candidates_most(const struct list_row *row)
{
    return digits(row->duty->candidates);
}

static void wait_text(const struct list_row *row, char out[CELL_SIZE])
{
    char age[WORDS_SIZE];
    words_duration(row->duty->oldest_wait_us, age);
    if (row->duty->oldest_wait_us >= 0)
        (void)snprintf(out, CELL_SIZE, "%s", age);
    else
        (void)snprintf(out, CELL_SIZE, row->duty->waiters > 0 ? "?" : "-");
}

static size_t wait_most(const struct list_row *row)
{
    return row->duty->oldest_wait_us >= 0 ? duration_most(row->duty->oldest_wait_us) : 1;
}

static bool has_target(const struct run *run)
{
    return !isnan(run->position) && !isnan(run->target) && run->target > 0;
}

static void done_text(const struct list_row *row, char out[CELL_SIZE])
{
    const struct run *run = row->duty->run;
    if (!run->present)
        (void)snprintf(out, CELL_SIZE, "-");
    else if (has_target(run))
        (void)snprintf(out, CELL_SIZE, "%.0f%%", floor(100 * run->position / run->target));
    else
        (void)snprintf(out, CELL_SIZE, "run");
}

static void progress_text(const struct list_row *row, char out[CELL_SIZE])
{
    char done[CELL_SIZE], age[WORDS_SIZE];
    const struct duty *duty = row->duty;
    if (!duty->run->present) {
        (void)snprintf(out, CELL_SIZE, "-");
        return;
    }
    if (has_target(duty->run))
        done_text(row, done);
    else
        (void)snprintf(done, sizeof done, "at %.24s",
                       duty->run->cursor ? duty->run->cursor : "start");
    words_since(duty->run->advanced_us, duty->read_upper_us, age);
    (void)snprintf(out, CELL_SIZE, "%.64s, %s ago", done, age);
}

static size_t run_most(const struct list_row *row)
{
    return row->duty->run->present ? CELL_SIZE : 1;
}

static void lease_text(const struct list_row *row, char out[CELL_SIZE])
{
    char left[WORDS_SIZE];
    const struct duty *duty = row->duty;
    if (duty->mechanism != MECHANISM_LEASE || !bounds_is_time(duty->lease_expires_us)) {
        (void)snprintf(out, CELL_SIZE, "-");
        return;
    }
    int64_t us = duty->lease_expires_us - duty->read_upper_us;
    words_duration(us < 0 ? -us : us, left);
    (void)snprintf(out, CELL_SIZE, "%s%s", us < 0 ? "-" : "", left);
}

static size_t lease_most(const struct list_row *row)
{
    return row->duty->mechanism == MECHANISM_LEASE ? CELL_SIZE : 1;
}

static void state_text(const struct list_row *row, char out[CELL_SIZE])
{
    verdict_words(row->duty, row->fresh, out);
}

static const struct column columns[] = {
    {"DUTY", 0, 13, 3, false, duty_text, duty_most},
    {"OWNER", 0, 12, 3, false, owner_text, owner_most},
    {"PID", 0, 7, 0, true, pid_text, pid_most},
    {"GENERATION", 100, 10, 0, true, generation_text, generation_most},
    {"HELD", 0, 7, 0, true, held_text, held_most},
    {"CAND", 80, 4, 0, true, candidates_text, candidates_most},
    {"WAIT", 80, 6, 0, true, wait_text, wait_most},
    {"DONE", 100, 4, 0, true, done_text, run_most},
    {"PROGRESS", 140, 14, 1, false, progress_text, run_most},
    {"LEASE", 140, 6, 0, true, lease_text, lease_most},
    {"STATE", 0, 14, 0, false, state_text, NULL},
};
enum { COLUMNS = sizeof columns / sizeof *columns, DONE_COLUMN = 7 };

/* PROGRESS says more than DONE: where there is room for it, that one goes. */
static bool has_column(int i, int width)
{
    if (i == DONE_COLUMN && width >= 140)
        return false;
    return width >= columns[i].from;
}

/* Scrolled, the list has every column, from one on; what then has no room is further on. */
static bool may_have(int i, int width, int shift)
{
    if (shift == 0)
        return has_column(i, width);
    int before = i - 1 - (i > DONE_COLUMN);
    return i == 0 || (i != DONE_COLUMN && before >= shift);
}

int screen_list_shift(const struct ui *ui, int width)
{
    (void)ui;
    for (int i = 0; i < COLUMNS; i++) {
        if (i != DONE_COLUMN && !has_column(i, width))
            return COLUMNS - 3; /* all but the first, DONE, and the one that stays in sight */
    }
    return 0;
}

/* The most that a column needs for all rows, so that none gets room that it leaves empty. */
static int needed(const struct list *list, const struct column *column, const struct grid *grid)
{
    int most = column->width;
    for (size_t i = 0; i < list->n && most < grid->width; i++) {
        char text[CELL_SIZE];
        if (!list->rows[i].duty || column->most(&list->rows[i]) <= (size_t)most)
            continue; /* no text has more cells than bytes */
        column->text(&list->rows[i], text);
        int width = grid_text_width(grid, text);
        most = width > most ? width : most;
    }
    return most;
}

/* Gives `left` cells to the columns that share them, by their shares, to each at most what it
 * needs; returns what nobody took. */
static int share_out(int left, const int needs[COLUMNS], int widths[COLUMNS])
{
    int shares = 0, given = 0;
    for (int i = 0; i < COLUMNS; i++)
        shares += widths[i] && widths[i] < needs[i] ? columns[i].share : 0;
    for (int i = 0; i < COLUMNS && shares > 0; i++) {
        if (!widths[i] || widths[i] >= needs[i])
            continue;
        int more = (left * columns[i].share + shares - 1) / shares;
        more = more > needs[i] - widths[i] ? needs[i] - widths[i] : more;
        more = more > left - given ? left - given : more;
        widths[i] += more;
        given += more;
    }
    return left - given;
}

/* Each column's width; 0: the terminal is too narrow for it. */
static void layout(const struct list *list, const struct grid *grid, int shift,
                   int ret_widths[COLUMNS])
{
    int needs[COLUMNS], left = grid->width - MARK_WIDTH, before = 0;
    bool full = false;
    for (int i = 0; i < COLUMNS; i++) {
        ret_widths[i] = may_have(i, grid->width, shift) ? columns[i].width : 0;
        if (ret_widths[i] && columns[i].right) /* half a number is another number */
            ret_widths[i] = needed(list, &columns[i], grid);
        full = full || (shift > 0 && ret_widths[i] >= left);
        ret_widths[i] = full ? 0 : ret_widths[i];
        needs[i] = ret_widths[i] && columns[i].share ? needed(list, &columns[i], grid) : 0;
        left -= ret_widths[i] ? ret_widths[i] + (i > 0) : 0;
    }
    do {
        before = left;
        left = left > 0 ? share_out(left, needs, ret_widths) : 0;
    } while (left > 0 && left < before);
    /* The rest is the state's, which has short words for where there is none. */
    if (left > 0 && ret_widths[COLUMNS - 1])
        ret_widths[COLUMNS - 1] += left;
}

static void render_titles(const int widths[COLUMNS], int shift, struct grid *grid, int row)
{
    int column = MARK_WIDTH;
    for (int i = 0; i < COLUMNS; i++) {
        if (!widths[i])
            continue;
        if (columns[i].right)
            grid_put_right(grid, row, column, widths[i], GRID_PLAIN, columns[i].title);
        else
            (void)grid_put(grid, row, column, widths[i], GRID_PLAIN, columns[i].title);
        column += widths[i] + 1;
    }
    if (shift > 0)
        (void)grid_put(grid, row, 0, 1, GRID_PLAIN, "<");
    grid_mark(grid, row, 0, grid->width, GRID_BOLD | GRID_UNDERLINE);
}

static void render_duty(const struct list_row *row, const int widths[COLUMNS], struct grid *grid,
                        int at, bool selected)
{
    unsigned attr = verdict_attr(row->urgency);
    int column = MARK_WIDTH;
    if (row->urgency < URGENCY_FINE)
        (void)grid_put(grid, at, 1, 1, attr, "!");
    for (int i = 0; i < COLUMNS; i++) {
        char text[CELL_SIZE];
        if (!widths[i])
            continue;
        columns[i].text(row, text);
        if (columns[i].text == state_text && grid_text_width(grid, text) > widths[i])
            verdict_brief(row->duty, row->fresh, text);
        bool is_state = columns[i].text == state_text || columns[i].text == duty_text;
        unsigned with = is_state ? attr : GRID_PLAIN;
        if (columns[i].right)
            grid_put_right(grid, at, column, widths[i], with, text);
        else
            (void)grid_put(grid, at, column, widths[i], with, text);
        column += widths[i] + 1;
    }
    if (selected) {
        (void)grid_put(grid, at, 0, 1, GRID_PLAIN, ">");
        grid_mark(grid, at, 0, grid->width, GRID_REVERSE);
    }
}

static void render_server(const struct ui *ui, const struct published *published, int64_t now_us,
                          struct grid *grid, int at, bool selected)
{
    char banner[512];
    const struct snapshot *snapshot = published->snapshot;
    bool bad = screen_banner(published, now_us, ui->times, banner, sizeof banner);
    int used =
        grid_printf(grid, at, MARK_WIDTH, GRID_BOLD | GRID_UNDERLINE, "%s", published->server);
    int column = MARK_WIDTH + used + 2;
    if (bad)
        (void)grid_put(grid, at, column, grid->width - column, GRID_BOLD | GRID_RED, banner);
    else if (snapshot)
        (void)grid_printf(grid, at, column, GRID_DIM, "%s, PostgreSQL %s, %zu %s%s%s",
                          snapshot->facts.in_recovery ? "standby" : "primary",
                          snapshot->facts.version ? snapshot->facts.version : "?",
                          snapshot->n_duties, snapshot->n_duties == 1 ? "duty" : "duties",
                          snapshot->facts.direct ? "" : ", POOLED",
                          snapshot->facts.privileged ? "" : ", UNPRIVILEGED");
    if (bad)
        (void)grid_put(grid, at, 1, 1, GRID_BOLD | GRID_RED, "!");
    if (selected) {
        (void)grid_put(grid, at, 0, 1, GRID_PLAIN, ">");
        grid_mark(grid, at, 0, grid->width, GRID_REVERSE);
    }
}

/* Why there is nothing to see. */
static const char *nothing(const struct ui *ui, const struct picture *picture)
{
    if (ui->list.n_duties > 0)
        return "No duty holds this text: Esc shows all";
    for (size_t i = 0; i < picture->n; i++) {
        if (picture->servers[i]->snapshot)
            return "Nobody leads: no duty is named, no advisory lock is held";
    }
    return "No picture yet";
}

void screen_list(const struct ui *ui, const struct picture *picture, int64_t now_us,
                 struct grid *grid, int row, int height)
{
    int widths[COLUMNS];
    layout(&ui->list, grid, ui->shift, widths);
    render_titles(widths, ui->shift, grid, row);
    if (ui->list.n == 0)
        (void)grid_put(grid, row + 1, MARK_WIDTH, grid->width - MARK_WIDTH, GRID_PLAIN,
                       nothing(ui, picture));
    for (int i = 0; i < height - 1 && ui->top + (size_t)i < ui->list.n; i++) {
        size_t index = ui->top + (size_t)i;
        const struct list_row *line = &ui->list.rows[index];
        int at = row + 1 + i;
        if (line->duty)
            render_duty(line, widths, grid, at, index == ui->cursor);
        else
            render_server(ui, picture->servers[line->server], now_us, grid, at,
                          index == ui->cursor);
    }
}
