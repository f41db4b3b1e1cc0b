/* SPDX-License-Identifier: PostgreSQL */
/* One duty: who leads and since when, by what right, what it works on, who could follow. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "observe/bounds.h"
#include "tui/screen.h"

enum {
    BEGAN_WIDTH = 6,    /* "began " */
    HISTORY_WIDTH = 12, /* a clock, or more where its zone has no Z */
};

struct view {
    const struct ui *ui;
    const struct duty *duty;
    int64_t now_us; /* the server's, of the picture */
    bool fresh;
};

static void instant(const struct view *view, int64_t us, char out[WORDS_SIZE])
{
    words_instant(view->ui->times, us, view->now_us, out);
}

static const char *known(const char *text)
{
    return text && *text ? text : "?";
}

/* "4m12s", "at least 4m12s", "4m12s to 6m02s" */
static char *held_words(const struct duty *duty)
{
    char least[WORDS_SIZE], most[WORDS_SIZE];
    words_duration(duty->age_us, least);
    if (duty->age_us < 0)
        return xstrdup("?");
    if (duty->age_uncertainty_us < 0)
        return xasprintf("at least %s", least);
    words_duration(duty->age_us + duty->age_uncertainty_us, most);
    if (text_equal(least, most))
        return xstrdup(least);
    return xasprintf("between %s and %s", least, most);
}

/* Who led until nobody did. */
static void render_last_owner(const struct view *view, struct page *page)
{
    const struct trail *trail = &view->duty->trail;
    char when[WORDS_SIZE];
    if (!view->duty->read || !trail->ever_owned)
        return;
    const char *name = trail->last->holder ? trail->last->holder : "";
    CLEANUP(free_charp)
    char *pid =
        trail->last->pid > 0 ? xasprintf(" (pid %" PRId32 ")", trail->last->pid) : xstrdup("");
    instant(view, trail->past->lost_upper_us, when);
    page_field(page, "Led last", GRID_PLAIN, "%s%s, until %s",
               *name ? instance_name(view->duty->name, name) : "(no name)", pid, when);
}

static void render_owner(const struct view *view, struct page *page)
{
    const struct duty *duty = view->duty;
    const struct owner *owner = &duty->owner;
    char when[WORDS_SIZE];
    if (!duty->read || duty->owners <= 0) {
        page_field(page, "Owner", GRID_BOLD, "%s", duty->read ? "- none -" : "? not readable");
        render_last_owner(view, page);
        return;
    }
    CLEANUP(free_charp) char *held = held_words(duty);
    page_field(page, "Owner", GRID_BOLD, "%s", duty_holder(duty));
    page_field(page, "Held", GRID_PLAIN, "%s (%s)", held, known(duty->acquired_source));
    instant(view, duty->acquired_us, when);
    page_field(page, "Acquired", GRID_PLAIN, "%s",
               bounds_is_time(duty->acquired_us) ? when : "before anybody looked");
    if (duty->owners > 1)
        page_field(page, "Owners", GRID_BOLD | GRID_RED, "%" PRId32, duty->owners);
    if (owner->pid <= 0)
        return;
    instant(view, owner->backend_start_us, when);
    if (duty->owner.application_name &&
        !text_equal(duty->owner.application_name, duty_holder(duty)))
        page_field(page, "Application", GRID_PLAIN, "%s", known(duty->owner.application_name));
    page_field(page, "Session", GRID_PLAIN, "pid %" PRId32 ", began %s", owner->pid, when);
    page_field(page, "Role", GRID_PLAIN, "%s, from %s", known(owner->usename),
               known(owner->client_addr));
    if (duty->owner_xact_age_us >= 0) {
        words_duration(duty->owner_xact_age_us, when);
        page_field(page, "Transaction", GRID_PLAIN, "open for %s", when);
    }
    if (duty->trail.pooled)
        page_field(page, "Pooler", GRID_BOLD,
                   "the name under this lock changes: a pooler is between, and who works is not "
                   "known");
}

static void render_authority(const struct view *view, struct page *page)
{
    const struct duty *duty = view->duty;
    char left[WORDS_SIZE], span[WORDS_SIZE];
    if (duty->mechanism == MECHANISM_LOCK) {
        page_field(page, "Lock", GRID_PLAIN,
                   "advisory %s (classid %" PRIu32 ", objid %" PRIu32 ", objsubid %d), named by %s",
                   known(duty->key_text), duty->key.classid, duty->key.objid,
                   (int)duty->key.objsubid, duty_source_name(duty->source));
    } else {
        page_field(page, "Lease row", GRID_PLAIN, "%s, named by %s", known(duty->key_text),
                   duty_source_name(duty->source));
        int64_t us = bounds_is_time(duty->lease_expires_us)
                         ? duty->lease_expires_us - duty->read_upper_us
                         : 0;
        words_duration(us < 0 ? -us : us, left);
        words_duration(duty->lease_duration_us, span);
        if (bounds_is_time(duty->lease_expires_us))
            page_field(page, "Lease", GRID_PLAIN, "%s %s%s, of %s",
                       us < 0 ? "ran out" : "runs out in", left, us < 0 ? " ago" : "", span);
    }
    if (duty->shared_owners > 0)
        page_field(page, "Shared", GRID_PLAIN, "%" PRId32 " sessions hold it in share mode",
                   duty->shared_owners);
}

static void render_term(const struct view *view, struct page *page)
{
    const struct duty *duty = view->duty;
    const char *words = "its term is begun";
    if (!duty->in_ledger) {
        if (duty->generation >= 0)
            page_field(page, "Generation", GRID_PLAIN, "%" PRId64, duty->generation);
        return;
    }
    if (duty->mismatch)
        words = "CONTESTED: the term's session lives, and another holds the lock";
    else if (duty->term_unverified)
        words = "not to be verified with these privileges";
    else if (duty->owners <= 0)
        words = "nobody leads";
    else if (!duty->term_begun)
        words = "term not begun by this owner";
    if (duty->generation >= 0)
        page_field(page, "Generation", duty->mismatch ? GRID_BOLD | GRID_RED : GRID_PLAIN,
                   "%" PRId64 ", %s%s", duty->generation, words,
                   duty->term_begun && duty->term->listens ? "; it listens for a request to yield"
                                                           : "");
    else
        page_field(page, "Generation", GRID_PLAIN, "none, %s", words);
}

/* "at 1.2k a second, 23s to go" from the whole of the run; "" where there is nothing to reckon. */
static char *rate_words(const struct view *view)
{
    const struct run *run = view->duty->run;
    if (isnan(run->position) || !bounds_is_time(run->started_us) ||
        !bounds_is_time(run->advanced_us))
        return xstrdup("");
    double seconds = (double)(run->advanced_us - run->started_us) / SECOND_US;
    if (seconds < 1 || run->position <= 0)
        return xstrdup("");
    char rate[WORDS_SIZE], eta[WORDS_SIZE];
    double speed = run->position / seconds;
    words_number(speed < 10 ? speed : floor(speed), rate);
    if (isnan(run->target) || run->target <= run->position)
        return xasprintf("about %s a second", rate);
    words_duration((int64_t)((run->target - run->position) / speed * SECOND_US), eta);
    return xasprintf("about %s a second, %s to go", rate, eta);
}

static void render_run(const struct view *view, struct page *page)
{
    const struct run *run = view->duty->run;
    char a[WORDS_SIZE], b[WORDS_SIZE];
    if (!run->present)
        return;
    if (run->key)
        page_field(page, "Run", GRID_PLAIN, "%s, %s", run->key, known(run->status));
    words_number(run->position, a);
    words_number(run->target, b);
    if (!isnan(run->target) && !isnan(run->position))
        page_field(page, "Cursor", GRID_PLAIN, "%s of %s, %.0f%%", a, b,
                   run->target > 0 ? floor(100 * run->position / run->target) : 0);
    else
        page_field(page, "Cursor", GRID_PLAIN, "%s", run->cursor ? run->cursor : "none yet");
    words_since(run->advanced_us, view->now_us, a);
    CLEANUP(free_charp) char *rate = rate_words(view);
    page_field(page, "Moved",
               view->duty->state == DUTY_STALLED ? GRID_BOLD | GRID_YELLOW : GRID_PLAIN,
               "%s ago%s%s", a, *rate ? ", " : "", rate);
    if (bounds_is_time(run->deadline_us)) {
        instant(view, run->deadline_us, a);
        words_since(run->deadline_us, view->now_us, b);
        if (view->now_us > run->deadline_us)
            page_field(page, "Deadline", GRID_BOLD | GRID_YELLOW, "passed %s ago", b);
        else
            page_field(page, "Deadline", GRID_PLAIN, "%s", a);
    }
}

/* The queue of the lock, as PostgreSQL will serve it. */
static void render_queue(const struct view *view, struct page *page)
{
    const struct duty *duty = view->duty;
    for (size_t i = 0; i < duty->n_queue; i++) {
        const struct waiter *waiter = &duty->queue[i];
        char waits[WORDS_SIZE], began[WORDS_SIZE];
        words_since(waiter->since_us, duty->read_upper_us, waits);
        instant(view, waiter->backend_start_us, began);
        int row = page_next(page), width = page->grid->width;
        int name = width > 100 ? 40 : width - 60;
        name = name < 14 ? 14 : name;
        (void)grid_printf(page->grid, row, 0, GRID_PLAIN, "%3zu", i + 1);
        (void)grid_put(page->grid, row, 4, name, GRID_BOLD,
                       *waiter->name ? instance_name(duty->name, waiter->name) : "(no name)");
        (void)grid_printf(page->grid, row, 5 + name, GRID_PLAIN, "pid %-7" PRId32 " waits %-7s",
                          waiter->pid, waits);
        if (width >= 32 + name + BEGAN_WIDTH + (int)strlen(began))
            (void)grid_printf(page->grid, row, 32 + name, GRID_DIM, "began %s", began);
    }
    if (duty->n_queue == QUEUE_SHOWN && (size_t)duty->waiters > duty->n_queue)
        (void)grid_printf(page->grid, page_next(page), 4, GRID_PLAIN, "and %zu more",
                          (size_t)duty->waiters - duty->n_queue);
}

static void render_followers(const struct view *view, struct page *page)
{
    const struct duty *duty = view->duty;
    char age[WORDS_SIZE];
    page_heading(page, "CANDIDATES");
    if (duty->candidates >= 0)
        page_field(page, "Instances", GRID_PLAIN, "%" PRId32 "%s%s", duty->candidates,
                   duty->limits->min_candidates > duty->candidates ? " (fewer than declared)" : "",
                   duty->owners > 0 ? ", the owner with them" : "");
    else
        page_field(page, "Instances", GRID_PLAIN,
                   "? followers that only try never show in pg_locks; declare `candidates:`");
    words_duration(duty->oldest_wait_us, age);
    if (duty->waiters > 0)
        page_field(page, "Waiting", GRID_PLAIN, "%" PRId32 ", the longest for %s", duty->waiters,
                   age);
    else
        page_field(page, "Waiting", GRID_PLAIN, "nobody waits in the lock's queue");
    render_queue(view, page);
}

static void render_history(const struct view *view, struct page *page)
{
    const struct trail *trail = &view->duty->trail;
    char a[WORDS_SIZE], b[WORDS_SIZE];
    page_heading(page, "TAKEOVERS");
    if (bounds_is_time(trail->past->takeover_at_us)) {
        instant(view, trail->past->takeover_at_us, a);
        page_field(page, "Last", GRID_PLAIN, "%s%s", a, trail->took_over ? ", by this owner" : "");
        words_duration(trail->past->takeover_lower_us < 0 ? 0 : trail->past->takeover_lower_us, a);
        words_duration(trail->past->takeover_upper_us, b);
        if (trail->past->takeover_upper_us >= 0)
            page_field(page, "Vacant for", GRID_PLAIN, "at least %s, at most %s", a, b);
    } else {
        page_field(page, "Last", GRID_PLAIN, "none seen or recorded");
    }
    if (bounds_is_time(view->duty->previous->ended_us)) {
        const struct term *term = view->duty->previous;
        instant(view, term->ended_us, a);
        page_field(page, "Before", GRID_PLAIN, "generation %" PRId64 " of %s ended %s: %s",
                   term->generation, known(term->instance), a, known(term->end_reason));
    }
    for (size_t i = 0; view->ui->journal && i < view->ui->journal->n; i++) {
        const struct journal_entry *entry = journal_at(view->ui->journal, i);
        if (!text_equal(entry->duty, view->duty->name) ||
            !text_equal(entry->server, view->ui->server))
            continue;
        words_clock(view->ui->times == TIMES_AGO ? TIMES_UTC : view->ui->times, entry->read_us, a);
        CLEANUP(free_charp) char *words = event_words(entry, false);
        CLEANUP(free_charp)
        char *text = xasprintf("%s%s%s", event_rule(entry), *words ? ": " : "", words);
        int width = (int)strlen(a) + 1;
        page_entry(page, 0, width > HISTORY_WIDTH ? width : HISTORY_WIDTH, a, GRID_PLAIN, text);
    }
}

static void render_rest(const struct view *view, struct page *page)
{
    const struct duty *duty = view->duty;
    char when[WORDS_SIZE];
    if (duty->owner_xmin_age > 0 || duty->waiter_xmin_age > 0)
        page_field(page, "Vacuum", GRID_PLAIN,
                   "held back by %" PRId64 " transactions by the owner, %" PRId64 " by waiters",
                   duty->owner_xmin_age < 0 ? 0 : duty->owner_xmin_age,
                   duty->waiter_xmin_age < 0 ? 0 : duty->waiter_xmin_age);
    if (duty->limits->alerts_paused_until_us > view->now_us) {
        instant(view, duty->limits->alerts_paused_until_us, when);
        page_field(page, "Alerts", GRID_BOLD, "paused until %s", when);
    }
    if (duty->team)
        page_field(page, "Team", GRID_PLAIN, "%s", duty->team);
    if (duty->runbook)
        page_field(page, "Runbook", GRID_PLAIN, "%s", duty->runbook);
}

void screen_duty(const struct ui *ui, const struct picture *picture, struct page *page)
{
    const struct list_row *row = ui_row(ui);
    char words[VERDICT_SIZE];
    int at = page_next(page);
    int used = grid_put(page->grid, at, 0, page->grid->width, GRID_BOLD | GRID_UNDERLINE,
                        ui->duty ? ui->duty : "");
    if (!row) {
        page_field(page, "State", GRID_BOLD, "not in the picture any more");
        return;
    }
    const struct view view = {
        .ui = ui,
        .duty = row->duty,
        .now_us = picture->servers[row->server]->snapshot->read_upper_us,
        .fresh = row->fresh,
    };
    if (picture->n > 1)
        (void)grid_printf(page->grid, at, used + 1, GRID_PLAIN, "on %s",
                          picture->servers[row->server]->server);
    verdict_words(row->duty, row->fresh, words);
    page_field(page, "State", verdict_attr(row->urgency) | GRID_BOLD, "%s", words);
    render_owner(&view, page);
    render_authority(&view, page);
    render_term(&view, page);
    render_run(&view, page);
    render_rest(&view, page);
    render_followers(&view, page);
    render_history(&view, page);
}
