/* SPDX-License-Identifier: PostgreSQL */
/* The fields of the yield dialog: seen at every size, nothing but Enter on [ Yield ] sends, and
 * what is missing is said. */
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
#include "tests/support/yield_stage.h"
#include "tui/screen.h"

/* A reason of many lines on a narrow screen, a confirmation that is not complete, an override. */
static void long_reason(struct stage *stage)
{
    stage_type(stage, FORM_REASON,
               "node-b has GC pauses of 40 s since the deploy of 14:10, INC-2231; its disk is "
               "\u0442\u043e\u0436\u0435 slow, \u540d\u524d says so, and whoever is on call "
               "next should look at both of them before they go on");
}

static const struct {
    void (*change)(struct stage *stage);
    enum form_field focus;
    const char *mark, *end; /* on the screen whatever its size: where one is, what was typed */
} fields[] = {
    {stage_as_it_opens, FORM_CANCEL, "> [ Cancel ]", ""},
    {stage_half_typed, FORM_CONFIRM, "> Confirm ", "288_"},
    {stage_half_typed, FORM_REASON, "> Reason ", "INC-2231_"},
    {long_reason, FORM_REASON, "> Reason ", "on_"},
    {stage_ready, FORM_YIELD, "> [ Yield ]", ""},
    {stage_overridden, FORM_OVERRIDE, "> Override ", "no-successor_"},
    {stage_strange_lease, FORM_CONFIRM, "> Confirm ", "_"},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static char *rendered(struct stage *stage, int width, int height)
{
    size_t size = 0;
    return stage_print(stage, width, height, true, &size);
}

/* Whoever types sees where, and what, from 60x10 to 200x60: fields, widths and heights by turns;
 * the screen keeps its place from one size to the next. */
static void the_field_is_seen_at_every_size(void **state)
{
    (void)state;
    for (int i = 0; i < FIELDS; i++) {
        struct stage *stage = xcalloc(1, sizeof *stage);
        stage_set_up(stage);
        fields[i].change(stage);
        stage_wire(stage);
        stage->ui.form.focus = fields[i].focus;
        stage->ui.form.follow = true;
        for (int width = 60 + i; width <= 200; width += FIELDS) {
            int height = 10 + (width - 60) / FIELDS * 17 % 51;
            CLEANUP(free_charp) char *text = rendered(stage, width, height);
            if (!strstr(text, fields[i].mark) || !strstr(text, fields[i].end) ||
                !strstr(text, "may yield  ") || !strstr(text, "Esc Cancel  "))
                fail_msg("%dx%d, \"%s\" and \"%s\":\n%s", width, height, fields[i].mark,
                         fields[i].end, text);
        }
        stage_tear_down(stage);
        free(stage);
    }
}

/* What does not fit is not swallowed in silence. */
static void a_full_field_says_so(void **state)
{
    (void)state;
    struct stage *stage = xcalloc(1, sizeof *stage);
    stage_set_up(stage);
    stage_wire(stage);
    stage->ui.form.focus = FORM_REASON;
    for (int i = 1; i < FORM_TEXT_SIZE; i++) {
        (void)ui_key(&stage->ui, &stage->picture, 'x');
        assert_string_equal(stage->ui.message, "");
    }
    (void)ui_key(&stage->ui, &stage->picture, 'x');
    assert_non_null(strstr(stage->ui.message, "No more fits"));
    (void)ui_key(&stage->ui, &stage->picture, CODE_BACKSPACE);
    assert_string_equal(stage->ui.message, "");
    stage_tear_down(stage);
    free(stage);
}

/* Tab goes downwards, whatever may be overridden. */
static void tab_goes_downwards(void **state)
{
    (void)state;
    static const char *const marks[] = {"> Override ", "> Reason ", "> Confirm ", "> [ Yield ]"};
    struct stage *stage = xcalloc(1, sizeof *stage);
    ptrdiff_t above = 0;
    stage_set_up(stage);
    stage_overridden(stage);
    stage->ui.form.focus = FORM_CANCEL;
    stage_wire(stage);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        (void)ui_key(&stage->ui, &stage->picture, CODE_TAB);
        CLEANUP(free_charp) char *text = rendered(stage, 100, 60);
        const char *mark = strstr(text, marks[i]);
        assert_non_null(mark);
        assert_true(mark - text > above);
        above = mark - text;
    }
    stage_tear_down(stage);
    free(stage);
}

/* With all filled in, each key on each field: what sends, and what ends. */
static void only_enter_on_yield_sends(void **state)
{
    (void)state;
    for (int focus = 0; focus < FORM_FIELDS; focus++) {
        for (int code = 1; code < CODE_GONE; code = code == 0xFF ? CODE_UP : code + 1) {
            struct stage *stage = xcalloc(1, sizeof *stage);
            stage_set_up(stage);
            stage_ready(stage);
            stage_wire(stage);
            stage->ui.form.focus = (enum form_field)focus;
            ui_settle(&stage->ui, &stage->picture, 80, 24);
            enum ui_wish wish = ui_key(&stage->ui, &stage->picture, code);
            bool sends = focus == FORM_YIELD && code == CODE_ENTER;
            assert_int_equal(wish == WISH_YIELD_SEND, sends);
            assert_int_equal(stage->ui.form.confirmed, sends);
            bool text = focus != FORM_CANCEL && focus != FORM_YIELD;
            bool ends = code == CODE_ESCAPE || (code == 'q' && !text) ||
                        (code == CODE_ENTER && focus == FORM_CANCEL);
            assert_int_equal(wish == WISH_YIELD_END, ends);
            assert_int_equal(wish == WISH_QUIT, code == 'Q' && !text);
            stage_tear_down(stage);
            free(stage);
        }
    }
}

/* What is not whole sends nothing, and says why. */
static void what_is_missing_is_said(void **state)
{
    (void)state;
    static const struct {
        enum form_field field;
        const char *text, *obstacle;
    } rows[] = {
        {FORM_REASON, "", "a reason is missing"},
        {FORM_REASON, "   ", "a reason is missing"},
        {FORM_CONFIRM, "", "the confirmation is not typed"},
        {FORM_CONFIRM, "jobs/invoice-reconcile 28834113", "what is typed is not what leads"},
        {FORM_CONFIRM, "jobs/invoice-reconcile 28834112 ", "what is typed is not what leads"},
        {FORM_CONFIRM, "jobs/invoice-reconcile", "what is typed is not what leads"},
        {FORM_OVERRIDE, "owner", "\"owner\" cannot be overridden"},
        {FORM_OVERRIDE, "cool-down, identity", "\"identity\" cannot be overridden"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stage *stage = xcalloc(1, sizeof *stage);
        stage_set_up(stage);
        stage_ready(stage);
        stage_type(stage, rows[i].field, rows[i].text);
        stage_wire(stage);
        stage->ui.form.focus = FORM_YIELD;
        assert_string_equal(form_obstacle(&stage->ui.form, stage->arena), rows[i].obstacle);
        assert_int_equal(ui_key(&stage->ui, &stage->picture, CODE_ENTER), WISH_NONE);
        assert_non_null(strstr(stage->ui.message, rows[i].obstacle));
        stage_tear_down(stage);
        free(stage);
    }
}

/* Names are overridden by name alone, and only those that may be. */
static void overrides_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t bits;
    } rows[] = {
        {"", 0},
        {"no-successor", 1U << GUARD_SUCCESSOR},
        {" cool-down,pooled  audit", 1U << GUARD_COOLDOWN | 1U << GUARD_POOLED | 1U << GUARD_AUDIT},
        {"no-successo", 0},
        {"all", 0},
        {"fresh owner generation server confirm lease", 0},
    };
    struct yield_form form = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        (void)snprintf(form.texts[FORM_OVERRIDE], FORM_TEXT_SIZE, "%s", rows[i].text);
        assert_int_equal(form_overrides(&form), rows[i].bits);
    }
}

int main(void)
{
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_field_is_seen_at_every_size),
        cmocka_unit_test(a_full_field_says_so),
        cmocka_unit_test(tab_goes_downwards),
        cmocka_unit_test(only_enter_on_yield_sends),
        cmocka_unit_test(what_is_missing_is_said),
        cmocka_unit_test(overrides_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
