/* SPDX-License-Identifier: PostgreSQL */
/* The yield dialog and its watch, from readings made by hand: golden text for each width and
 * character set, and that nothing but Enter on [ Yield ] sends. `--update` rewrites the golden
 * files. */
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

static const int64_t boot_us = BUILT_NOW_US - 3 * DAY_US;
static const int64_t leader_us = BUILT_NOW_US - 4 * HOUR_US;
static const int64_t follower_us = BUILT_NOW_US - HOUR_US;

/* A leader with a term and a run, and one that waits. */
struct stage {
    struct yield_target target;
    struct yield_facts before, after;
    struct yield_ledger ledger, later;
    struct yield_lock locks[2], later_locks[1];
    struct yield_step steps[6];
    struct guard_context context;
    struct yield_view view;
    struct arena *arena;
    struct picture picture;
    struct ui ui;
    bool helped;
};

static const struct yield_target led = {
    .server = "prod-us",
    .duty = "jobs/invoice-reconcile",
    .mechanism = MECHANISM_LOCK,
    .key = {0, 742118, 1},
    .key_text = "742118",
    .system_identifier = "7403141592653589793",
    .database = "app",
    .registered = true,
    .owners = 1,
    .pid = 4101,
    .application_name = "pgleader:jobs/invoice-reconcile:invoice-worker-7c9f",
    .client_addr = "10.0.4.17",
    .generation = 28834112,
    .instance = "invoice-worker-7c9f",
};

static void set_up(struct stage *stage)
{
    *stage = (struct stage){.target = led, .arena = arena_new()};
    stage->target.postmaster_start_us = boot_us;
    stage->target.backend_start_us = leader_us;
    stage->ledger = (struct yield_ledger){
        .mechanism = "lock",
        .objid = 742118,
        .objsubid = 1,
        .yieldable = true,
        .generation = 28834112,
        .term_pid = 4101,
        .term_backend_start_us = leader_us,
        .term_instance = "invoice-worker-7c9f",
        .term_open = true,
        .term_listens = true,
        .stop_within_us = 4 * SECOND_US,
        .previous_stopped_us = TIME_UNKNOWN,
        .run_key = "2025-11-29",
        .run_generation = 28834112,
        .run_cursor = "48210",
        .run_position = 48210,
        .run_target = 120000,
        .may_request = true,
        .owner_may_signal = true,
        .function_owner = "pgleader_owner",
    };
    stage->locks[0] = (struct yield_lock){
        0, 742118, 1, true, true, 4101, leader_us, led.application_name, "10.0.4.17"};
    stage->locks[1] = (struct yield_lock){
        0,          742118, 1,           true,
        false,      4102,   follower_us, "pgleader:jobs/invoice-reconcile:invoice-worker-a",
        "10.0.4.18"};
    stage->before = (struct yield_facts){
        .system_identifier = led.system_identifier,
        .key = {0, 742118, 1},
        .n_locks = 2,
        .server = {.database = "app",
                   .postmaster_start_us = boot_us,
                   .pid = 4101,
                   .backend_start_us = leader_us,
                   .application_name = led.application_name,
                   .client_addr = "10.0.4.17",
                   .client_port = 51514,
                   .backend_type = "client backend",
                   .usename = "worker",
                   .xact_start_us = TIME_UNKNOWN,
                   .may_signal = true},
    };
    stage->context = (struct guard_context){.connected = true, .reading_age_us = SECOND_US / 5};
    stage->view = (struct yield_view){.phase = PHASE_ASKING, .sentence = "", .intent = -1};
    build_example(&stage->picture);
    ui_init(&stage->ui, NULL, 2 * SECOND_US);
    stage->ui.may_yield = true;
}

static void tear_down(struct stage *stage)
{
    ui_done(&stage->ui);
    picture_done(&stage->picture);
    arena_free(stage->arena);
}

static void step(struct stage *stage, int64_t after_us, const char *sentence)
{
    stage->steps[stage->view.n_steps++] = (struct yield_step){after_us, sentence, true};
}

/* The successor leads, in a term of its own, and the old session is gone. */
static void see_successor(struct stage *stage)
{
    stage->later = stage->ledger;
    stage->later.generation = 28834160;
    stage->later.term_pid = 4102;
    stage->later.term_backend_start_us = follower_us;
    stage->later.term_instance = "invoice-worker-a";
    stage->later.previous_generation = 28834112;
    stage->later.previous_stopped_us = BUILT_NOW_US;
    stage->later_locks[0] = stage->locks[1];
    stage->later_locks[0].granted = true;
    stage->after = stage->before;
    stage->after.server.pid = -1;
    stage->after.n_locks = 1;
}

/* Everything points to where it is now: a row may have changed any of it. */
static void wire(struct stage *stage)
{
    struct yield_view *view = &stage->view;
    stage->before.locks = stage->locks;
    stage->before.ledger = stage->ledger.mechanism ? &stage->ledger : NULL;
    stage->after.locks = stage->later_locks;
    stage->after.ledger = stage->later.mechanism ? &stage->later : NULL;
    view->target = &stage->target;
    view->asked = &stage->before;
    view->facts = stage->after.system_identifier ? &stage->after : &stage->before;
    view->steps = stage->steps;
    guards_check(&stage->target, &stage->before, &stage->context, stage->arena, &view->guards);
    if (stage->after.system_identifier)
        view->sight = yield_see(&stage->target, &stage->after, stage->arena);
    struct yield_form form = stage->ui.form;
    form_open(&stage->ui.form, view);
    memcpy(stage->ui.form.texts, form.texts, sizeof form.texts);
    stage->ui.form.focus = form.focus;
    stage->ui.form.follow = form.follow;
    stage->ui.form.left_us = form.left_us ? form.left_us : -1;
    stage->ui.form.age_us = form.age_us;
    stage->ui.screen = form_is_dialog(&stage->ui.form) ? SCREEN_YIELD : SCREEN_WATCH;
    if (stage->helped)
        (void)ui_key(&stage->ui, &stage->picture, CODE_F1);
}

static void type(struct stage *stage, enum form_field field, const char *text)
{
    (void)snprintf(stage->ui.form.texts[field], FORM_TEXT_SIZE, "%s", text);
    stage->ui.form.focus = field;
}

static void as_it_opens(struct stage *stage)
{
    (void)stage;
}

static void half_typed(struct stage *stage)
{
    type(stage, FORM_REASON, "node-b GC pauses, INC-2231");
    type(stage, FORM_CONFIRM, "jobs/invoice-reconcile 288");
}

static void ready(struct stage *stage)
{
    type(stage, FORM_REASON, "node-b GC pauses, INC-2231");
    type(stage, FORM_CONFIRM, "jobs/invoice-reconcile 28834112");
    stage->ui.form.focus = FORM_YIELD;
    stage->ui.form.left_us = 12 * SECOND_US;
}

static void strange_worker(struct stage *stage)
{
    stage->ledger = (struct yield_ledger){0};
    stage->target.generation = -1;
    stage->target.registered = false;
    stage->before.n_locks = 1;
    stage->before.server.application_name = stage->target.application_name =
        stage->locks[0].application_name = "cron.sh on a host with a long name of its own";
    type(stage, FORM_OVERRIDE, "no-succ");
}

static void overridden(struct stage *stage)
{
    strange_worker(stage);
    type(stage, FORM_OVERRIDE, "no-successor");
    stage->context.overrides = 1U << GUARD_SUCCESSOR;
}

static void strange_lease(struct stage *stage)
{
    stage->ledger = (struct yield_ledger){0};
    stage->target.mechanism = MECHANISM_LEASE;
    stage->target.key_text = "public.leader_lease:nightly";
    stage->target.lease_table = "public.leader_lease";
    stage->target.duty = "reports/nightly";
    stage->target.holder = "report-3";
    stage->target.generation = -1;
    stage->target.pid = 0;
    stage->target.registered = false;
}

static void frozen(struct stage *stage)
{
    half_typed(stage);
    stage->context.reading_age_us = 14 * SECOND_US;
}

static void another_leads(struct stage *stage)
{
    half_typed(stage);
    stage->locks[0].granted = false;
    stage->locks[1].granted = true;
    stage->view.phase = PHASE_DONE;
    stage->view.end = END_REFUSED;
    stage->view.sentence =
        "Refused by guard owner: Another session holds the lock now: pid 4102. Nothing was sent.";
}

static void in_grace(struct stage *stage)
{
    stage->view.phase = PHASE_GRACE;
    stage->view.intent = 119;
    stage->view.sent = SENT_ASKED;
    stage->ui.form.left_us = 7 * SECOND_US;
    step(stage, 12345, "Intent 119 is recorded and committed.");
    step(stage, 12399, "The leader listens, and was asked to release.");
}

static void moved(struct stage *stage)
{
    in_grace(stage);
    see_successor(stage);
    stage->view.phase = PHASE_DONE;
    stage->view.outcome = YIELD_MOVED;
    stage->view.recorded = true;
    stage->view.sentence = "Moved: \"invoice-worker-a\" (pid 4102, generation 28834160) leads now.";
    stage->ui.form.left_us = 0;
    step(stage, 98765, "The leader gave it up by itself.");
    step(stage, 143210, stage->view.sentence);
}

static void not_confirmed(struct stage *stage)
{
    in_grace(stage);
    stage->after = stage->before;
    stage->later = stage->ledger;
    stage->later_locks[0] = stage->locks[0];
    stage->after.n_locks = 1;
    stage->view.phase = PHASE_DONE;
    stage->view.sent = SENT_YES;
    stage->view.outcome = YIELD_NOT_CONFIRMED;
    stage->view.sentence = "Not confirmed: the session was signalled, and still holds it. The "
                           "signal may take effect later.";
    stage->ui.form.left_us = 0;
    stage->ui.form.age_us = 31 * SECOND_US;
    step(stage, 10 * SECOND_US, "The grace is over, and the leader still holds it.");
    step(stage, 10 * SECOND_US + 9000, "Pid 4101 was signalled.");
    step(stage, 40 * SECOND_US, stage->view.sentence);
}

static void low(struct stage *stage)
{
    half_typed(stage);
    stage->ui.form.follow = true;
}

/* Help, opened from the screen that the yield is on. */
static void helped(struct stage *stage)
{
    stage->helped = true;
}

static void helped_dialog(struct stage *stage)
{
    half_typed(stage);
    helped(stage);
}

static void helped_watch(struct stage *stage)
{
    in_grace(stage);
    helped(stage);
}

static const struct {
    const char *name;
    int height;
    void (*change)(struct stage *stage);
} cases[] = {
    {"yield", 54, as_it_opens},
    {"yield-ready", 32, ready},
    {"yield-strange", 40, strange_worker},
    {"yield-override", 36, overridden},
    {"yield-lease", 36, strange_lease},
    {"yield-frozen", 36, frozen},
    {"yield-changed", 36, another_leads},
    {"yield-low", 10, low},
    {"watch-grace", 34, in_grace},
    {"watch-moved", 34, moved},
    {"watch-not-confirmed", 40, not_confirmed},
    {"yield-help", 10, helped_dialog},
    {"watch-help", 10, helped_watch},
};
enum { CASES = sizeof cases / sizeof *cases };

static void check(struct stage *stage, int width, int height, bool unicode, const char *name)
{
    size_t size = 0;
    CLEANUP(free_charp) char *text = NULL;
    struct grid *grid = grid_new(width, height, unicode);
    ui_settle(&stage->ui, &stage->picture, width, height);
    screen_render(&stage->ui, &stage->picture, NOW_US, grid);
    FILE *out = open_memstream(&text, &size);
    grid_print(grid, out);
    (void)fclose(out);
    grid_free(grid);
    CLEANUP(free_charp)
    char *path = xasprintf("tui/%s-%d%s.screen", name, width, unicode ? "" : "-C");
    CLEANUP(free_charp) char *difference = golden_difference(path, text, size);
    if (difference)
        fail_msg("%s", difference);
}

static void screens_are_golden(void **state)
{
    (void)state;
    static const int widths[] = {60, 80, 100, 140};
    for (int i = 0; i < CASES; i++) {
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            struct stage *stage = xcalloc(1, sizeof *stage);
            set_up(stage);
            cases[i].change(stage);
            wire(stage);
            check(stage, widths[w], cases[i].height, true, cases[i].name);
            if (widths[w] == 80)
                check(stage, widths[w], cases[i].height, false, cases[i].name);
            tear_down(stage);
            free(stage);
        }
    }
}

/* A reason of many lines on a narrow screen, a confirmation that is not complete, an override. */
static void long_reason(struct stage *stage)
{
    type(stage, FORM_REASON,
         "node-b has GC pauses of 40 s since the deploy of 14:10, INC-2231; its disk is "
         "\u0442\u043e\u0436\u0435 slow, \u540d\u524d says so, and whoever is on call "
         "next should look at both of them before they go on");
}

static const struct {
    void (*change)(struct stage *stage);
    enum form_field focus;
    const char *mark, *end; /* on the screen whatever its size: where one is, what was typed */
} fields[] = {
    {as_it_opens, FORM_CANCEL, "> [ Cancel ]", ""},
    {half_typed, FORM_CONFIRM, "> Confirm ", "288_"},
    {half_typed, FORM_REASON, "> Reason ", "INC-2231_"},
    {long_reason, FORM_REASON, "> Reason ", "on_"},
    {ready, FORM_YIELD, "> [ Yield ]", ""},
    {overridden, FORM_OVERRIDE, "> Override ", "no-successor_"},
    {strange_lease, FORM_CONFIRM, "> Confirm ", "_"},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static char *rendered(struct stage *stage, int width, int height)
{
    size_t size = 0;
    char *text = NULL;
    struct grid *grid = grid_new(width, height, true);
    ui_settle(&stage->ui, &stage->picture, width, height);
    screen_render(&stage->ui, &stage->picture, NOW_US, grid);
    FILE *out = open_memstream(&text, &size);
    grid_print(grid, out);
    (void)fclose(out);
    grid_free(grid);
    return text;
}

/* Whoever types sees where, and what, from 60x10 to 200x60: fields, widths and heights by turns;
 * the screen keeps its place from one size to the next. */
static void the_field_is_seen_at_every_size(void **state)
{
    (void)state;
    for (int i = 0; i < FIELDS; i++) {
        struct stage *stage = xcalloc(1, sizeof *stage);
        set_up(stage);
        fields[i].change(stage);
        wire(stage);
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
        tear_down(stage);
        free(stage);
    }
}

/* With all filled in, each key on each field: what sends, and what ends. */
static void only_enter_on_yield_sends(void **state)
{
    (void)state;
    for (int focus = 0; focus < FORM_FIELDS; focus++) {
        for (int code = 1; code < CODE_GONE; code = code == 0xFF ? CODE_UP : code + 1) {
            struct stage *stage = xcalloc(1, sizeof *stage);
            set_up(stage);
            ready(stage);
            wire(stage);
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
            tear_down(stage);
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
        set_up(stage);
        ready(stage);
        type(stage, rows[i].field, rows[i].text);
        wire(stage);
        stage->ui.form.focus = FORM_YIELD;
        assert_string_equal(form_obstacle(&stage->ui.form, stage->arena), rows[i].obstacle);
        assert_int_equal(ui_key(&stage->ui, &stage->picture, CODE_ENTER), WISH_NONE);
        assert_non_null(strstr(stage->ui.message, rows[i].obstacle));
        tear_down(stage);
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

int main(int argc, char **argv)
{
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    golden_begin(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(screens_are_golden),
        cmocka_unit_test(the_field_is_seen_at_every_size),
        cmocka_unit_test(only_enter_on_yield_sends),
        cmocka_unit_test(what_is_missing_is_said),
        cmocka_unit_test(overrides_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
