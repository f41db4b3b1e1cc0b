/* SPDX-License-Identifier: PostgreSQL */
/* The yield dialog: who is meant, what ends with it, what becomes of the worker, what every guard
 * says, and the fields that a person fills. */
#include <inttypes.h>

#include "base/memory.h"
#include "base/text.h"
#include "tui/screen.h"

enum { GUARD_INDENT = 2, GUARD_WIDTH = 14, SIGN_WIDTH = 12 };

static const unsigned alarm_attr = GRID_BOLD | GRID_RED;

static const char *known(const char *text)
{
    return text && *text ? text : "?";
}

static void render_head(const struct yield_view *view, struct page *page)
{
    bool lease = view->target->mechanism == MECHANISM_LEASE;
    CLEANUP(free_charp)
    char *text = xasprintf("YIELD %s: %s", view->target->duty,
                           lease ? "the lease's holder is asked to release it"
                                 : "this ENDS a PostgreSQL session, unless the leader listens and "
                                   "yields by itself");
    page_text(page, GRID_BOLD, text);
}

static void render_owner(const struct yield_view *view, struct arena *arena, struct page *page)
{
    const struct yield_target *target = view->target;
    if (target->mechanism == MECHANISM_LEASE || target->pid <= 0) {
        bool prepared = target->mechanism == MECHANISM_LOCK && target->owners > 0;
        page_field(page, "Owner", GRID_BOLD, "%s",
                   prepared         ? "a prepared transaction"
                   : target->holder ? target->holder
                                    : "nobody");
        return;
    }
    page_field(page, "Owner", GRID_BOLD, "%s, pid %" PRId32,
               *target->application_name ? instance_name(target->duty, target->application_name)
                                         : "(no name)",
               target->pid);
    page_field(page, "Session", GRID_PLAIN, "began %s%s",
               yield_time(target->backend_start_us, arena),
               view->asked ? arena_printf(arena, ", of user %s, from %s",
                                          known(view->asked->server.usename),
                                          yield_address(view->asked, arena))
                           : "");
}

/* What was frozen when the person asked. */
static void render_target(const struct yield_view *view, struct arena *arena, struct page *page)
{
    const struct yield_target *target = view->target;
    page_field(page, "Server", GRID_PLAIN, "%s, database %s, system identifier %s, up since %s",
               target->server, target->database,
               target->system_identifier ? target->system_identifier : "not readable",
               yield_time(target->postmaster_start_us, arena));
    page_field(page, "Key", GRID_PLAIN, "%s", target->key_text);
    render_owner(view, arena, page);
    if (target->generation >= 0)
        page_field(page, "Generation", GRID_BOLD, "%" PRId64, target->generation);
    else
        page_field(page, "Generation", GRID_PLAIN, "none: no term in a ledger");
}

static void render_guard(const struct guard_list *guards, enum guard_id id, const char *label,
                         struct page *page)
{
    const struct guard *row = &guards->rows[id];
    bool strong = row->state == GUARD_NOTED || row->state == GUARD_FAILED;
    page_field(page, label, strong ? GRID_BOLD : GRID_PLAIN, "%s", row->sentence);
}

/* What the deed would do besides: from the guards that look at it. */
static void render_effects(const struct yield_view *view, struct arena *arena, struct page *page)
{
    const struct guard_list *guards = &view->guards;
    if (!view->asked)
        return;
    bool unprotected = yield_fate(view->target, view->asked) == FATE_UNPROTECTED;
    page_field(page, "Worker", unprotected ? alarm_attr : GRID_BOLD, "%s",
               yield_fate_sentence(view->target, view->asked, arena));
    render_guard(guards, GUARD_RUN, "In flight", page);
    render_guard(guards, GUARD_DUTIES, "Also held", page);
    render_guard(guards, GUARD_SUCCESSOR, "Successor", page);
    page_field(page, "Audit", GRID_PLAIN, "%s",
               guards->road == ROAD_OWN ? "the local log: standard error and syslog"
                                        : "the ledger, before anything is sent");
}

/* Those that refuse, and those that were passed over. */
static void render_refusals(const struct yield_view *view, struct page *page)
{
    int refused = 0, overridden = 0;
    for (int i = 0; i < GUARDS; i++) {
        refused += view->guards.rows[i].state == GUARD_FAILED;
        overridden += view->guards.rows[i].state == GUARD_OVERRIDDEN;
    }
    if (view->phase == PHASE_LOOKING) {
        page_field(page, "Guards", GRID_BOLD, "looking who leads now ...");
        return;
    }
    if (!view->asked)
        refused = GUARDS;
    if (refused > 0)
        page_field(page, "Guards", alarm_attr, "%d of %d REFUSE", refused, GUARDS);
    else
        page_field(page, "Guards", GRID_PLAIN, "none of %d refuses", GUARDS);
    for (int i = 0; i < GUARDS && refused + overridden > 0; i++) {
        const struct guard *row = &view->guards.rows[i];
        bool shown = view->asked || i == GUARD_FRESH;
        if (!shown || (row->state != GUARD_FAILED && row->state != GUARD_OVERRIDDEN))
            continue;
        bool failed = row->state == GUARD_FAILED;
        CLEANUP(free_charp) char *text = xasprintf("%s: %s", guard_code(row->id), row->sentence);
        page_entry(page, 0, SIGN_WIDTH, failed ? "REFUSED" : "OVERRIDDEN", failed ? alarm_attr : 0,
                   text);
        if (*row->remedy && failed)
            page_field(page, "", GRID_PLAIN, "-> %s", row->remedy);
    }
}

static void render_field(const struct yield_form *form, enum form_field field, const char *label,
                         const char *empty, struct page *page)
{
    bool here = form->focus == field;
    const char *text = form->texts[field];
    CLEANUP(free_charp) char *name = xasprintf("%s%s", here ? "> " : "  ", label);
    if (here)
        page->mark = page->n;
    page_field(page, name, here || *text ? GRID_BOLD : GRID_DIM, "%s%s",
               *text  ? text
               : here ? ""
                      : empty,
               here ? "_" : "");
    if (here)
        page->mark_end = page->n - 1;
}

static void render_buttons(const struct yield_form *form, struct arena *arena, struct page *page)
{
    const char *obstacle = form_obstacle(form, arena);
    bool on = form->focus == FORM_YIELD, off = form->focus == FORM_CANCEL;
    if (on || off)
        page->mark = page->n;
    int row = page_next(page);
    int column =
        grid_put(page->grid, row, 0, page->grid->width, GRID_BOLD | (off ? GRID_REVERSE : 0),
                 off ? "> [ Cancel ]" : "  [ Cancel ]");
    (void)grid_put(page->grid, row, column + 2, page->grid->width,
                   (obstacle ? GRID_DIM : GRID_BOLD) | (on ? GRID_REVERSE : 0),
                   on ? "> [ Yield ]" : "  [ Yield ]");
    CLEANUP(free_charp)
    char *hint = obstacle ? xasprintf("Nothing can be sent yet: %s.", obstacle)
                          : xstrdup("Enter on [ Yield ] sends it.");
    page_text(page, GRID_PLAIN, hint);
    if (form->left_us >= 0 && form->left_us <= 20 * SECOND_US) {
        CLEANUP(free_charp)
        char *closes = xasprintf("No key is pressed: this closes in %" PRId64 "s.",
                                 form->left_us / SECOND_US + 1);
        page_text(page, GRID_BOLD, closes);
    }
}

static void render_form(const struct yield_form *form, struct arena *arena, struct page *page)
{
    const char *wanted = form_wanted(form, arena);
    (void)page_next(page);
    if (form_has_override(form))
        render_field(form, FORM_OVERRIDE, "Override",
                     "(no-successor, cool-down, pooled or audit; their names)", page);
    render_field(form, FORM_REASON, "Reason", "(required; it stands in the audit)", page);
    render_field(form, FORM_CONFIRM, "Confirm", "(required)", page);
    if (wanted)
        page_field(page, "", GRID_PLAIN, "Type exactly: %s", wanted);
    render_buttons(form, arena, page);
}

static void render_end(const struct yield_form *form, struct page *page)
{
    const struct yield_view *view = form->view;
    (void)page_next(page);
    page->mark = page->n;
    page_field(page, view->end == END_CANCELLED ? "CANCELLED" : "REFUSED", alarm_attr, "%s%s",
               form->timed_out ? "Nobody pressed a key for a minute. " : "", view->sentence);
    page_field(page, "", GRID_PLAIN, "Esc closes this.%s",
               view->end == END_CANCELLED ? "" : " Look who leads now, and ask anew.");
}

static void render_all_guards(const struct guard_list *guards, struct page *page)
{
    static const char *const signs[] = {
        [GUARD_PASSED] = "[ok]",
        [GUARD_NOTED] = "[note]",
        [GUARD_OVERRIDDEN] = "[OVERRIDDEN]",
        [GUARD_FAILED] = "[REFUSED]",
    };
    page_heading(page, "EVERY GUARD, looked at again twice a second");
    for (int i = 0; i < GUARDS; i++) {
        const struct guard *row = &guards->rows[i];
        CLEANUP(free_charp) char *text = xasprintf("%s %s", signs[row->state], row->sentence);
        page_entry(page, GUARD_INDENT, GUARD_WIDTH, guard_code(row->id),
                   row->state == GUARD_FAILED ? alarm_attr : GRID_PLAIN, text);
    }
}

void screen_yield(const struct ui *ui, const struct picture *picture, struct page *page)
{
    const struct yield_form *form = &ui->form;
    struct arena *arena = arena_new();
    (void)picture;
    render_head(form->view, page);
    render_target(form->view, arena, page);
    render_effects(form->view, arena, page);
    if (form->view->end != END_CANCELLED)
        render_refusals(form->view, page);
    if (form->confirmed && form->view->phase <= PHASE_ASKING) {
        (void)page_next(page);
        page->mark = page->n;
        page_text(page, GRID_BOLD,
                  "Every guard is asked once more before anything is sent. Esc cancels.");
    } else if (form_is_open(form)) {
        render_form(form, arena, page);
    } else {
        render_end(form, page);
    }
    if (form->view->asked)
        render_all_guards(&form->view->guards, page);
    arena_free(arena);
}
