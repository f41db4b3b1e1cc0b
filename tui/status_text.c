/* SPDX-License-Identifier: PostgreSQL */
/* The text of `pgleader status`. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "observe/bounds.h"
#include "tui/grid.h"
#include "tui/plain.h"
#include "tui/status_render.h"

enum column {
    COLUMN_STATE,
    COLUMN_DUTY,
    COLUMN_SERVER,
    COLUMN_OWNER,
    COLUMN_PID,
    COLUMN_GENERATION,
    COLUMN_HELD,
    COLUMN_CANDIDATES,
    COLUMN_WAIT,
    COLUMN_PROGRESS,
    COLUMN_LEASE,
    COLUMNS,
};

struct column_row {
    const char *title;
    bool right;
    int least; /* what it can shrink to on a narrow terminal; 0: it does not */
    int leave; /* the order in which columns leave it; 0: never */
};

/* clang-format off */
static const struct column_row columns[COLUMNS] = {
    [COLUMN_STATE] = {"STATE", false, 0, 0},
    [COLUMN_DUTY] = {"DUTY", false, 16, 0},
    [COLUMN_SERVER] = {"SERVER", false, 8, 8},
    [COLUMN_OWNER] = {"OWNER", false, 16, 9},
    [COLUMN_PID] = {"PID", true, 0, 6},
    [COLUMN_GENERATION] = {"GENERATION", true, 0, 1},
    [COLUMN_HELD] = {"HELD", true, 0, 7},
    [COLUMN_CANDIDATES] = {"CAND", true, 0, 2},
    [COLUMN_WAIT] = {"WAIT", true, 0, 4},
    [COLUMN_PROGRESS] = {"PROGRESS", false, 18, 5},
    [COLUMN_LEASE] = {"LEASE", true, 0, 3},
};
/* clang-format on */

enum { GAP = 2 };

struct table {
    const struct status_view *view;
    const struct status_paper *paper;
    struct arena *arena;
    struct grid *ruler;
    const char *(*cells)[COLUMNS];
    int widths[COLUMNS]; /* 0: not shown */
};

/* "350ms", "12s", "5m03s", "3h02m", "5d03h"; below 0: "?". */
static const char *span(struct arena *arena, int64_t us)
{
    if (us < 0)
        return "?";
    if (us < SECOND_US)
        return arena_printf(arena, "%dms", (int)(us / 1000));
    if (us < MINUTE_US)
        return arena_printf(arena, "%ds", (int)(us / SECOND_US));
    if (us < HOUR_US)
        return arena_printf(arena, "%dm%02ds", (int)(us / MINUTE_US),
                            (int)(us % MINUTE_US / SECOND_US));
    if (us < DAY_US)
        return arena_printf(arena, "%dh%02dm", (int)(us / HOUR_US),
                            (int)(us % HOUR_US / MINUTE_US));
    return arena_printf(arena, "%" PRId64 "d%02dh", us / DAY_US, (int)(us % DAY_US / HOUR_US));
}

static const char *owner_cell(const struct status_row *row, struct arena *arena)
{
    const struct duty *duty = row->duty;
    const char *name = duty->owner.holder;
    if (!row->readable)
        return "?";
    if (!row->led && duty->trail.ever_owned && bounds_is_time(duty->trail.past->lost_upper_us))
        return arena_printf(arena, "nobody for %s",
                            span(arena, duty->read_upper_us - duty->trail.past->lost_upper_us));
    if (!row->led)
        return "nobody";
    name = name && *name ? name : "(no name)";
    const char *where = duty->owner.client_addr ? duty->owner.client_addr : "";
    bool remote = *where && !text_equal(where, "local");
    return arena_printf(arena, "%s%s%s%s", name, remote ? "@" : "", remote ? where : "",
                        duty->trail.pooled ? " (pooled)" : "");
}

/* What was only seen by polling has a lower and an upper bound. */
static const char *held_cell(const struct status_row *row, struct arena *arena)
{
    const struct duty *duty = row->duty;
    if (!row->led)
        return row->readable ? "-" : "?";
    if (duty->age_us < 0 || duty->age_uncertainty_us < 0)
        return arena_printf(arena, ">%s", span(arena, duty->age_us));
    if (duty->age_uncertainty_us < SECOND_US)
        return span(arena, duty->age_us);
    return arena_printf(arena, "<%s", span(arena, duty->age_us + duty->age_uncertainty_us));
}

static const char *count_cell(struct arena *arena, bool known, int64_t count)
{
    return known && count >= 0 ? arena_printf(arena, "%" PRId64, count) : "?";
}

static const char *generation_cell(const struct status_row *row, struct arena *arena)
{
    const struct duty *duty = row->duty;
    if (row->led && duty->in_ledger && !duty->term_begun && duty->generation < 0)
        return duty->term_unverified ? "?" : "not begun";
    return row->readable && duty->generation < 0
               ? "-"
               : count_cell(arena, row->readable, duty->generation);
}

static const char *wait_cell(const struct status_row *row, struct arena *arena)
{
    const struct duty *duty = row->duty;
    if (duty->mechanism == MECHANISM_LEASE)
        return "-";
    if (!row->readable)
        return "?";
    if (duty->waiters == 0)
        return "-";
    const char *longest = duty->oldest_wait_us < 0 ? "" : span(arena, duty->oldest_wait_us);
    return arena_printf(arena, "%" PRId32 "%s%s", duty->waiters, *longest ? ": " : "", longest);
}

static const char *progress_cell(const struct status_row *row, struct arena *arena)
{
    const struct run *run = row->duty->run;
    char position[PLAIN_SIZE], target[PLAIN_SIZE];
    if (!row->fresh)
        return "?";
    if (!run->present)
        return "-";
    plain_number(position, run->position);
    plain_number(target, run->target);
    const char *where = *position ? position : run->cursor ? run->cursor : "not begun";
    const char *of = *target ? arena_printf(arena, " of %s", target) : "";
    bool moves = run->finished_us == TIME_UNKNOWN && run->advanced_us != TIME_UNKNOWN;
    int64_t still = row->server->snapshot->read_upper_us - run->advanced_us;
    if (!moves)
        return arena_printf(arena, "%s%s%s", where, of,
                            run->finished_us == TIME_UNKNOWN ? "" : " (not running)");
    return arena_printf(arena, "%s%s, moved %s ago", where, of, span(arena, still));
}

static const char *lease_cell(const struct status_row *row, struct arena *arena)
{
    const struct duty *duty = row->duty;
    if (duty->mechanism == MECHANISM_LOCK)
        return "-";
    if (!row->readable || duty->lease_expires_us == TIME_UNKNOWN)
        return row->readable ? "no row" : "?";
    if (!bounds_is_time(duty->lease_expires_us))
        return "for ever";
    int64_t left = duty->lease_expires_us - duty->read_upper_us;
    return left >= 0 ? span(arena, left) : arena_printf(arena, "-%s", span(arena, -left));
}

static void fill_row(struct table *table, size_t at, const struct status_row *row)
{
    const char **cells = table->cells[at];
    struct arena *arena = table->arena;
    cells[COLUMN_STATE] = duty_state_name(status_row_state(row));
    cells[COLUMN_DUTY] = row->duty->name;
    cells[COLUMN_SERVER] = row->server->server;
    cells[COLUMN_OWNER] = owner_cell(row, arena);
    cells[COLUMN_PID] = row->led && row->duty->owner.pid > 0
                            ? count_cell(arena, true, row->duty->owner.pid)
                            : (row->readable ? "-" : "?");
    cells[COLUMN_GENERATION] = generation_cell(row, arena);
    cells[COLUMN_HELD] = held_cell(row, arena);
    cells[COLUMN_CANDIDATES] = count_cell(arena, row->readable, row->duty->candidates);
    cells[COLUMN_WAIT] = wait_cell(row, arena);
    cells[COLUMN_PROGRESS] = progress_cell(row, arena);
    cells[COLUMN_LEASE] = lease_cell(row, arena);
}

/* A column in which every duty says the same nothing is no help to anybody. */
static bool says_nothing(const struct table *table, enum column column)
{
    if (column == COLUMN_SERVER)
        return table->view->picture->n < 2;
    if (column <= COLUMN_OWNER)
        return false;
    for (size_t i = 1; i <= table->view->n; i++) {
        if (!text_equal(table->cells[i][column], "-") && !text_equal(table->cells[i][column], "?"))
            return false;
    }
    return true;
}

static void measure(struct table *table)
{
    for (int c = 0; c < COLUMNS; c++) {
        table->widths[c] = 0;
        for (size_t i = 0; i <= table->view->n && !says_nothing(table, (enum column)c); i++) {
            int width = grid_text_width(table->ruler, table->cells[i][c]);
            if (width > table->widths[c])
                table->widths[c] = width;
        }
    }
}

static int total_width(const struct table *table)
{
    int total = -GAP;
    for (int c = 0; c < COLUMNS; c++)
        total += table->widths[c] > 0 ? table->widths[c] + GAP : 0;
    return total;
}

/* The widest of those that can shrink gives a cell; -1 where none can. */
static int widest_shrinkable(const struct table *table)
{
    int widest = -1;
    for (int c = 0; c < COLUMNS; c++) {
        bool can = columns[c].least > 0 && table->widths[c] > columns[c].least;
        if (can && (widest < 0 || table->widths[c] > table->widths[widest]))
            widest = c;
    }
    return widest;
}

static int next_to_leave(const struct table *table)
{
    int next = -1;
    for (int c = 0; c < COLUMNS; c++) {
        bool can = columns[c].leave > 0 && table->widths[c] > 0;
        if (can && (next < 0 || columns[c].leave < columns[next].leave))
            next = c;
    }
    return next;
}

/* What leaving columns have freed goes to the one that was cut most. */
static void grow(struct table *table, const int natural[COLUMNS], int width)
{
    for (int left = width - total_width(table); left > 0; left--) {
        int most = -1;
        for (int c = 0; c < COLUMNS; c++) {
            int cut = natural[c] - table->widths[c];
            bool can = table->widths[c] > 0 && cut > 0;
            if (can && (most < 0 || cut > natural[most] - table->widths[most]))
                most = c;
        }
        if (most < 0)
            return;
        table->widths[most]++;
    }
}

static void fit(struct table *table, int width)
{
    int natural[COLUMNS];
    memcpy(natural, table->widths, sizeof natural);
    while (total_width(table) > width) {
        int shrinks = widest_shrinkable(table);
        int leaves = shrinks < 0 ? next_to_leave(table) : -1;
        if (shrinks < 0 && leaves < 0)
            return; /* the grid cuts what is left */
        if (shrinks >= 0)
            table->widths[shrinks]--;
        else
            table->widths[leaves] = 0;
    }
    grow(table, natural, width);
}

static const char *colour_of(const char *state)
{
    static const struct {
        const char *state, *colour;
    } colours[] = {
        {"led", "\033[32m"},    {"yielding", "\033[33m"},  {"stalled", "\033[33m"},
        {"vacant", "\033[31m"}, {"contested", "\033[31m"}, {"unknown", "\033[33m"},
    };
    for (size_t i = 0; i < sizeof colours / sizeof *colours; i++) {
        if (text_equal(colours[i].state, state))
            return colours[i].colour;
    }
    return "\033[1m";
}

/* The state stands first and is plain ASCII: it can be coloured in the finished line. */
static void print_line(const struct status_paper *paper, const struct grid *grid, const char *state,
                       FILE *out)
{
    CLEANUP(free_charp) char *line = NULL;
    size_t size = 0, head = strlen(state);
    FILE *buffer = open_memstream(&line, &size);
    if (!buffer)
        abort();
    grid_print(grid, buffer);
    if (fclose(buffer) != 0)
        abort();
    if (paper->colour && head > 0 && size > head)
        (void)fprintf(out, "%s%s\033[0m%s", colour_of(state), state, line + head);
    else
        (void)fwrite(line, 1, size, out);
}

static void print_row(const struct table *table, size_t at, FILE *out)
{
    int width = total_width(table), column = 0;
    if (table->paper->width > 0 && width > table->paper->width)
        width = table->paper->width;
    struct grid *grid = grid_new(width, 1, table->paper->unicode);
    for (int c = 0; c < COLUMNS; c++) {
        const char *text = table->cells[at][c];
        if (table->widths[c] == 0)
            continue;
        if (columns[c].right)
            grid_put_right(grid, 0, column, table->widths[c], GRID_PLAIN, text);
        else
            (void)grid_put(grid, 0, column, table->widths[c], GRID_PLAIN, text);
        column += table->widths[c] + GAP;
    }
    bool whole = width >= table->widths[COLUMN_STATE];
    print_line(table->paper, grid, whole ? table->cells[at][COLUMN_STATE] : "", out);
    grid_free(grid);
}

static void print_table(const struct status_view *view, const struct status_paper *paper,
                        struct arena *arena, FILE *out)
{
    struct table table = {.view = view, .paper = paper, .arena = arena};
    table.ruler = grid_new(1, 1, paper->unicode);
    table.cells = arena_array(arena, view->n + 1, sizeof *table.cells);
    for (int c = 0; c < COLUMNS; c++)
        table.cells[0][c] = columns[c].title;
    for (size_t i = 0; i < view->n; i++)
        fill_row(&table, i + 1, &view->rows[i]);
    measure(&table);
    if (paper->width > 0)
        fit(&table, paper->width);
    for (size_t i = 0; i <= view->n; i++)
        print_row(&table, i, out);
    grid_free(table.ruler);
}

/* On a terminal it is broken by the terminal, never cut: it says why. */
void status_words_print(const struct status_paper *paper, const char *words, FILE *out)
{
    struct grid *ruler = grid_new(1, 1, paper->unicode);
    struct grid *grid = grid_new(grid_text_width(ruler, words), 1, paper->unicode);
    (void)grid_put(grid, 0, 0, grid->width, GRID_PLAIN, words);
    grid_print(grid, out);
    grid_free(grid);
    grid_free(ruler);
}

static const char *role_words(const struct status_view *view, size_t server)
{
    bool standby = status_snapshot(view, server)->facts.in_recovery;
    if (!status_unexpected_role(view, server))
        return standby ? "standby" : "primary";
    return standby ? "STANDBY where a primary was expected"
                   : "PRIMARY where a standby was expected";
}

static void print_up(const struct status_view *view, size_t server,
                     const struct status_paper *paper, struct arena *arena, FILE *out)
{
    const struct server_facts *facts = &status_snapshot(view, server)->facts;
    const char *ledger = facts->ledger_version < 0 ? "ledger not readable"
                         : facts->ledger_version == 0
                             ? "no ledger"
                             : arena_printf(arena, "ledger %" PRId32, facts->ledger_version);
    char at[PLAIN_SIZE];
    plain_time(at, status_snapshot(view, server)->read_upper_us);
    status_words_print(
        paper,
        arena_printf(arena, "server %s: up, %s, PostgreSQL %s, database %s, %s%s, at %.19sZ",
                     view->picture->servers[server]->server, role_words(view, server),
                     facts->version, facts->database, ledger,
                     facts->direct ? "" : ", behind a pooler", at),
        out);
    if (!facts->privileged)
        status_words_print(
            paper,
            "  unprivileged: without pg_read_all_stats ages, addresses and identities are "
            "unknown",
            out);
    if (facts->in_recovery)
        status_words_print(paper, "  who leads is known at its primary only", out);
}

static void print_down(const struct status_view *view, size_t server,
                       const struct status_paper *paper, struct arena *arena, FILE *out)
{
    const struct published *published = view->picture->servers[server];
    const char *age = "";
    if (published->snapshot)
        age = arena_printf(arena, "; the last good picture is %s old",
                           span(arena, view->picture->taken_us - published->success_monotonic_us));
    status_words_print(paper,
                       arena_printf(arena, "server %s: DOWN: %s%s", published->server,
                                    status_down_reason(published), age),
                       out);
}

static void print_server(const struct status_view *view, size_t server,
                         const struct status_paper *paper, struct arena *arena, FILE *out)
{
    const struct section *failed = NULL;
    size_t position = 0;
    if (!status_snapshot(view, server)) {
        print_down(view, server, paper, arena, out);
        return;
    }
    print_up(view, server, paper, arena, out);
    while ((failed = status_failed_section(view->picture->servers[server], &position)))
        status_words_print(paper,
                           arena_printf(arena, "  could not read %s: %s", failed->name,
                                        failed->message ? failed->message : "no answer"),
                           out);
}

void status_text_render(const struct status_view *view, const struct status_paper *paper, FILE *out)
{
    struct arena *arena = arena_new();
    for (size_t i = 0; i < view->picture->n; i++)
        print_server(view, i, paper, arena, out);
    (void)putc('\n', out);
    if (view->n > 0)
        print_table(view, paper, arena, out);
    else
        (void)fputs("no duties\n", out);
    arena_free(arena);
}
