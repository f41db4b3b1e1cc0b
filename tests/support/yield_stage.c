/* SPDX-License-Identifier: PostgreSQL */
/* Readings, guards and fields of a yield, made by hand. */
#include "tests/support/yield_stage.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "tests/support/picture_builder.h"
#include "tui/screen.h"

static const int64_t boot_us = BUILT_NOW_US - 3 * DAY_US;
static const int64_t leader_us = BUILT_NOW_US - 4 * HOUR_US;
static const int64_t follower_us = BUILT_NOW_US - HOUR_US;

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

void stage_set_up(struct stage *stage)
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

void stage_tear_down(struct stage *stage)
{
    ui_done(&stage->ui);
    picture_done(&stage->picture);
    arena_free(stage->arena);
}

void stage_step(struct stage *stage, int64_t after_us, const char *sentence)
{
    stage->steps[stage->view.n_steps++] = (struct yield_step){after_us, sentence, true};
}

/* The successor leads, in a term of its own, and the old session is gone. */
void stage_see_successor(struct stage *stage)
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
void stage_wire(struct stage *stage)
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

char *stage_print(struct stage *stage, int width, int height, bool unicode, size_t *ret_size)
{
    char *text = NULL;
    struct grid *grid = grid_new(width, height, unicode);
    ui_settle(&stage->ui, &stage->picture, width, height);
    screen_render(&stage->ui, &stage->picture, STAGE_NOW_US, grid);
    FILE *out = open_memstream(&text, ret_size);
    grid_print(grid, out);
    (void)fclose(out);
    grid_free(grid);
    return text;
}

void stage_type(struct stage *stage, enum form_field field, const char *text)
{
    (void)snprintf(stage->ui.form.texts[field], FORM_TEXT_SIZE, "%s", text);
    stage->ui.form.focus = field;
}

void stage_as_it_opens(struct stage *stage)
{
    (void)stage;
}

void stage_half_typed(struct stage *stage)
{
    stage_type(stage, FORM_REASON, "node-b GC pauses, INC-2231");
    stage_type(stage, FORM_CONFIRM, "jobs/invoice-reconcile 288");
}

void stage_ready(struct stage *stage)
{
    stage_type(stage, FORM_REASON, "node-b GC pauses, INC-2231");
    stage_type(stage, FORM_CONFIRM, "jobs/invoice-reconcile 28834112");
    stage->ui.form.focus = FORM_YIELD;
    stage->ui.form.left_us = 12 * SECOND_US;
}

void stage_strange_worker(struct stage *stage)
{
    stage->ledger = (struct yield_ledger){0};
    stage->target.generation = -1;
    stage->target.registered = false;
    stage->before.n_locks = 1;
    stage->before.server.application_name = stage->target.application_name =
        stage->locks[0].application_name = "cron.sh on a host with a long name of its own";
    stage_type(stage, FORM_OVERRIDE, "no-succ");
}

void stage_overridden(struct stage *stage)
{
    stage_strange_worker(stage);
    stage_type(stage, FORM_OVERRIDE, "no-successor");
    stage->context.overrides = 1U << GUARD_SUCCESSOR;
}

void stage_strange_lease(struct stage *stage)
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
