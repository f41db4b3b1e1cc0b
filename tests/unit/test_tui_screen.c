/* SPDX-License-Identifier: PostgreSQL */
/* Screens from hand-made pictures: golden text for each width and character set, and names that
 * want to do harm. `--update` rewrites the golden files. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/memory.h"
#include "tests/support/golden.h"
#include "tests/support/picture_builder.h"
#include "tui/screen.h"

#define NOW_US (100 * SECOND_US) /* when the built pictures were taken */

static struct grid *rendered(struct ui *ui, const struct picture *picture, int width, int height,
                             bool unicode)
{
    struct grid *grid = grid_new(width, height, unicode);
    ui_settle(ui, picture, width, height);
    screen_render(ui, picture, NOW_US, grid);
    return grid;
}

static void check(struct ui *ui, const struct picture *picture, int width, int height, bool unicode,
                  const char *name)
{
    size_t size = 0;
    CLEANUP(free_charp) char *text = NULL;
    struct grid *grid = rendered(ui, picture, width, height, unicode);
    FILE *out = open_memstream(&text, &size);
    grid_print(grid, out);
    (void)fclose(out);
    CLEANUP(free_charp)
    char *path = xasprintf("tui/%s-%d%s.screen", name, width, unicode ? "" : "-C");
    CLEANUP(free_charp) char *difference = golden_difference(path, text, size);
    if (difference)
        fail_msg("%s", difference);
    grid_free(grid);
}

static const int widths[] = {60, 80, 100, 140};
enum { WIDTHS = sizeof widths / sizeof *widths };

/* Of several servers, the first alone. */
static void keep_first(struct picture *picture)
{
    while (picture->n > 1)
        published_unref(picture->servers[--picture->n]);
}

/* Three wait for the ledger's duty, one of them for nobody knows how long. */
static void add_queue(struct picture *picture)
{
    static struct waiter queue[] = {
        {5001, BUILT_NOW_US - DAY_US, BUILT_NOW_US - 12 * MINUTE_US,
         "pgleader:jobs/invoice-reconcile:invoice-worker-a", "10.0.4.18"},
        {5002, TIME_UNKNOWN, BUILT_NOW_US - 3 * SECOND_US,
         "invoice-worker-with-a-name-that-is-too-long-for-the-screen-to-show", NULL},
        {5003, BUILT_NOW_US - HOUR_US, TIME_UNKNOWN, "", NULL},
    };
    struct duty *duty = &picture->servers[0]->snapshot->duties[2];
    duty->queue = queue;
    duty->n_queue = sizeof queue / sizeof *queue;
    duty->waiters = (int32_t)duty->n_queue;
    duty->oldest_wait_us = 12 * MINUTE_US;
}

/* More locks than a picture keeps. */
static void add_locks(struct picture *picture)
{
    static struct watched_lock watched[] = {{{0, 4711, 1}, 4100, BUILT_NOW_US - 2 * MINUTE_US},
                                            {{12, 7, 2}, 4107, BUILT_NOW_US - SECOND_US}};
    static struct foreign_lock foreign[] = {{{1, 2, 2}, 16384, 4108, "another application"}};
    struct snapshot *snapshot = picture->servers[0]->snapshot;
    snapshot->watched = watched;
    snapshot->n_watched = sizeof watched / sizeof *watched;
    snapshot->unregistered_locks = 5;
    snapshot->foreign = foreign;
    snapshot->n_foreign = sizeof foreign / sizeof *foreign;
    snapshot->foreign_locks = 101;
}

static void add_events(struct journal *journal)
{
    const struct event events[] = {
        {"jobs/invoice-reconcile", RULE_ACQUIRED, "invoice-worker-7c9e", 4001, BUILT_NOW_US,
         BUILT_NOW_US},
        {"jobs/vacant", RULE_LOST, NULL, 0, BUILT_NOW_US, BUILT_NOW_US},
        {"jobs/invoice-reconcile", RULE_TAKEOVER, "invoice-worker-7c9f", 4101, 41000, 143250},
    };
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        journal_add(journal, "prod-us", &events[i],
                    BUILT_NOW_US - HOUR_US + (int64_t)i * MINUTE_US);
}

static void keys(struct ui *ui, const struct picture *picture, const char *typed, int width,
                 int height)
{
    for (; *typed; typed++) {
        (void)ui_key(ui, picture, *typed == '\n' ? CODE_ENTER : *typed);
        ui_settle(ui, picture, width, height);
    }
}

/* Each of these is typed on the list of one server, and of several. */
static const struct {
    const char *name, *keys;
    int height;
    bool several;
    bool ascii; /* at every width also as in the locale C, not at 80 alone */
} cases[] = {
    {"list", "", 14, false, true},
    {"list-filter", "\\lease\nI", 12, false, false},
    {"list-find", "/vac\nx/nope\n", 12, false, false},
    {"list-typing", "/re", 12, false, false},
    {"list-low", "G", 10, true, false},
    {"list-shifted", "]]", 14, false, false},
    {"list-shifted-far", "]]]]]]]]]]]]]", 14, false, false},
    {"list-sorting", ">o>", 12, false, false},
    {"list-command", ":sort h", 12, false, false},
    {"servers", "", 24, true, false},
    {"duty", "/invoice\n\n", 34, false, true},
    {"duty-low", "/invoice\n\nG", 10, false, false},
    {"duty-lease", "/nightly\n\n", 26, false, false},
    {"duty-contested", "/contested\n\n", 26, true, false},
    {"duty-ago", "tt/pooled\n\n", 28, false, false},
    {"duty-local", "t/invoice\n\n", 34, false, false},
    {"duty-vacant", "/vacant\n\n", 22, false, false},
    {"events", "e", 14, false, true},
    {"events-low", "e", 10, true, false},
    {"events-local", "te", 14, true, false},
    {"events-paused", " e", 10, false, false},
    {"locks", "u", 24, true, false},
    {"help", "?", 72, false, true},
    {"help-low", "?G", 10, false, false},
};

static void screens_are_golden(void **state)
{
    (void)state;
    struct journal *journal = xcalloc(1, sizeof *journal);
    add_events(journal);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int w = 0; w < WIDTHS; w++) {
            struct picture picture;
            struct ui ui;
            build_example(&picture);
            add_queue(&picture);
            add_locks(&picture);
            if (!cases[i].several)
                keep_first(&picture);
            ui_init(&ui, journal, 2 * SECOND_US);
            ui_settle(&ui, &picture, widths[w], cases[i].height);
            keys(&ui, &picture, cases[i].keys, widths[w], cases[i].height);
            check(&ui, &picture, widths[w], cases[i].height, true, cases[i].name);
            if (widths[w] == 80 || cases[i].ascii)
                check(&ui, &picture, widths[w], cases[i].height, false, cases[i].name);
            ui_done(&ui);
            picture_done(&picture);
        }
    }
    journal_done(journal);
    free(journal);
}

/* The text of cells [column, column + width). */
static void row_text(const struct grid *grid, int row, int column, int width, char *out)
{
    for (int i = 0; i < width; i++) {
        wchar_t c = grid->cells[row * grid->width + column + i].text[0];
        *out++ = (char)(c < 0x80 ? c : '#');
    }
    *out = '\0';
}

/* Wide characters take two cells, and no cell holds what would move the cursor. */
static void assert_sound(const struct grid *grid)
{
    for (int row = 0; row < grid->height; row++) {
        for (int column = 0; column < grid->width; column++) {
            const struct cell *cell = &grid->cells[row * grid->width + column];
            int width = cell->text[0] ? wcwidth(cell->text[0]) : 0;
            if (!cell->text[0])
                assert_true(column > 0 && wcwidth(cell[-1].text[0]) == 2);
            else
                assert_in_range(width, 1, 2);
            if (width == 2)
                assert_true(column + 1 < grid->width && !cell[1].text[0]);
            for (int i = 1; cell->text[0] && cell->text[i]; i++)
                assert_int_equal(wcwidth(cell->text[i]), 0);
            if (!grid->unicode)
                assert_in_range(cell->text[0], 0x20, 0x7E);
        }
    }
}

static const char *const hostile[] = {
    "",
    "\x1b[2J\x1b]0;owned\x07",
    "a\r\n\tb\x08\x08\x7f",
    "\xC2\x9B"
    "31m C1",
    "\xFF\xFE\xC0\xAF not UTF-8 \xE2\x82",
    "e\xCC\x81\xCC\x81\xCC\x81\xCC\x81\xCC\x81 combining",
    "\xCC\x81 begins with a combining one",
    "\xE5\x90\x8D\xE5\x89\x8D\xE3\x81\xAE\xE9\x95\xB7\xE3\x81\x84\xE5\x90\x8D\xE5\x89\x8D\xE3\x81"
    "\xAE"
    "\xE9\x95\xB7\xE3\x81\x84\xE5\x90\x8D\xE5\x89\x8D\xE3\x81\xAE\xE9\x95\xB7\xE3\x81\x84",
    "\xE2\x80\xAE"
    "override \xE2\x80\x8B zero \xEF\xBB\xBF",
    "%s%n%s%n",
    "a-name-that-is-longer-than-any-column-has-room-for-and-then-a-good-deal-longer-than-that-too-"
    "a-name-that-is-longer-than-any-column-has-room-for-and-then-a-good-deal-longer-than-that-too",
};

static void names_stay_in_their_cells(void **state)
{
    (void)state;
    static const char *const screens[] = {"", "\n", "e", "u", "?", "\\%s", "/\n"};
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        for (size_t s = 0; s < sizeof screens / sizeof *screens; s++) {
            struct picture picture;
            struct ui ui;
            build_hostile(&picture, hostile[i]);
            ui_init(&ui, NULL, SECOND_US);
            for (int width = 1; width < 200; width += width < 20 ? 1 : 37) {
                ui_settle(&ui, &picture, width, 12);
                keys(&ui, &picture, width == 1 ? screens[s] : "", 100, 24);
                struct grid *grid = rendered(&ui, &picture, width, 12, i % 2 == 0 || width > 100);
                assert_sound(grid);
                grid_free(grid);
            }
            ui_done(&ui);
            picture_done(&picture);
        }
    }
}

/* Whatever the names, what stands behind them stands in its column. */
static void columns_are_straight(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        struct picture picture;
        struct ui ui;
        char titles[101], line[101];
        build_hostile(&picture, hostile[i]);
        ui_init(&ui, NULL, SECOND_US);
        struct grid *grid = rendered(&ui, &picture, 100, 12, true);
        row_text(grid, 2, 0, 100, titles);
        row_text(grid, 3, 0, 100, line);
        const char *pid = strstr(titles, " PID "), *generation = strstr(titles, "GENERATION");
        assert_non_null(pid);
        assert_non_null(generation);
        assert_memory_equal(line + (pid - titles), "   1 ", 5);
        assert_memory_equal(line + (generation - titles), "  28834112 ", 11);
        grid_free(grid);
        ui_done(&ui);
        picture_done(&picture);
    }
}

/* Attention is a sign and a word as well as a colour. */
static void colour_is_never_alone(void **state)
{
    (void)state;
    struct picture picture;
    struct ui ui;
    build_example(&picture);
    ui_init(&ui, NULL, SECOND_US);
    struct grid *grid = rendered(&ui, &picture, 100, 24, true);
    int coloured = 0;
    for (int row = 3; row < 22; row++) {
        bool has_colour = false;
        for (int column = 0; column < 100; column++)
            has_colour |= grid->cells[row * 100 + column].attr & (GRID_RED | GRID_YELLOW);
        coloured += has_colour;
        if (has_colour)
            assert_int_equal(grid->cells[row * 100 + 1].text[0], L'!');
    }
    assert_true(coloured > 3);
    grid_free(grid);
    ui_done(&ui);
    picture_done(&picture);
}

/* New events come above what is read, which stays where it is; at the top they are seen. */
static void events_keep_their_place(void **state)
{
    (void)state;
    struct picture picture;
    struct ui ui;
    struct journal *journal = xcalloc(1, sizeof *journal);
    build_example(&picture);
    keep_first(&picture);
    ui_init(&ui, journal, SECOND_US);
    for (int i = 0; i < 8; i++)
        add_events(journal);
    ui_settle(&ui, &picture, 60, 12);
    keys(&ui, &picture, "ejjjjj", 60, 12);
    for (int scrolled = 1; scrolled >= 0; scrolled--) {
        char before[61], after[61];
        struct grid *grid = rendered(&ui, &picture, 60, 12, true);
        row_text(grid, 6, 0, 60, before);
        grid_free(grid);
        add_events(journal);
        const struct event event = {"jobs/new", RULE_LOST, "worker-of-a-new-kind", 4109, 0, 0};
        journal_add(journal, "prod-us", &event, BUILT_NOW_US);
        grid = rendered(&ui, &picture, 60, 12, true);
        row_text(grid, scrolled ? 6 : 4, 0, 60, after);
        grid_free(grid);
        if (scrolled)
            assert_string_equal(before, after);
        else
            assert_non_null(strstr(after, "jobs/new"));
        keys(&ui, &picture, "g", 60, 12);
    }
    ui_done(&ui);
    picture_done(&picture);
    journal_done(journal);
    free(journal);
}

/* Nobody has pointed at anything: the cursor is on what needs a person most. From the first key on
 * it stays with its duty. */
static void the_cursor_waits_for_a_key(void **state)
{
    (void)state;
    static const struct {
        int code;
        const char *duty; /* which the cursor is on once the other is vacant */
    } rows[] = {{CODE_NONE, "b"}, {'R', "a"}, {'j', "b"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct picture picture;
        struct ui ui;
        struct snapshot *snapshot = build_snapshot(2);
        build_duty(&snapshot->duties[0], "a", 1);
        build_duty(&snapshot->duties[1], "b", 2);
        build_owner(&snapshot->duties[0], 11, "worker-a", HOUR_US);
        build_owner(&snapshot->duties[1], 12, "worker-b", HOUR_US);
        struct published *published = build_published("prod", snapshot);
        build_picture(&picture, &published, 1);
        ui_init(&ui, NULL, SECOND_US);
        ui_settle(&ui, &picture, 80, 24);
        assert_string_equal(ui.duty, "a");
        if (rows[i].code != CODE_NONE)
            (void)ui_key(&ui, &picture, rows[i].code);
        build_duty(&snapshot->duties[1], "b", 2);
        picture.taken_us++;
        ui_settle(&ui, &picture, 80, 24);
        assert_string_equal(ui.duty, rows[i].duty);
        ui_done(&ui);
        picture_done(&picture);
    }
}

/* A server whose duty nobody leads, or that gives no picture, comes before one that wants nobody.
 */
static void servers_by_attention(void **state)
{
    (void)state;
    static const struct {
        bool led[2], fresh[2];
        const char *order; /* the keys before it */
        const char *first;
    } rows[] = {
        {{true, true}, {true, true}, "", "a"},   {{true, false}, {true, true}, "", "b"},
        {{false, false}, {true, true}, "", "a"}, {{true, true}, {true, false}, "", "b"},
        {{false, true}, {true, false}, "", "a"}, {{true, false}, {true, true}, ">d", "a"},
        {{true, false}, {true, true}, "I", "b"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static const char *const names[] = {"a", "b"};
        struct published *published[2];
        struct picture picture;
        struct ui ui;
        for (int s = 0; s < 2; s++) {
            struct snapshot *snapshot = build_snapshot(1);
            build_duty(&snapshot->duties[0], "duty", 1);
            if (rows[i].led[s])
                build_owner(&snapshot->duties[0], 11, "worker", HOUR_US);
            published[s] = build_published(names[s], snapshot);
        }
        build_picture(&picture, published, 2);
        memcpy(picture.fresh, rows[i].fresh, sizeof rows[i].fresh);
        ui_init(&ui, NULL, SECOND_US);
        ui_settle(&ui, &picture, 80, 24);
        keys(&ui, &picture, rows[i].order, 80, 24);
        assert_int_equal(ui.list.n, 4);
        assert_string_equal(picture.servers[ui.list.rows[0].server]->server, rows[i].first);
        ui_done(&ui);
        picture_done(&picture);
    }
}

int main(int argc, char **argv)
{
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    (void)setenv("TZ", "<-0330>3:30", 1);
    golden_begin(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(screens_are_golden),         cmocka_unit_test(names_stay_in_their_cells),
        cmocka_unit_test(columns_are_straight),       cmocka_unit_test(colour_is_never_alone),
        cmocka_unit_test(servers_by_attention),       cmocka_unit_test(events_keep_their_place),
        cmocka_unit_test(the_cursor_waits_for_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
