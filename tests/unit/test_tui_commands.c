/* SPDX-License-Identifier: PostgreSQL */
/* The command line, the choice of an order, and what is copied, on a picture made by hand. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "tests/support/picture_builder.h"
#include "tui/copy.h"
#include "tui/ui_command.h"

struct stage {
    struct picture picture;
    struct ui ui;
};

static void set_up(struct stage *stage)
{
    build_example(&stage->picture);
    ui_init(&stage->ui, NULL, 2 * SECOND_US);
    ui_settle(&stage->ui, &stage->picture, 100, 24);
}

static void tear_down(struct stage *stage)
{
    ui_done(&stage->ui);
    picture_done(&stage->picture);
}

static enum ui_wish keys(struct stage *stage, const char *typed)
{
    enum ui_wish wish = WISH_NONE;
    for (; *typed; typed++) {
        wish = ui_key(&stage->ui, &stage->picture, *typed == '\n' ? CODE_ENTER : *typed);
        ui_settle(&stage->ui, &stage->picture, 100, 24);
    }
    return wish;
}

/* What is typed, and what must be so then; NULL and 0 are not looked at. */
static const struct {
    const char *typed;
    enum ui_wish wish;
    enum screen_id screen;
    const char *message, *filter, *path, *duty;
    enum list_order order;
} rows[] = {
    {":quit\n", .wish = WISH_QUIT},
    {":q\n", .wish = WISH_QUIT},
    {"?", .screen = SCREEN_HELP},
    {":help\n", .screen = SCREEN_HELP},
    {":refresh\n", .wish = WISH_REFRESH},
    {"R", .wish = WISH_REFRESH},
    {":save /tmp/some screen.txt\n", .wish = WISH_SAVE, .path = "/tmp/some screen.txt"},
    {":save x\nS", .wish = WISH_SAVE, .path = ""},
    {":sort held\n", .order = ORDER_HELD},
    {":sort w\n", .order = ORDER_WAIT},
    {":sort\n", .message = "Sort by what?"},
    {":sort size\n", .message = "Sort by what?"},
    {">h", .order = ORDER_HELD},
    {">>>\n", .order = ORDER_OWNER},
    {">\n", .order = ORDER_ATTENTION},
    {"e:filter lease\n", .screen = SCREEN_LIST, .filter = "lease"},
    {":filter a b\n:f\n", .filter = ""},
    {"/nightly\n\\jobs/\n", .filter = "jobs/", .duty = "jobs/contested"},
    {"/pooled\n\\jobs/\n", .filter = "jobs/", .duty = "jobs/pooled"},
    {":duty jobs/vacant\n", .screen = SCREEN_DUTY, .duty = "jobs/vacant"},
    {":duty jobs/vacan\n", .message = "No such duty in the list: jobs/vacan"},
    {":yield\n", .message = "start it with --allow-yield"},
    {":yield jobs/nowhere\n", .message = "No such duty"},
    {":nothing\n", .message = "No such command: nothing"},
    {":\n", .screen = SCREEN_LIST},
    {":  \n", .screen = SCREEN_LIST},
    {"::\n", .message = "No such command: :"},
};

static void lines_do_what_keys_do(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stage stage;
        set_up(&stage);
        assert_int_equal(keys(&stage, rows[i].typed), rows[i].wish);
        assert_int_equal(stage.ui.screen, rows[i].screen);
        assert_int_equal(stage.ui.order, rows[i].order);
        assert_int_equal(stage.ui.entry, ENTRY_NONE);
        if (rows[i].message)
            assert_non_null(strstr(stage.ui.message, rows[i].message));
        if (rows[i].filter)
            assert_string_equal(stage.ui.filter, rows[i].filter);
        if (rows[i].path)
            assert_string_equal(stage.ui.path, rows[i].path);
        if (rows[i].duty)
            assert_string_equal(stage.ui.duty, rows[i].duty);
        tear_down(&stage);
    }
}

/* As far as the dialog is allowed, the line opens it and sends nothing. */
static void a_line_asks_whether_to_yield(void **state)
{
    (void)state;
    struct stage stage;
    set_up(&stage);
    stage.ui.may_yield = true;
    assert_int_equal(keys(&stage, ":yield jobs/invoice-reconcile\n"), WISH_YIELD_OPEN);
    assert_int_equal(stage.ui.screen, SCREEN_DUTY);
    stage.ui.screen = SCREEN_LIST;
    assert_int_equal(keys(&stage, ":yield jobs/vacant\n"), WISH_NONE);
    assert_non_null(strstr(stage.ui.message, "nobody leads it"));
    tear_down(&stage);
}

/* Left again as far as right, and not further. */
static void columns_scroll_to_their_ends(void **state)
{
    (void)state;
    struct stage stage;
    set_up(&stage);
    assert_int_equal(keys(&stage, "["), WISH_NONE);
    assert_non_null(strstr(stage.ui.message, "first columns"));
    (void)keys(&stage, "]]]]]]]]]]]]]]]]]]]]");
    assert_non_null(strstr(stage.ui.message, "no more columns"));
    assert_int_equal(stage.ui.shift, stage.ui.shift_most);
    assert_true(stage.ui.shift > 4);
    ui_settle(&stage.ui, &stage.picture, 160, 24);
    assert_int_equal(stage.ui.shift, 0);
    tear_down(&stage);
}

static void what_is_copied(void **state)
{
    (void)state;
    char first[] = "host=db dbname='it''s'", none[] = "";
    char *connects[] = {first, none, none, none};
    static const struct {
        const char *typed, *text;
    } copies[] = {
        {"/invoice\n", "jobs/invoice-reconcile"},
        {"/nightly\n\n", "reports/nightly"},
        {"/invoice\n\n", "psql -X -d 'host=db dbname='\\''it'\\'''\\''s'\\''' -c \"SELECT l.pid"},
        {"/invoice\n\n", " AND l.objid = 742118 AND l.objsubid = 1 "},
    };
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
        struct stage stage;
        set_up(&stage);
        (void)keys(&stage, copies[i].typed);
        assert_int_equal(keys(&stage, "c"), WISH_COPY);
        CLEANUP(free_charp) char *text = copy_text(&stage.ui, &stage.picture, connects);
        assert_non_null(text);
        if (!strstr(text, copies[i].text))
            fail_msg("\"%s\" lacks \"%s\"", text, copies[i].text);
        tear_down(&stage);
    }
}

/* RFC 4648's own vectors. */
static void the_clipboard_takes_base64(void **state)
{
    (void)state;
    static const char *const vectors[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
        {"\xFF\xFE", "//4="},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        char expected[64];
        CLEANUP(free_charp) char *sequence = copy_sequence(vectors[i][0]);
        (void)snprintf(expected, sizeof expected, "\033]52;c;%s\a", vectors[i][1]);
        assert_string_equal(sequence, expected);
    }
}

int main(void)
{
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_do_what_keys_do),
        cmocka_unit_test(a_line_asks_whether_to_yield),
        cmocka_unit_test(columns_scroll_to_their_ends),
        cmocka_unit_test(what_is_copied),
        cmocka_unit_test(the_clipboard_takes_base64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
