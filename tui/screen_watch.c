/* SPDX-License-Identifier: PostgreSQL */
/* The watch of a yield: what was done when, what is seen since, how it ended and what to do then.
 */
#include <inttypes.h>

#include "base/memory.h"
#include "base/text.h"
#include "tui/screen.h"
#include "tui/yield_show.h"

enum { STEP_WIDTH = 12 };

static const int64_t late_after_us = 2 * SECOND_US;

/* What the person does next. */
static const char *const next_steps[YIELD_OUTCOMES] = {
    [YIELD_MOVED] = "Look whether its work moves, and whether the old worker has stopped.",
    [YIELD_RETURNED] = "It is the only one that tries, or the quickest: start or unblock another.",
    [YIELD_VACANT] = "Start a candidate: nobody does this duty's work.",
    [YIELD_NOT_CONFIRMED] =
        "Nothing is repeated by itself. Look at the backend on the server's host.",
    [YIELD_UNKNOWN] = "Look who leads before anything else.",
    [YIELD_REFUSED] = "Nothing was sent. Look who leads now, and ask anew.",
};

static const char *known(const char *text)
{
    return text && *text ? text : "?";
}

static unsigned outcome_attr(enum yield_outcome outcome)
{
    return GRID_BOLD | (outcome == YIELD_MOVED      ? GRID_GREEN
                        : outcome == YIELD_RETURNED ? GRID_YELLOW
                                                    : GRID_RED);
}

static const char *left_words(const struct yield_form *form, struct arena *arena)
{
    if (form->left_us < 0)
        return "";
    return arena_printf(arena, ", %" PRId64 "s left", (form->left_us + SECOND_US - 1) / SECOND_US);
}

static void render_progress(const struct yield_form *form, struct arena *arena, struct page *page)
{
    const struct yield_view *view = form->view;
    const char *left = left_words(form, arena);
    bool release = view->guards.road == ROAD_RELEASE;
    static const char *const phases[] = {
        [PHASE_LOOKING] = "looking",
        [PHASE_ASKING] = "asking",
        [PHASE_REQUESTING] = "the intent is on its way into the audit",
        [PHASE_GRACE] = "the leader was asked, and is given time to release it",
        [PHASE_SENDING] = "the one statement that ends the session is on its way",
        [PHASE_WATCHING] = "watching who leads next",
        [PHASE_RECORDING] = "the outcome is on its way into the audit",
        [PHASE_DONE] = "done",
    };
    page_field(page, "Now", GRID_BOLD, "%s%s%s", phases[view->phase], left,
               view->phase == PHASE_GRACE && !release ? "; then its session is ended" : "");
}

/* "MOVED", and the sentence, which says the same first and then more. */
static void render_outcome(const struct yield_view *view, struct page *page)
{
    char name[32];
    (void)snprintf(name, sizeof name, "%s", yield_outcome_names[view->outcome]);
    for (char *c = name; *c; c++)
        *c = (char)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    page_field(page, "Outcome", outcome_attr(view->outcome), "%s", name);
    page_field(page, "", GRID_PLAIN, "%s", view->sentence);
    page_field(page, "Do now", GRID_BOLD, "%s", next_steps[view->outcome]);
}

static void render_sent(const struct yield_view *view, struct page *page)
{
    page_field(page, "Sent", view->sent == SENT_MAYBE ? GRID_BOLD | GRID_RED : GRID_PLAIN, "%s",
               yield_sent_words(view));
    if (view->intent < 0)
        page_field(page, "Audit", GRID_PLAIN, "the local log: standard error and syslog");
    else
        page_field(page, "Audit", GRID_PLAIN, "intent %" PRId64 " of the ledger, %s", view->intent,
                   view->recorded              ? "with its outcome"
                   : view->phase == PHASE_DONE ? "WITHOUT an outcome: it could not be recorded"
                                               : "its outcome to come");
}

static void render_steps(const struct yield_view *view, struct arena *arena, struct page *page)
{
    page_heading(page, "STEPS");
    for (size_t i = 0; i < view->n_steps; i++)
        page_entry(page, 0, STEP_WIDTH,
                   arena_printf(arena, "%8.3f s", (double)view->steps[i].after_us / SECOND_US),
                   GRID_PLAIN, view->steps[i].sentence);
}

static const char *run_at(const struct yield_facts *facts)
{
    const struct yield_ledger *ledger = facts ? facts->ledger : NULL;
    return ledger && ledger->run_key ? ledger->run_cursor ? ledger->run_cursor : "the start" : NULL;
}

/* The old owner and what is seen instead; only what was read after the sending says so. */
static void render_sight(const struct yield_form *form, struct arena *arena, struct page *page)
{
    const struct yield_view *view = form->view;
    const struct yield_target *target = view->target;
    const struct yield_sight *sight = &view->sight;
    bool seen = view->facts && view->facts != view->asked;
    page_heading(page, "BEFORE AND NOW");
    page_field(page, "Before", GRID_PLAIN, "%s%s",
               target->pid > 0  ? arena_printf(arena, "pid %" PRId32 " %s, since %s", target->pid,
                                               target->application_name,
                                               yield_time(target->backend_start_us, arena))
               : target->holder ? target->holder
                                : "",
               target->generation >= 0
                   ? arena_printf(arena, ", generation %" PRId64, target->generation)
                   : "");
    if (!seen) {
        page_field(page, "Now", GRID_PLAIN, "not looked at since");
        return;
    }
    page_field(page, "Now", GRID_BOLD, "%s",
               sight->held  ? "the same owner still holds it"
               : sight->led ? known(sight->successor)
                            : "nobody leads");
    if (target->pid > 0)
        page_field(page, "Old session", sight->old_session ? GRID_BOLD : GRID_PLAIN, "%s",
                   sight->old_session ? "still there" : "gone");
    if (sight->led && !sight->held && target->generation >= 0)
        page_field(page, "Generation", GRID_PLAIN, "%" PRId64 " -> %s", target->generation,
                   sight->generation >= 0 ? arena_printf(arena, "%" PRId64, sight->generation)
                                          : "not begun yet");
    if (run_at(view->asked))
        page_field(page, "Run", GRID_PLAIN, "%s -> %s", run_at(view->asked),
                   run_at(view->facts) ? run_at(view->facts) : "none is under way");
    if (form->age_us > late_after_us)
        page_field(page, "", GRID_BOLD | GRID_RED, "seen %" PRId64 "s %s", form->age_us / SECOND_US,
                   view->phase == PHASE_DONE ? "before it was over: no answer in between"
                                             : "ago: no answer since");
}

/* The duty as every other screen has it: whether its work moves. */
static void render_live(const struct yield_target *target, const struct picture *picture,
                        struct page *page)
{
    int at = picture_find(picture, target->server);
    const struct published *published = at >= 0 ? picture->servers[at] : NULL;
    const struct duty *duty =
        published && published->snapshot ? snapshot_find(published->snapshot, target->duty) : NULL;
    char words[VERDICT_SIZE], moved[WORDS_SIZE];
    page_heading(page, "THE DUTY, as the list has it");
    if (!duty) {
        page_field(page, "State", GRID_BOLD, "not in the picture");
        return;
    }
    verdict_words(duty, picture->fresh[at], words);
    page_field(page, "State", verdict_attr(verdict_urgency(duty, picture->fresh[at])) | GRID_BOLD,
               "%s%s%s", words, *duty_holder(duty) ? ", by " : "", duty_holder(duty));
    if (!duty->run->present)
        return;
    words_since(duty->run->advanced_us, duty->read_upper_us, moved);
    page_field(page, "Run", GRID_PLAIN, "%s at %s, moved %s ago", known(duty->run->key),
               duty->run->cursor ? duty->run->cursor : "the start", moved);
}

static void render_worker(const struct yield_view *view, struct arena *arena, struct page *page)
{
    if (!view->asked)
        return;
    bool stopped = view->sight.old_stopped;
    bool unprotected = yield_fate(view->target, view->asked) == FATE_UNPROTECTED;
    page_field(page, "Old worker", unprotected && !stopped ? GRID_BOLD | GRID_RED : GRID_PLAIN,
               "%s",
               stopped ? "its work is reported to have stopped"
                       : yield_fate_sentence(view->target, view->asked, arena));
}

void screen_watch(const struct ui *ui, const struct picture *picture, struct page *page)
{
    const struct yield_view *view = ui->form.view;
    struct arena *arena = arena_new();
    CLEANUP(free_charp)
    char *title = xasprintf("YIELD %s on %s", view->target->duty, view->target->server);
    page_text(page, GRID_BOLD | GRID_UNDERLINE, title);
    if (view->phase == PHASE_DONE)
        render_outcome(view, page);
    else
        render_progress(&ui->form, arena, page);
    render_sent(view, page);
    render_worker(view, arena, page);
    render_steps(view, arena, page);
    render_sight(&ui->form, arena, page);
    render_live(view->target, picture, page);
    (void)page_next(page);
    page_text(page, GRID_PLAIN,
              view->phase == PHASE_DONE
                  ? "Esc closes this; events (e) keep its steps."
                  : "Esc leaves this screen and undoes nothing: the yield goes on, its outcome is "
                    "recorded, and Y comes back to it. To end pgleader now would leave the outcome "
                    "unknown.");
    arena_free(arena);
}
