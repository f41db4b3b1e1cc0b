/* SPDX-License-Identifier: PostgreSQL */
/* The statements that change something, each sent once, and what their answers mean. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "sql.h"
#include "tui/yield_internal.h"

struct intent_row {
    int64_t intent;
};

static const struct pg_column intent_columns[] = {
    {"intent", PG_INT8, offsetof(struct intent_row, intent)},
    {0},
};

struct sent_row {
    int32_t pid;
    bool signalled;
};

static const struct pg_column sent_columns[] = {
    {"pid", PG_INT4, offsetof(struct sent_row, pid)},
    {"signalled", PG_BOOL, offsetof(struct sent_row, signalled)},
    {0},
};

static const char *number(struct yield *yield, int64_t value)
{
    return arena_printf(yield->arena, "%" PRId64, value);
}

/* '{"no-successor","cool-down"}'; codes hold nothing that needs an escape. */
static const char *override_array(struct yield *yield)
{
    const char *list = "";
    for (int i = 0; i < GUARDS; i++) {
        if (yield->view.guards.rows[i].state == GUARD_OVERRIDDEN)
            list = arena_printf(yield->arena, "%s%s\"%s\"", list, *list ? "," : "",
                                guard_code((enum guard_id)i));
    }
    return arena_printf(yield->arena, "{%s}", list);
}

void yield_request(struct yield *yield)
{
    bool listens = yield->asked->ledger->term_listens;
    const char *const values[] = {
        yield->target.duty,    number(yield, yield->target.generation),
        yield->reason,         number(yield, listens ? yield->order.grace_us : 0),
        override_array(yield),
    };
    yield_enter(yield, PHASE_REQUESTING);
    yield_ask(yield, sql_yield_request, 5, values);
}

void yield_send(struct yield *yield)
{
    const struct yield_target *target = &yield->target;
    const char *start = yield_time(target->postmaster_start_us, yield->arena);
    const char *classid = number(yield, target->key.classid);
    const char *objid = number(yield, target->key.objid);
    const char *objsubid = number(yield, target->key.objsubid);
    const char *const by_ledger[] = {
        number(yield, yield->view.intent), start, target->duty, classid, objid, objsubid};
    const char *const by_right[] = {classid,
                                    objid,
                                    objsubid,
                                    number(yield, target->pid),
                                    yield_time(target->backend_start_us, yield->arena),
                                    start};
    bool ledger = yield->view.guards.road == ROAD_LEDGER;
    yield_enter(yield, PHASE_SENDING);
    yield_ask(yield, ledger ? sql_yield_terminate : sql_yield_terminate_own, 6,
              ledger ? by_ledger : by_right);
}

/* Of the session that was frozen; NULL where there is none. */
static void session_values(struct yield *yield, const char **ret_pid, const char **ret_start)
{
    const struct yield_target *target = &yield->target;
    bool known = target->pid > 0 && target->backend_start_us != TIME_UNKNOWN;
    *ret_pid = target->pid > 0 ? number(yield, target->pid) : NULL;
    *ret_start = known ? yield_time(target->backend_start_us, yield->arena) : NULL;
}

static void record_outcome(struct yield *yield)
{
    const char *values[] = {number(yield, yield->view.intent),
                            yield_outcome_names[yield->view.outcome],
                            yield->target.duty,
                            number(yield, yield->target.generation),
                            NULL,
                            NULL};
    session_values(yield, &values[4], &values[5]);
    yield_ask(yield, sql_yield_record, 6, values);
}

static void record_refusal(struct yield *yield)
{
    const struct yield_target *target = &yield->target;
    bool privilege = false;
    const struct guard *guard = guards_failed(&yield->view.guards, &privilege);
    const char *values[] = {
        target->duty,
        target->generation >= 0 ? number(yield, target->generation) : NULL,
        NULL,
        NULL,
        guard ? guard_code(guard->id) : NULL,
        yield->view.sentence,
        yield->reason,
        override_array(yield),
        yield_time(target->postmaster_start_us, yield->arena),
    };
    session_values(yield, &values[2], &values[3]);
    yield_ask(yield, sql_yield_refusal, 9, values);
}

void yield_record(struct yield *yield)
{
    if (yield->view.intent >= 0)
        record_outcome(yield);
    else
        record_refusal(yield);
}

static bool is_one_of(const char *sqlstate, const char *const *states)
{
    for (; *states; states++) {
        if (strcmp(sqlstate, *states) == 0)
            return true;
    }
    return false;
}

/* Errors that come before the signal, or from its refusal. After any other it may have been sent.
 */
static bool is_before_signal(const struct error *err)
{
    static const char *const states[] = {"PL001", "PL003", "PL005", "42501", "42883", "42P01",
                                         "3F000", "25006", "55P03", "22023", "55000", NULL};
    return is_one_of(err->sqlstate, states);
}

static const char *nothing_sent(const struct yield *yield)
{
    return yield->view.sent == SENT_ASKED ? "No signal was sent." : "Nothing was sent.";
}

static const char *refusal(struct yield *yield, const struct error *err)
{
    return arena_printf(yield->arena, "Refused by the server (%s): %s. %s", err->sqlstate,
                        err->message, nothing_sent(yield));
}

static void took_request(struct yield *yield, const struct pg_answer *answer,
                         const struct error *err)
{
    struct error why = *err;
    void *rows = NULL;
    size_t n = 0;
    if (!answer || !pg_answer_decode(answer, intent_columns, sizeof(struct intent_row),
                                     yield->arena, &rows, &n, &why)) {
        yield_finish(yield, strcmp(why.sqlstate, "42501") == 0 ? END_NO_PERMISSION : END_REFUSED,
                     refusal(yield, &why));
        return;
    }
    yield->view.intent = ((const struct intent_row *)rows)->intent;
    bool listens = yield->asked->ledger->term_listens;
    yield_note(yield, false, "Intent %" PRId64 " is recorded and committed.", yield->view.intent);
    if (!listens) {
        yield_send(yield);
        return;
    }
    yield->view.sent = SENT_ASKED;
    yield_note(yield, false, "The leader listens, and was asked to release.");
    yield_enter(yield, PHASE_GRACE);
}

/* Too late, or another leads: who was asked may have gone by itself, which the next reading says.
 */
static void took_no(struct yield *yield, const char *words, bool privilege)
{
    if (yield->view.sent != SENT_ASKED) {
        yield_finish(yield, privilege ? END_NO_PERMISSION : END_REFUSED, words);
        return;
    }
    yield->late = true;
    yield_note(yield, false, "%s", words);
    yield_enter(yield, PHASE_GRACE);
}

static void took_sent(struct yield *yield, const struct pg_answer *answer, const struct error *err)
{
    struct error why = *err;
    void *rows = NULL;
    size_t n = 0;
    bool ok = answer && pg_answer_decode(answer, sent_columns, sizeof(struct sent_row),
                                         yield->arena, &rows, &n, &why);
    if (ok && n == 0) {
        bool ledger = yield->view.guards.road == ROAD_LEDGER;
        took_no(yield,
                arena_printf(yield->arena, "Refused in the statement itself: %s. %s",
                             ledger ? "it is not that server or that key any more"
                                    : "that session does not hold the lock any more",
                             nothing_sent(yield)),
                false);
        return;
    }
    if (!answer && is_before_signal(&why)) {
        took_no(yield, refusal(yield, &why), strcmp(why.sqlstate, "42501") == 0);
        return;
    }
    const struct sent_row *row = rows;
    yield->view.signalled = ok && row->signalled;
    yield->view.sent = ok && row->signalled ? SENT_YES : SENT_MAYBE;
    if (!ok)
        yield_note(yield, true, "The signal may have been sent (%s): %s", why.sqlstate,
                   why.message);
    else if (!row->signalled)
        yield_note(yield, true, "The server says that it could not signal pid %d; it may be gone.",
                   row->pid);
    else
        yield_note(yield, true, "Pid %d was signalled.", row->pid);
    yield_watch(yield);
}

static void took_record(struct yield *yield, const struct pg_answer *answer,
                        const struct error *err)
{
    struct error why = *err;
    void *rows = NULL;
    size_t n = 0;
    bool ok = answer && pg_answer_decode(answer, intent_columns, sizeof(struct intent_row),
                                         yield->arena, &rows, &n, &why);
    yield->view.recorded = ok && n == 1;
    if (!yield->view.recorded)
        yield_note(yield, true, "The outcome could not be recorded: %s",
                   ok ? "another server's ledger answers" : why.message);
    yield_enter(yield, PHASE_DONE);
}

void yield_took_answer(struct yield *yield, const struct pg_answer *answer, const struct error *err)
{
    switch (yield->view.phase) {
    case PHASE_REQUESTING:
        took_request(yield, answer, err);
        return;
    case PHASE_SENDING:
        took_sent(yield, answer, err);
        return;
    case PHASE_RECORDING:
        took_record(yield, answer, err);
        return;
    case PHASE_LOOKING:
    case PHASE_ASKING:
    case PHASE_GRACE:
    case PHASE_WATCHING:
    case PHASE_DONE:
        return;
    }
}
