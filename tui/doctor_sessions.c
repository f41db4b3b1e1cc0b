/* SPDX-License-Identifier: PostgreSQL */
/* Checks of the sessions that hold, wait for or are ready for a duty. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "observe/candidates.h"
#include "tui/doctor_checks.h"

enum { NAME_MAX_BYTES = 63 };
static const double dead_leader_most_ms = 60000;
static const int64_t idle_transaction_us = 5 * SECOND_US; /* a statement follows the other */
static const int64_t long_wait_us = 5 * SECOND_US; /* the kit's queue waits for 0.9 s at a time */

/* What is known of one session of a duty. */
struct member {
    const struct config_duty *duty;
    const struct lock_row *row;
    const char *role; /* NULL: not known */
    bool kit;         /* it sets its own limits, and says which it could not */
};

typedef void visit(struct doctor *doctor, const struct doctor_facts *facts,
                   const struct member *member);

static bool is_kit(const struct lock_row *row)
{
    return strncmp(lock_row_name(row), "pgleader:", strlen("pgleader:")) == 0;
}

static const char *role_of(const struct doctor_facts *facts, const struct lock_row *row)
{
    const struct doctor_session *session = doctor_session(facts, row->pid);
    return session ? session->role : NULL;
}

/* Each session that holds or waits for the lock of a duty. */
static void each_member(struct doctor *doctor, const struct doctor_facts *facts, visit *visitor)
{
    for (size_t i = 0; i < facts->n_duties; i++) {
        const struct config_duty *duty = facts->duties[i].duty;
        size_t n = 0;
        if (duty->mechanism != MECHANISM_LOCK)
            continue;
        const struct lock_row *const *rows = sessions_of_key(&facts->sessions, duty->key, &n);
        for (size_t r = 0; r < n; r++) {
            const struct member member = {duty, rows[r], role_of(facts, rows[r]), is_kit(rows[r])};
            visitor(doctor, facts, &member);
        }
    }
}

static bool is_owner(const struct member *member)
{
    return member->row->granted && member->row->exclusive;
}

static bool matches(const struct doctor_facts *facts, const struct lock_row *row)
{
    for (size_t i = 0; i < facts->n_duties; i++) {
        const struct config_duty *duty = facts->duties[i].duty;
        if (duty->candidates && text_like(lock_row_name(row), duty->candidates))
            return true;
    }
    return false;
}

static bool holds_duty(const struct doctor_facts *facts, const struct lock_row *row)
{
    for (size_t i = 0; i < facts->n_duties; i++) {
        const struct config_duty *duty = facts->duties[i].duty;
        size_t n = 0;
        if (duty->mechanism != MECHANISM_LOCK)
            continue;
        const struct lock_row *const *rows = sessions_of_key(&facts->sessions, duty->key, &n);
        for (size_t r = 0; r < n; r++) {
            if (rows[r]->pid == row->pid)
                return true;
        }
    }
    return false;
}

/* A session of a duty that lives under its role's settings: not the kit's. */
static bool is_exposed(const struct doctor_facts *facts, const struct lock_row *row)
{
    return row->pid > 0 && row->session_database == facts->database_oid && !is_kit(row) &&
           (holds_duty(facts, row) || matches(facts, row));
}

static bool is_among(const char *const *items, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++) {
        if (text_equal(items[i], text))
            return true;
    }
    return false;
}

/* Calls `judge` for each role under which candidates without the kit are connected, with one of
 * their sessions; where nobody is, not even with the kit, for our own role and NULL: then workers
 * are still to come. */
static void each_role(struct doctor *doctor, const struct doctor_facts *facts,
                      void (*judge)(struct doctor *doctor, const struct doctor_facts *facts,
                                    const char *role, const struct lock_row *example))
{
    const char **seen =
        arena_array(doctor->arena, facts->sessions.n_pids + 1, sizeof *seen); /* few */
    size_t n_seen = 0;
    bool anybody = false;
    for (size_t i = 0; i < facts->sessions.n_pids; i++) {
        const struct lock_row *row = facts->sessions.pids[i];
        const char *role = role_of(facts, row);
        anybody = anybody || is_kit(row);
        if (!role || is_among(seen, n_seen, role) || !is_exposed(facts, row))
            continue;
        anybody = true;
        seen[n_seen++] = role;
        judge(doctor, facts, role, row);
    }
    if (!anybody)
        judge(doctor, facts, facts->role, NULL);
}

/* "2 h 11 min", "90 s", "250 ms". */
static const char *in_words(struct doctor *doctor, double ms)
{
    if (ms >= 3600e3)
        return arena_printf(doctor->arena, "%.0f h %.0f min", floor(ms / 3600e3),
                            floor(fmod(ms, 3600e3) / 60e3));
    if (ms >= 120e3)
        return arena_printf(doctor->arena, "%.0f min", floor(ms / 60e3));
    return ms >= 1000 ? arena_printf(doctor->arena, "%.0f s", ms / 1000)
                      : arena_printf(doctor->arena, "%.0f ms", ms);
}

/* Until the server gives up a peer that is silent; INFINITY: never. */
static double silence_ms(const struct doctor_facts *facts, const char *role)
{
    double user = doctor_setting(facts, role, "tcp_user_timeout");
    double idle = doctor_setting(facts, role, "tcp_keepalives_idle");
    double interval = doctor_setting(facts, role, "tcp_keepalives_interval");
    double count = doctor_setting(facts, role, "tcp_keepalives_count");
    /* 0 is the operating system's, and Linux has these; over a socket nobody tells */
    idle = idle > 0 ? idle : 7200e3;
    interval = interval > 0 ? interval : 75e3;
    count = count > 0 ? count : 9;
    /* with a user timeout the kernel gives up at the first probe after it */
    return user > 0 ? fmax(user, idle) : idle + interval * count;
}

/* What new sessions of the role have in this database, whatever else is set. */
static const char *set_for(struct doctor *doctor, const struct doctor_facts *facts,
                           const char *role, const char *setting)
{
    return arena_printf(doctor->arena, "ALTER ROLE %s IN DATABASE %s SET %s;",
                        doctor_quote(doctor, role), doctor_quote(doctor, facts->database), setting);
}

static void mend_silence(struct doctor *doctor, const struct doctor_facts *facts, const char *role)
{
    /* with a user timeout of its own the kernel would not count probes */
    bool user = doctor_setting(facts, role, "tcp_user_timeout") > 0;
    doctor_mend(doctor, "%s %s %s%s%s", set_for(doctor, facts, role, "tcp_keepalives_idle = 2"),
                set_for(doctor, facts, role, "tcp_keepalives_interval = 1"),
                set_for(doctor, facts, role, "tcp_keepalives_count = 6"), user ? " " : "",
                user ? set_for(doctor, facts, role, "tcp_user_timeout = 0") : "");
}

static void judge_silence(struct doctor *doctor, const struct doctor_facts *facts, const char *role,
                          const struct lock_row *example)
{
    double ms = silence_ms(facts, role);
    if (ms <= dead_leader_most_ms)
        return;
    if (!example)
        doctor_note(doctor,
                    "a session of role %s whose host is gone would keep its lock for %s (no worker "
                    "is here yet to look at)",
                    role, in_words(doctor, ms));
    if (!example || !example->client_addr)
        return;
    doctor_find(doctor,
                "a session of role %s, such as %s from %s, keeps its lock for %s after its "
                "host is gone, unless it sets limits of its own",
                role, lock_row_name(example), example->client_addr, in_words(doctor, ms));
    mend_silence(doctor, facts, role);
}

DOCTOR_CHECK(dead_leader_holds)
{
    (void)server;
    each_role(doctor, facts, judge_silence);
}

static void judge_timeout(struct doctor *doctor, const struct doctor_facts *facts, const char *role,
                          const struct lock_row *example, const char *name)
{
    double ms = doctor_setting(facts, role, name);
    if (isnan(ms) || ms <= 0)
        return;
    if (!example) {
        doctor_note(doctor, "%s is %s for role %s (no worker is here yet to look at)", name,
                    in_words(doctor, ms), role);
        return;
    }
    doctor_find(doctor, "role %s, of %s, has %s = %s", role, lock_row_name(example), name,
                in_words(doctor, ms));
    doctor_mend(doctor, "%s",
                set_for(doctor, facts, role, arena_printf(doctor->arena, "%s = 0", name)));
}

static void judge_idle_session(struct doctor *doctor, const struct doctor_facts *facts,
                               const char *role, const struct lock_row *example)
{
    judge_timeout(doctor, facts, role, example, "idle_session_timeout");
}

DOCTOR_CHECK(idle_session_timeout)
{
    (void)server;
    each_role(doctor, facts, judge_idle_session);
}

/* Limits on transactions end a leader that leads inside one. */
static void find_limited(struct doctor *doctor, const struct doctor_facts *facts,
                         const struct member *member, const char *name)
{
    double ms = doctor_setting(facts, member->role, name);
    if (!is_owner(member) || member->kit || isnan(ms) || ms <= 0 ||
        member->row->xact_start_us == TIME_UNKNOWN)
        return;
    doctor_find(doctor, "%s leads %s (pid %" PRId32 ") inside a transaction, and %s is %s",
                lock_row_name(member->row), member->duty->name, member->row->pid, name,
                in_words(doctor, ms));
}

static void find_idle_limited(struct doctor *doctor, const struct doctor_facts *facts,
                              const struct member *member)
{
    find_limited(doctor, facts, member, "idle_in_transaction_session_timeout");
}

DOCTOR_CHECK(idle_transaction_timeout)
{
    (void)server;
    each_member(doctor, facts, find_idle_limited);
}

static void find_transaction_limited(struct doctor *doctor, const struct doctor_facts *facts,
                                     const struct member *member)
{
    find_limited(doctor, facts, member, "transaction_timeout");
}

DOCTOR_CHECK(transaction_timeout)
{
    (void)server;
    each_member(doctor, facts, find_transaction_limited);
}

static void find_idle_owner(struct doctor *doctor, const struct doctor_facts *facts,
                            const struct member *member)
{
    const struct doctor_session *session = doctor_session(facts, member->row->pid);
    if (!is_owner(member) || !session || !session->state ||
        strncmp(session->state, "idle in transaction", strlen("idle in transaction")) != 0 ||
        session->state_since_us == TIME_UNKNOWN ||
        facts->now_us - session->state_since_us < idle_transaction_us)
        return;
    doctor_find(doctor, "%s, who leads %s (pid %" PRId32 "), is %s for %s",
                lock_row_name(member->row), member->duty->name, member->row->pid, session->state,
                in_words(doctor, (double)(facts->now_us - session->state_since_us) / 1000));
}

DOCTOR_CHECK(owner_in_transaction)
{
    (void)server;
    each_member(doctor, facts, find_idle_owner);
}

/* How long a session has waited for a duty's lock, at least; -1 where it does not wait long. */
static int64_t waited_us(const struct doctor_facts *facts, const struct member *member)
{
    const struct lock_row *row = member->row;
    int64_t since = row->waitstart_us;
    const struct doctor_session *session = doctor_session(facts, row->pid);
    if (since == TIME_UNKNOWN && session)
        since = session->state_since_us; /* its statement began then: before 14 */
    if (row->granted || row->pid <= 0 || since == TIME_UNKNOWN)
        return -1;
    return facts->now_us - since >= long_wait_us ? facts->now_us - since : -1;
}

static void find_vacuum_waiter(struct doctor *doctor, const struct doctor_facts *facts,
                               const struct member *member)
{
    int64_t us = waited_us(facts, member);
    if (us >= 0 && member->row->xmin_age >= 0)
        doctor_find(doctor,
                    "%s (pid %" PRId32 ") waits for %s since %s with a snapshot %" PRId32
                    " transactions old",
                    lock_row_name(member->row), member->row->pid, member->duty->name,
                    in_words(doctor, (double)us / 1000), member->row->xmin_age);
}

DOCTOR_CHECK(waiter_holds_vacuum)
{
    (void)server;
    each_member(doctor, facts, find_vacuum_waiter);
}

static void find_deaf_waiter(struct doctor *doctor, const struct doctor_facts *facts,
                             const struct member *member)
{
    double ms = doctor_setting(facts, member->role, "client_connection_check_interval");
    if (waited_us(facts, member) < 0 || ms > 0)
        return;
    doctor_find(doctor,
                "%s (pid %" PRId32 ") waits for %s, and the server does not look whether it is "
                "still there",
                lock_row_name(member->row), member->row->pid, member->duty->name);
    if (member->role && !isnan(ms)) /* 14 and later */
        doctor_mend(
            doctor, "%s",
            set_for(doctor, facts, member->role, "client_connection_check_interval = '2s'"));
}

DOCTOR_CHECK(dead_waiter_stays)
{
    (void)server;
    each_member(doctor, facts, find_deaf_waiter);
}

static void find_prepared(struct doctor *doctor, const struct doctor_facts *facts,
                          const struct member *member)
{
    (void)facts;
    if (is_owner(member) && member->row->pid <= 0)
        doctor_find(doctor, "the lock of %s belongs to a prepared transaction", member->duty->name);
}

DOCTOR_CHECK(prepared_transaction)
{
    (void)server;
    each_member(doctor, facts, find_prepared);
}

/* Counts as the metric does; *ret_by_name is 0 where no session is known by its name. */
static int32_t count_candidates(const struct doctor_facts *facts, const struct config_duty *duty,
                                int32_t *ret_by_name)
{
    size_t n = 0;
    struct candidates *candidates = candidates_new(&facts->sessions);
    const struct lock_row *const *rows = sessions_of_key(&facts->sessions, duty->key, &n);
    int32_t count =
        candidates_count(candidates, duty->name, duty->candidates, rows, n, ret_by_name);
    candidates_free(candidates);
    return count;
}

static bool wants_candidates(const struct doctor_facts *facts, const struct config_duty *duty)
{
    return duty->mechanism == MECHANISM_LOCK && duty->limits.min_candidates > 0 &&
           !facts->in_recovery;
}

DOCTOR_CHECK(too_few_candidates)
{
    (void)server;
    for (size_t i = 0; i < facts->n_duties; i++) {
        const struct config_duty *duty = facts->duties[i].duty;
        int32_t by_name = 0;
        if (!wants_candidates(facts, duty))
            continue;
        int32_t count = count_candidates(facts, duty, &by_name);
        if ((duty->candidates || by_name > 0) && count < duty->limits.min_candidates)
            doctor_find(doctor, "%s has %" PRId32 " candidates, and wants %" PRId32, duty->name,
                        count, duty->limits.min_candidates);
    }
}

DOCTOR_CHECK(candidates_uncountable)
{
    (void)server;
    for (size_t i = 0; i < facts->n_duties; i++) {
        const struct config_duty *duty = facts->duties[i].duty;
        int32_t by_name = 0;
        if (!wants_candidates(facts, duty) || duty->candidates)
            continue;
        (void)count_candidates(facts, duty, &by_name);
        if (by_name == 0)
            doctor_find(doctor,
                        "%s wants %" PRId32 " candidates, has no pattern, and no session has the "
                        "kit's name for it",
                        duty->name, duty->limits.min_candidates);
    }
}

static void find_unnamed(struct doctor *doctor, const struct doctor_facts *facts,
                         const struct member *member)
{
    (void)facts;
    if (member->row->pid > 0 && !*lock_row_name(member->row))
        doctor_find(doctor, "pid %" PRId32 " %s %s and has no application_name", member->row->pid,
                    member->row->granted ? "leads" : "waits for", member->duty->name);
}

DOCTOR_CHECK(candidate_unnamed)
{
    (void)server;
    each_member(doctor, facts, find_unnamed);
}

DOCTOR_CHECK(candidate_name_cut)
{
    (void)server;
    for (size_t i = 0; i < facts->sessions.n_pids; i++) {
        const struct lock_row *row = facts->sessions.pids[i];
        if (strlen(lock_row_name(row)) >= NAME_MAX_BYTES && is_exposed(facts, row))
            doctor_find(doctor, "pid %" PRId32 ": \"%s\"", row->pid, lock_row_name(row));
    }
}

/* Another session of the same lock with the same name and address; told once, at the second. */
static void find_twin(struct doctor *doctor, const struct doctor_facts *facts,
                      const struct member *member)
{
    size_t n = 0;
    const struct lock_row *const *rows = sessions_of_key(&facts->sessions, member->duty->key, &n);
    for (size_t i = 0; i < n && rows[i] != member->row; i++) {
        if (rows[i]->pid <= 0 || rows[i]->pid == member->row->pid ||
            lock_row_compare_instance(rows[i], member->row) != 0)
            continue;
        doctor_find(doctor,
                    "pid %" PRId32 " and pid %" PRId32 " are both \"%s\" at the lock of %s: they "
                    "count as one candidate",
                    rows[i]->pid, member->row->pid, lock_row_name(member->row), member->duty->name);
        return;
    }
}

DOCTOR_CHECK(candidate_name_twice)
{
    (void)server;
    each_member(doctor, facts, find_twin);
}
