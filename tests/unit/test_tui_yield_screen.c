/* SPDX-License-Identifier: PostgreSQL */
/* The yield dialog and its watch, from readings made by hand: golden text for each width and
 * character set. `--update` rewrites the golden files. */
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
#include "tests/support/yield_stage.h"
#include "tui/screen.h"

static void frozen(struct stage *stage)
{
    stage_half_typed(stage);
    stage->context.reading_age_us = 14 * SECOND_US;
}

static void another_leads(struct stage *stage)
{
    stage_half_typed(stage);
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
    stage_step(stage, 12345, "Intent 119 is recorded and committed.");
    stage_step(stage, 12399, "The leader listens, and was asked to release.");
}

static void moved(struct stage *stage)
{
    in_grace(stage);
    stage_see_successor(stage);
    stage->view.phase = PHASE_DONE;
    stage->view.outcome = YIELD_MOVED;
    stage->view.recorded = true;
    stage->view.sentence = "Moved: \"invoice-worker-a\" (pid 4102, generation 28834160) leads now.";
    stage->ui.form.left_us = 0;
    stage_step(stage, 98765, "The leader gave it up by itself.");
    stage_step(stage, 143210, stage->view.sentence);
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
    stage_step(stage, 10 * SECOND_US, "The grace is over, and the leader still holds it.");
    stage_step(stage, 10 * SECOND_US + 9000, "Pid 4101 was signalled.");
    stage_step(stage, 40 * SECOND_US, stage->view.sentence);
}

static void low(struct stage *stage)
{
    stage_half_typed(stage);
    stage->ui.form.follow = true;
}

/* Help, opened from the screen that the yield is on. */
static void helped(struct stage *stage)
{
    stage->helped = true;
}

static void helped_dialog(struct stage *stage)
{
    stage_half_typed(stage);
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
    {"yield", 54, stage_as_it_opens},
    {"yield-ready", 32, stage_ready},
    {"yield-strange", 40, stage_strange_worker},
    {"yield-override", 36, stage_overridden},
    {"yield-lease", 36, stage_strange_lease},
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
    CLEANUP(free_charp) char *text = stage_print(stage, width, height, unicode, &size);
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
            stage_set_up(stage);
            cases[i].change(stage);
            stage_wire(stage);
            check(stage, widths[w], cases[i].height, true, cases[i].name);
            if (widths[w] == 80)
                check(stage, widths[w], cases[i].height, false, cases[i].name);
            stage_tear_down(stage);
            free(stage);
        }
    }
}

int main(int argc, char **argv)
{
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    golden_begin(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(screens_are_golden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
