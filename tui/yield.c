/* SPDX-License-Identifier: PostgreSQL */
/* looking -> asking -> requesting -> grace -> sending -> watching -> recording -> done. */
#include "tui/yield.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "tui/yield_internal.h"
#include "tui/yield_read.h"

static const int64_t ask_every_us = SECOND_US / 2;
static const int64_t look_again_us = SECOND_US / 5;
static const int64_t look_again_within_us = SECOND_US / 2;
static const int64_t record_within_us = 5 * SECOND_US;

/* Quick while something is expected at any moment, slower when it keeps one waiting. */
static int64_t watch_every_us(int64_t waited_us)
{
    if (waited_us < SECOND_US / 20)
        return SECOND_US / 500;
    if (waited_us < 2 * SECOND_US)
        return SECOND_US / 100;
    return waited_us < 10 * SECOND_US ? SECOND_US / 20 : SECOND_US / 5;
}

static const char *lease_table(const struct duty *duty, struct arena *arena)
{
    if (duty->mechanism != MECHANISM_LEASE)
        return NULL;
    return arena_strndup(arena, duty->key_text, strcspn(duty->key_text, ":"));
}

static void freeze(struct yield *yield)
{
    struct arena *arena = yield->arena;
    const struct snapshot *snapshot = yield->order.snapshot;
    const struct duty *duty = yield->order.duty;
    const struct owner *owner = duty->owners > 0 ? &duty->owner : NULL;
    const char *table = lease_table(duty, arena);
    bool termed = owner && duty->in_ledger &&
                  (table ? text_equal(table, "pgleader.lease") : duty->term_begun);
    yield->target = (struct yield_target){
        .server = arena_strdup(arena, yield->order.server->name),
        .duty = arena_strdup(arena, duty->name),
        .mechanism = duty->mechanism,
        .key = duty->key,
        .key_text = arena_strdup(arena, duty->key_text),
        .lease_table = table,
        .candidate_pattern = arena_strdup(arena, duty->candidate_pattern),
        .system_identifier = arena_strdup(arena, snapshot->facts.system_identifier),
        .postmaster_start_us = snapshot->facts.postmaster_start_us,
        .database = arena_strdup(arena, snapshot->facts.database),
        .registered = duty->in_ledger,
        .owners = duty->owners,
        .pid = owner && !table ? owner->pid : 0,
        .backend_start_us = owner && !table ? owner->backend_start_us : TIME_UNKNOWN,
        .application_name =
            arena_strdup(arena, owner && owner->application_name ? owner->application_name : ""),
        .client_addr = arena_strdup(arena, owner ? owner->client_addr : NULL),
        .holder = arena_strdup(arena, owner ? owner->holder : NULL),
        .generation = termed ? duty->generation : -1,
        .instance = arena_strdup(arena, termed ? duty->term->instance : NULL),
        .pooled = duty->trail.pooled,
    };
}

static void judge_guards(struct yield *yield)
{
    const struct guard_context context = {
        .confirm = yield->confirm,
        .overrides = yield->order.overrides,
        .reading_age_us = yield->facts ? clock_monotonic_us() - yield->read_sent_us : -1,
        .connected = yield->conn != NULL,
    };
    arena_free(yield->scratch);
    yield->scratch = arena_new();
    guards_check(&yield->target, yield->facts, &context, yield->scratch, &yield->view.guards);
    yield->view.facts = yield->view.asked = yield->facts;
}

struct yield *yield_new(const struct yield_order *order)
{
    struct yield *yield = xcalloc(1, sizeof *yield);
    yield->order = *order;
    yield->arena = arena_new();
    yield->scratch = arena_new();
    freeze(yield);
    yield->key = yield->target.key;
    yield->reason = order->reason;
    yield->confirm = order->confirm;
    yield->started_us = yield->phase_us = yield->due_us = clock_monotonic_us();
    yield->confirmed_us = order->confirmed ? yield->started_us : TIME_UNKNOWN;
    yield->conn = order->session;
    yield->view = (struct yield_view){
        .target = &yield->target, .intent = -1, .sentence = "", .sight.generation = -1};
    judge_guards(yield); /* it may end before anything is read */
    return yield;
}

void yield_free(struct yield *yield)
{
    if (!yield)
        return;
    yield_close(yield);
    if (yield->asked != yield->facts)
        yield_facts_free(yield->asked);
    yield_facts_free(yield->facts);
    free(yield->steps);
    arena_free(yield->scratch);
    arena_free(yield->arena);
    free(yield);
}

void yield_note(struct yield *yield, bool audit, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    CLEANUP(free_charp) char *words = xvasprintf(format, args);
    va_end(args);
    size_t n = yield->view.n_steps;
    yield->steps = xreallocarray(yield->steps, n + 1, sizeof *yield->steps);
    yield->steps[n] = (struct yield_step){.after_us = clock_monotonic_us() - yield->started_us,
                                          .sentence = arena_strdup(yield->arena, words),
                                          .audit = audit};
    yield->view.steps = yield->steps;
    yield->view.n_steps = n + 1;
    if (yield->order.step)
        yield->order.step(yield->order.context, &yield->steps[n]);
}

void yield_enter(struct yield *yield, enum yield_phase phase)
{
    yield->view.phase = phase;
    yield->phase_us = yield->due_us = clock_monotonic_us();
    yield->view.until_us = phase == PHASE_GRACE ? yield->phase_us + yield->order.grace_us : 0;
}

/* Whether the ledger's audit takes a refusal before the intent; the local log does in any case. Not
 * another server's ledger, nor a standby's; and who gave no reason has only looked. */
static bool takes_refusal(const struct yield *yield)
{
    const struct guard *rows = yield->view.guards.rows;
    const struct yield_ledger *ledger = yield->asked ? yield->asked->ledger : NULL;
    return yield->reason && yield->conn && ledger && ledger->may_record_refusal &&
           !ledger->read_only && rows[GUARD_PRIMARY].state == GUARD_PASSED &&
           rows[GUARD_SERVER].state == GUARD_PASSED;
}

void yield_finish(struct yield *yield, enum yield_end end, const char *sentence)
{
    yield->view.end = end;
    yield->view.sentence = arena_strdup(yield->arena, sentence);
    bool refused = end == END_REFUSED || end == END_NO_PERMISSION;
    bool record = yield->view.intent >= 0 || (refused && takes_refusal(yield));
    if (refused)
        yield->view.outcome = YIELD_REFUSED;
    yield_note(yield, true, "%s", sentence);
    yield->record_until_us = clock_monotonic_us() + record_within_us;
    yield_enter(yield, record ? PHASE_RECORDING : PHASE_DONE);
    if (record && yield->conn)
        yield_record(yield);
}

/* What was judged stays to be shown: its sentences must outlive the readings that follow. */
static void keep_guards(struct yield *yield)
{
    yield->asked = yield->facts;
    for (int i = 0; i < GUARDS; i++) {
        struct guard *row = &yield->view.guards.rows[i];
        row->sentence = arena_strdup(yield->arena, row->sentence);
        row->remedy = arena_strdup(yield->arena, row->remedy);
    }
}

static void decide(struct yield *yield)
{
    bool privilege = false;
    const struct guard *failed = guards_failed(&yield->view.guards, &privilege);
    keep_guards(yield);
    if (failed) {
        yield_finish(yield, privilege ? END_NO_PERMISSION : END_REFUSED,
                     arena_printf(yield->arena, "Refused by guard %s: %s Nothing was sent.",
                                  guard_code(failed->id), failed->sentence));
        return;
    }
    if (yield->view.guards.road != ROAD_OWN) {
        yield_request(yield);
        return;
    }
    yield_note(yield, true, "Intent: end pid %d, since %s, for: %s", yield->target.pid,
               yield_time(yield->target.backend_start_us, yield->arena), yield->reason);
    yield_send(yield);
}

static bool is_same_server(const struct yield *yield)
{
    return yield->facts->server.postmaster_start_us == yield->target.postmaster_start_us;
}

static void see(struct yield *yield)
{
    arena_free(yield->scratch);
    yield->scratch = arena_new();
    yield->view.facts = yield->facts;
    yield->view.sight = yield_see(&yield->target, yield->facts, yield->scratch);
}

/* The duty may be led by another key since it was asked about: then who holds that one is read. */
static bool follow_key(struct yield *yield)
{
    char text[LOCK_KEY_TEXT_SIZE];
    const struct yield_ledger *ledger = yield->facts->ledger;
    if (!ledger || !text_equal(ledger->mechanism, "lock") || yield->view.sight.elsewhere)
        return false;
    struct lock_key key = {(uint32_t)ledger->classid, (uint32_t)ledger->objid,
                           (uint16_t)ledger->objsubid};
    if (lock_key_equal(key, yield->key))
        return false;
    lock_key_format(key, text);
    yield_note(yield, false, "Another key decides the duty now: %s.", text);
    yield->key = key;
    yield_read(yield);
    return true;
}

/* Nothing of a reading is newer than what was sent, and so cannot say what came of it. */
static bool saw_since(const struct yield *yield, int64_t since_us)
{
    return yield->conn && yield->facts && yield->read_done_us != 0 &&
           yield->read_sent_us >= since_us;
}

static const char *outcome_sentence(const struct yield *yield, enum yield_outcome outcome)
{
    const struct yield_sight *sight = &yield->view.sight;
    const char *who = sight->successor ? sight->successor : "nobody";
    struct arena *arena = yield->arena;
    switch (outcome) {
    case YIELD_MOVED:
        return arena_printf(arena,
                            sight->begun ? "Moved: %s leads now."
                                         : "Moved, term not begun: "
                                           "%s holds it now.",
                            who);
    case YIELD_RETURNED:
        return arena_printf(arena, "Returned: the same instance won again, as %s.", who);
    case YIELD_VACANT:
        return "Vacant: the old owner is gone, and nobody leads.";
    case YIELD_NOT_CONFIRMED:
        return yield->view.sent == SENT_ASKED
                   ? "Not confirmed: the leader was asked, and still holds it."
                   : "Not confirmed: the session was signalled, and still holds it. The signal may "
                     "take effect later.";
    case YIELD_UNKNOWN:
    case YIELD_REFUSED:
    case YIELD_OUTCOMES:
        break;
    }
    bool looked = yield->view.facts != yield->asked;
    return arena_printf(arena, "Unknown: %s. %s%s.",
                        yield->view.sent == SENT_YES     ? "the signal was sent"
                        : yield->view.sent == SENT_ASKED ? "the leader was asked"
                                                         : "the signal may have been sent",
                        looked ? "Last seen: " : "",
                        !looked            ? "Nobody has looked who leads since"
                        : sight->elsewhere ? "another server, or a standby, answers"
                        : !sight->led      ? "nobody leads"
                        : sight->held      ? "the old owner still holds it"
                                           : who);
}

static void conclude(struct yield *yield)
{
    enum yield_outcome outcome = yield_judge(&yield->view.sight);
    bool seen = saw_since(yield, yield->phase_us);
    bool unsent = yield->view.sent == SENT_MAYBE && yield->view.sight.held;
    if (yield->uncertain || yield->cancelled || !seen || unsent)
        outcome = YIELD_UNKNOWN;
    yield->view.outcome = outcome;
    yield_finish(yield, END_OUTCOME, outcome_sentence(yield, outcome));
}

void yield_watch(struct yield *yield)
{
    yield_enter(yield, PHASE_WATCHING);
    yield->watch_until_us = yield->phase_us + yield->order.wait_us;
    yield->view.until_us = yield->watch_until_us;
}

static void schedule(struct yield *yield)
{
    int64_t now = clock_monotonic_us();
    bool asking = yield->view.phase <= PHASE_ASKING;
    yield->due_us = now + (asking ? ask_every_us : watch_every_us(now - yield->phase_us));
}

static void on_grace(struct yield *yield)
{
    int64_t now = clock_monotonic_us();
    if (yield->view.sight.elsewhere) {
        if (now >= yield->phase_us + yield->order.grace_us)
            yield_watch(yield);
    } else if (!yield->view.sight.held) {
        yield_note(yield, false,
                   is_same_server(yield) ? "The leader gave it up by itself."
                                         : "The server was restarted, which ended its sessions.");
        yield_watch(yield);
    } else if (yield->late) {
        conclude(yield);
    } else if (yield->view.guards.road == ROAD_RELEASE) {
        if (now >= yield->phase_us + yield->order.grace_us)
            yield_watch(yield);
    } else if (now >= yield->phase_us + yield->order.grace_us && is_same_server(yield)) {
        yield_note(yield, false, "The grace is over, and the leader still holds it.");
        yield_send(yield);
    }
}

void yield_took_reading(struct yield *yield)
{
    schedule(yield);
    yield->view.read_us = yield->read_done_us;
    switch (yield->view.phase) {
    case PHASE_LOOKING:
    case PHASE_ASKING:
        yield->view.phase = PHASE_ASKING;
        judge_guards(yield);
        if (yield->confirmed_us != TIME_UNKNOWN && yield->read_sent_us >= yield->confirmed_us)
            decide(yield);
        break;
    case PHASE_GRACE:
        see(yield);
        if (!follow_key(yield))
            on_grace(yield);
        break;
    case PHASE_WATCHING:
        see(yield);
        if (follow_key(yield))
            break;
        if (yield_settled(&yield->view.sight) || clock_monotonic_us() >= yield->watch_until_us)
            conclude(yield);
        break;
    case PHASE_REQUESTING:
    case PHASE_SENDING:
    case PHASE_RECORDING:
    case PHASE_DONE:
        break;
    }
}

/* In what phase the session is lost decides what can be known. */
void yield_lost(struct yield *yield, const struct error *err)
{
    int64_t now = clock_monotonic_us();
    yield->due_us = now + ask_every_us;
    switch (yield->view.phase) {
    case PHASE_ASKING:
        judge_guards(yield);
        if (yield->confirmed_us == TIME_UNKNOWN)
            return;
        keep_guards(yield);
        break;
    case PHASE_LOOKING:
        /* the look before may still have the only connection that the role gets */
        if (now - yield->started_us < look_again_within_us) {
            yield->due_us = now + look_again_us;
            return;
        }
        break;
    case PHASE_REQUESTING:
        if (!yield->asked->ledger->term_listens)
            break;
        yield_note(yield, false, "The answer to the request is lost: %s", err->message);
        yield->view.sent = SENT_MAYBE;
        yield->uncertain = true;
        yield_watch(yield);
        yield->due_us = now + SECOND_US / 20;
        return;
    case PHASE_SENDING:
        yield_note(yield, true, "The signal may have been sent, its answer is lost: %s",
                   err->message);
        yield->view.sent = SENT_MAYBE;
        yield->uncertain = true;
        yield_watch(yield);
        yield->due_us = now + SECOND_US / 20;
        return;
    case PHASE_GRACE:
        if (now >= yield->phase_us + yield->order.grace_us + yield->order.wait_us)
            conclude(yield);
        return;
    case PHASE_WATCHING:
        if (now >= yield->watch_until_us)
            conclude(yield);
        return;
    case PHASE_RECORDING:
        if (now < yield->record_until_us)
            return;
        yield_note(yield, true, "The outcome could not be recorded: %s", err->message);
        yield_enter(yield, PHASE_DONE);
        return;
    case PHASE_DONE:
        return;
    }
    yield_finish(yield, END_UNAVAILABLE,
                 arena_printf(yield->arena, "%s. Nothing was sent.", err->message));
}

void yield_confirm(struct yield *yield, const char *confirm, const char *reason)
{
    if (yield->view.phase != PHASE_ASKING)
        return;
    yield->confirm = arena_strdup(yield->arena, confirm);
    if (reason)
        yield->reason = arena_strdup(yield->arena, reason);
    yield->confirmed_us = clock_monotonic_us();
    if (yield->io == IO_NONE)
        yield->due_us = yield->confirmed_us;
}

void yield_reconsider(struct yield *yield, uint32_t overrides)
{
    if (yield->view.phase != PHASE_ASKING || yield->confirmed_us != TIME_UNKNOWN)
        return;
    yield->order.overrides = overrides;
    judge_guards(yield);
}

void yield_refuse(struct yield *yield)
{
    bool privilege = false;
    if (yield->view.phase == PHASE_ASKING && guards_failed(&yield->view.guards, &privilege))
        decide(yield);
}

void yield_cancel(struct yield *yield)
{
    yield->cancelled = true;
    if (yield->io != IO_NONE) /* its answer is not waited for: what is left goes by a new one */
        yield_close(yield);
    enum yield_phase phase = yield->view.phase;
    bool asked = phase == PHASE_REQUESTING && yield->asked->ledger->term_listens;
    if (asked || phase == PHASE_SENDING)
        yield->view.sent = SENT_MAYBE;
    if (phase <= PHASE_ASKING || (phase == PHASE_REQUESTING && !asked))
        yield_finish(yield, END_CANCELLED, "Cancelled. Nothing was sent.");
    else if (phase < PHASE_RECORDING)
        conclude(yield);
}

const struct yield_view *yield_look(const struct yield *yield)
{
    return &yield->view;
}
