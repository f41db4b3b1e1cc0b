/* SPDX-License-Identifier: PostgreSQL */
/* One row of the page's table of duties. */
#include "exporter/page_duty.h"

#include <inttypes.h>
#include <math.h>

#include "exporter/page_text.h"
#include "observe/publish.h"

static const char UNKNOWN[] = "<span class=unknown>unknown</span>";
static const char NOTHING[] = "<span class=\"dim na\">&ndash;</span>"; /* does not apply */

static bool has_text(const char *text)
{
    return text && *text;
}

/* Who leads is known. */
static bool readable(const struct page_duty *row)
{
    return row->fresh && row->duty->read && !row->server->snapshot->facts.in_recovery;
}

static bool led(const struct page_duty *row)
{
    return readable(row) && row->duty->owners > 0;
}

const char *page_duty_state(const struct page_duty *row)
{
    return duty_state_name(readable(row) ? row->duty->state : DUTY_UNKNOWN);
}

bool page_duty_in_trouble(const struct page_duty *row)
{
    if (row->duty->source == SOURCE_DISCOVERY)
        return false;
    return !row->fresh || (!row->server->snapshot->facts.in_recovery &&
                           (!row->duty->read || row->duty->state != DUTY_LED));
}

static void cell(FILE *out, const char *label)
{
    (void)fprintf(out, "<td data-label=\"%s\"><div>", label);
}

static void number_cell(FILE *out, const char *label)
{
    (void)fprintf(out, "<td class=n data-label=\"%s\"><div>", label);
}

static void cell_end(FILE *out)
{
    (void)fputs("</div></td>\n", out);
}

static void small_duration(FILE *out, const char *before, int64_t us, const char *after)
{
    (void)fprintf(out, "<small>%s", before);
    page_duration(out, us);
    (void)fprintf(out, "%s</small>", after);
}

static void name_cell(const struct page_duty *row, FILE *out)
{
    cell(out, "Duty");
    (void)fputs("<span class=name>", out);
    page_escape(out, row->duty->name);
    (void)fprintf(out, "</span><small>%s ", mechanism_name(row->duty->mechanism));
    page_escape(out, row->duty->key_text);
    if (row->duty->source == SOURCE_DISCOVERY)
        (void)fputs(", discovered", out);
    if (has_text(row->duty->team)) {
        (void)fputs(", team ", out);
        page_escape(out, row->duty->team);
    }
    (void)fputs("</small>", out);
    cell_end(out);
    if (!row->named)
        return;
    cell(out, "Server");
    page_escape(out, row->server->server);
    cell_end(out);
}

static void state_cell(const struct page_duty *row, FILE *out)
{
    const struct duty *duty = row->duty;
    const char *state = page_duty_state(row);
    cell(out, "State");
    (void)fprintf(out, "<span class=\"state %s\">%s</span>", state, state);
    if (row->fresh) {
        int64_t now_us = row->server->snapshot->read_upper_us;
        int64_t paused_us = duty->limits->alerts_paused_until_us;
        if (readable(row) && duty->owners == 0 && duty->trail.ever_owned &&
            duty->trail.past->lost_upper_us != TIME_UNKNOWN)
            small_duration(out, "for ", now_us - duty->trail.past->lost_upper_us, "");
        if (row->server->snapshot->facts.in_recovery)
            (void)fputs("<small>the server is a standby</small>", out);
        if (paused_us > now_us)
            small_duration(out, "alerts paused for ", paused_us - now_us, "");
    }
    cell_end(out);
}

static void owner_cell(const struct page_duty *row, FILE *out)
{
    const struct owner *owner = &row->duty->owner;
    cell(out, "Owner");
    if (!readable(row)) {
        (void)fputs(UNKNOWN, out);
    } else if (!led(row)) {
        (void)fputs("<span class=dim>nobody</span>", out);
    } else {
        page_escape(out, has_text(owner->holder) ? owner->holder : "(no name)");
        (void)fputs("<small>", out);
        if (owner->pid > 0)
            (void)fprintf(out, "pid %" PRId32, owner->pid);
        else
            (void)fputs(row->duty->mechanism == MECHANISM_LEASE ? "lease" : "no session", out);
        if (has_text(owner->client_addr)) {
            (void)fputs(", ", out);
            page_escape(out, owner->client_addr);
        }
        if (row->duty->owners > 1)
            (void)fprintf(out, ", and %" PRId32 " more", row->duty->owners - 1);
        (void)fputs("</small>", out);
        if (row->duty->trail.pooled)
            (void)fputs("<small class=warn>behind a pooler</small>", out);
    }
    cell_end(out);
}

static void age_cell(const struct page_duty *row, FILE *out)
{
    cell(out, "Led for");
    if (!readable(row))
        (void)fputs(UNKNOWN, out);
    else if (!led(row))
        (void)fputs(NOTHING, out);
    else if (row->duty->age_us < 0)
        (void)fputs(UNKNOWN, out);
    else
        page_bounds(out, row->duty->age_us, row->duty->age_uncertainty_us);
    cell_end(out);
}

static void generation_cell(const struct page_duty *row, FILE *out)
{
    const struct duty *duty = row->duty;
    number_cell(out, "Generation");
    if (duty->generation >= 0)
        (void)fprintf(out, "%" PRId64, duty->generation);
    else if (led(row) && duty->in_ledger && !duty->term_begun)
        (void)fputs("<span class=warn>term not begun</span>", out);
    else
        (void)fputs(duty->source == SOURCE_LEDGER && !duty->in_ledger ? UNKNOWN : NOTHING, out);
    cell_end(out);
}

static void candidates_cell(const struct page_duty *row, FILE *out)
{
    const struct duty *duty = row->duty;
    number_cell(out, "Candidates");
    if (duty->candidates >= 0) {
        bool few = duty->candidates < duty->limits->min_candidates;
        (void)fprintf(out, "<span%s>%" PRId32 "</span>", few ? " class=warn" : "",
                      duty->candidates);
        if (few)
            (void)fprintf(out, "<small>wanted: %" PRId32 "</small>", duty->limits->min_candidates);
    } else {
        (void)fputs(duty->source == SOURCE_DISCOVERY ? NOTHING : UNKNOWN, out);
    }
    cell_end(out);
}

static void waiters_cell(const struct page_duty *row, FILE *out)
{
    const struct duty *duty = row->duty;
    number_cell(out, "Waiting");
    if (duty->mechanism == MECHANISM_LEASE)
        (void)fputs(NOTHING, out);
    else if (!readable(row) || duty->waiters < 0)
        (void)fputs(UNKNOWN, out);
    else
        (void)fprintf(out, "%" PRId32, duty->waiters);
    if (readable(row) && duty->oldest_wait_us >= 0)
        small_duration(out, "for ", duty->oldest_wait_us, "");
    cell_end(out);
}

static void run_progress(const struct page_duty *row, FILE *out)
{
    const struct run *run = row->duty->run;
    double part = run->position / run->target;
    if (isnan(run->position))
        page_escape(out, has_text(run->cursor) ? run->cursor : "not begun");
    else
        page_number(out, run->position);
    if (!isnan(run->target)) {
        (void)fputs(" of ", out);
        page_number(out, run->target);
    }
    if (part >= 0 && part <= 1)
        (void)fprintf(out, " (%d %%)<progress max=100 value=%d></progress>", (int)(part * 100),
                      (int)(part * 100));
    if (run->advanced_us != TIME_UNKNOWN)
        small_duration(out, "moved ", row->server->snapshot->read_upper_us - run->advanced_us,
                       " ago");
}

static void progress_cell(const struct page_duty *row, FILE *out)
{
    const struct run *last = row->duty->last_run;
    bool done = last->present && last->finished_us != TIME_UNKNOWN;
    cell(out, "Progress");
    if (row->duty->run->present)
        run_progress(row, out);
    else if (row->duty->in_ledger)
        (void)fputs("<span class=dim>no run</span>", out);
    else if (!done)
        (void)fputs(NOTHING, out);
    if (done)
        small_duration(out, "last complete ",
                       row->server->snapshot->read_upper_us - last->finished_us, " ago");
    cell_end(out);
}

void page_duty_render(const struct page_duty *row, FILE *out)
{
    (void)fputs("<tr>\n", out);
    name_cell(row, out);
    state_cell(row, out);
    if (!row->fresh) {
        (void)fputs("<td colspan=6 data-label=\"\"><div class=dim>no fresh picture of the server"
                    "</div></td>\n</tr>\n",
                    out);
        return;
    }
    owner_cell(row, out);
    age_cell(row, out);
    generation_cell(row, out);
    candidates_cell(row, out);
    waiters_cell(row, out);
    progress_cell(row, out);
    (void)fputs("</tr>\n", out);
}
