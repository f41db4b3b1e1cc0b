/* SPDX-License-Identifier: PostgreSQL */
/* One bare candidate, one real server, and seeded misfortunes in any order; after every step, what
 * must hold:
 *
 *     lead_model CONNINFO SECONDS SEED DUTY lock|lease
 *
 * Exit status 1, with words on standard error, when it does not. The duty's key is 1 at first, and
 * 1 to 3 later; CONNINFO is a superuser's, of a server on this machine whose processes we may stop.
 */
#include "lead_model.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static const struct timing timing = {.check_every_us = SECOND_US / 5,
                                     .answer_within_us = SECOND_US / 5,
                                     .kill_after_us = SECOND_US * 3 / 10,
                                     .slack_us = SECOND_US / 10,
                                     .server_holds_us = SECOND_US};
static const int64_t lease_us = SECOND_US * 3 / 2;
static const int64_t stop_within_us = 5 * SECOND_US; /* lead_stop: the work, an answer, a report */
static const int64_t again_within_us =
    25 * SECOND_US; /* the longest pause of a reconnect, and a settle */
enum { SPINS = 100 };
void say(const struct model *m, const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    (void)fprintf(stderr, "%.3f %s %s\n", (double)clock_boottime_us() / SECOND_US, m->duty, text);
}

static void complain(struct model *m, const char *what)
{
    say(m, "WRONG: %s (%s, generation %" PRId64 ")", what, lead_state_name(lead_state(m->lead)),
        lead_generation(m->lead));
    m->wrong = true;
}

int64_t chance(struct model *m, int64_t below)
{
    return rand_r(&m->seed) % below;
}

int64_t within(struct model *m, int64_t least_ms, int64_t most_ms)
{
    return (least_ms + chance(m, most_ms - least_ms)) * 1000;
}

const char *ask(PGconn *conn, const char *format, ...)
{
    static char value[200];
    char text[1000];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    PGresult *result = PQexec(conn, text);
    bool any = PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) > 0;
    (void)snprintf(value, sizeof value, "%s", any ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    return value;
}

/* Never waits for what another of ours holds. */
static PGconn *connect_or_die(const char *conninfo)
{
    const char *const keywords[] = {"dbname", "options", NULL};
    const char *const values[] = {conninfo, "-c lock_timeout=50ms", NULL};
    PGconn *conn = PQconnectdbParams(keywords, values, 1);
    if (PQstatus(conn) == CONNECTION_OK)
        return conn;
    (void)fprintf(stderr, "%s", PQerrorMessage(conn));
    exit(2);
}

/* ---- The candidate's side ---- */

static void gained(void *context, int64_t generation)
{
    struct model *m = context;
    say(m, "gained %" PRId64, generation);
    if (m->working)
        complain(m, "gained while its work has not stopped");
    if (generation <= m->last)
        complain(m, "gained an old generation");
    if (clock_boottime_us() < m->not_before_us)
        complain(m, "gained before an earlier leader's work has stopped");
    m->working = true;
    m->told = false;
    m->generation = m->last = generation;
    m->work_stops_us = chance(m, 6) ? 0 : clock_boottime_us() + within(m, 0, 700);
    m->gains++;
    if (chance(m, 12))
        return;
    m->working = false; /* it could not start */
    m->finishes++;
    lead_work_stopped(m->lead);
}

static void lost(void *context, int64_t generation, const struct lead_rule *rule)
{
    struct model *m = context;
    say(m, "lost %" PRId64 " %s", generation, rule->id);
    if (!m->working || m->told)
        complain(m, "lost what it did not have");
    if (generation != m->generation)
        complain(m, "lost another generation");
    m->told = true;
    m->losses++;
    m->work_stops_us = clock_boottime_us() + (chance(m, 2) ? 0 : within(m, 0, 600));
    if (chance(m, 4))
        return;
    m->working = false;
    lead_work_stopped(m->lead);
}

static void told(void *context, const struct lead_rule *rule, const struct error *err,
                 const char *remark)
{
    struct model *m = context;
    if (rule && err && m->calm_us && clock_boottime_us() > m->calm_us + 4 * SECOND_US)
        complain(m, "fails although nothing happens to it");
    if (err || remark || (rule && rule->event > EVENT_REFUSED))
        say(m, "%s %s %s", rule ? rule->id : "-", err ? err->message : "", remark ? remark : "");
}

static void start(struct model *m)
{
    struct error err = {0};
    const struct lead_options options = {.conninfo = m->conninfo,
                                         .duty = m->duty,
                                         .instance = "model",
                                         .lease_us = lease_us,
                                         .timing = timing,
                                         .queue = chance(m, 2),
                                         .settle_us = -1,
                                         .context = m,
                                         .gained = gained,
                                         .lost = lost,
                                         .told = told};
    m->lead = lead_new(&options, &err);
    m->stopped = false;
    if (m->lead)
        return;
    (void)fprintf(stderr, "%s\n", err.message);
    exit(2);
}
/* "{1,2}"; "" for none. The registry may be locked, and is not asked. */
static const char *held(const struct model *m)
{
    return ask(
        m->admin,
        "SELECT array_agg(objid::int8 ORDER BY objid::int8) FROM pg_locks JOIN pg_stat_activity a "
        "USING (pid) WHERE locktype = 'advisory' AND objid IN (1, 2, 3) AND objsubid = 1 "
        "AND granted AND application_name = 'pgleader:%s:model'",
        m->duty);
}

static bool holds(const struct model *m)
{
    if (m->lease)
        return *ask(m->admin,
                    "SELECT 1 FROM pgleader.lease WHERE job_name = '%s' AND holder = 'model' AND "
                    "generation = "
                    "%" PRId64 " AND expires_at > clock_timestamp()",
                    m->duty, m->generation);
    return *held(m);
}

/* ---- What must hold ---- */

static void check(struct model *m, int64_t before_us)
{
    bool leads = lead_state(m->lead) == LEAD_LEADER;
    int64_t now = clock_boottime_us();
    if (leads && before_us >= lead_deadline_us(m->lead))
        complain(m, "leads past its deadline");
    if (leads && (!m->working || m->told))
        complain(m, "leads, and nobody was told to work");
    if (!leads && m->working && !m->told)
        complain(m, "does not lead, and nobody was told to stop");
    if (!leads || chance(m, 10))
        m->unheld_us = leads ? m->unheld_us : 0;
    else if (holds(m))
        m->unheld_us = 0;
    else if (!m->unheld_us)
        m->unheld_us = now;
    if (m->unheld_us && now > m->unheld_us + (m->lease ? lease_us : SECOND_US / 2))
        complain(m, "leads what it does not hold");
}
/* What was done to it and is over, and work that has stopped. */
static void tick(struct model *m)
{
    int64_t now = clock_boottime_us();
    if (m->unlock_us && now >= m->unlock_us) {
        (void)ask(m->locker, "ROLLBACK");
        m->unlock_us = 0;
    }
    if (m->rival_us && now >= m->rival_us)
        end_rival(m);
    if (!m->working || !m->work_stops_us || now < m->work_stops_us)
        return;
    m->finishes += !m->told;
    m->working = false;
    lead_work_stopped(m->lead);
}

static void turn(struct model *m)
{
    struct pollfd fd;
    int timeout_ms = 0;
    lead_wants(m->lead, &fd, &timeout_ms);
    m->spins = timeout_ms ? 0 : m->spins + 1;
    if (m->spins > SPINS)
        complain(m, "never sleeps");
    int n = poll(&fd, 1, timeout_ms < 20 ? timeout_ms : 20);
    int64_t before_us = clock_boottime_us();
    lead_step(m->lead, n > 0);
    check(m, before_us);
    tick(m);
}

/* It has taken what it should, or given back all of it: not more, and not less. A session that was
 * closed holds it for a moment yet. */
static void check_keys(struct model *m, bool leads)
{
    int64_t end = clock_boottime_us() + 8 * SECOND_US;
    char has[100];
    const char *wanted = "";
    do {
        if (leads)
            turn(m);
        else
            (void)poll(NULL, 0, 20);
        (void)snprintf(has, sizeof has, "%s", held(m));
        if (leads)
            wanted = ask(m->admin,
                         "SELECT array_agg(k ORDER BY k) FROM pgleader.duty, unnest(ARRAY"
                         "[lock_objid, next_lock_objid]) k WHERE duty = '%s' AND k IS NOT NULL",
                         m->duty);
    } while (strcmp(has, wanted) != 0 && clock_boottime_us() < end && !m->wrong);
    if (strcmp(has, wanted) == 0)
        return;
    say(m, "holds \"%s\", not \"%s\"", has, wanted);
    complain(m, "holds other keys than it should");
}

/* ---- Chapters ---- */

static void finish_stop(struct model *m)
{
    int64_t end = clock_boottime_us() + stop_within_us;
    while (lead_ended(m->lead) == LEAD_GOES_ON && !m->wrong) {
        turn(m);
        if (clock_boottime_us() > end)
            complain(m, "does not stop");
    }
    if (m->working)
        complain(m, "stopped before its work");
    if (lead_ended(m->lead) != LEAD_ENDED)
        complain(m, "did not end as it was told");
    lead_free(m->lead);
    m->lead = NULL;
    if (!m->wrong)
        start(m);
}

static void storm(struct model *m)
{
    int64_t end = clock_boottime_us() + within(m, 500, 3000);
    int64_t next = 0;
    m->calm_us = 0;
    while (clock_boottime_us() < end && !m->wrong) {
        if (clock_boottime_us() >= next && !m->stopped) {
            befall(m);
            next = clock_boottime_us() + within(m, 0, 500);
        }
        turn(m);
        if (m->stopped && !m->wrong)
            finish_stop(m);
    }
}

/* Nothing happens any more: it leads, and every earlier term is ended or reported. */
static void calm(struct model *m)
{
    int64_t end = clock_boottime_us() + again_within_us;
    m->unlock_us = m->unlock_us ? 1 : 0;
    m->rival_us = m->rival_us ? 1 : 0;
    thaw();
    say(m, "calm");
    m->calm_us = clock_boottime_us();
    while (lead_state(m->lead) != LEAD_LEADER && !m->wrong) {
        turn(m);
        if (clock_boottime_us() > end || lead_ended(m->lead) != LEAD_GOES_ON)
            complain(m, "does not lead again");
    }
    if (m->lease || m->wrong)
        return;
    check_keys(m, true);
    if (chance(m, 3))
        return;
    lead_yield(m->lead);
    while (lead_state(m->lead) != LEAD_FOLLOWER && !m->wrong && clock_boottime_us() < end)
        turn(m);
    if (!m->wrong)
        check_keys(m, false);
}

static void stop_in_calm(struct model *m)
{
    stop(m);
    finish_stop(m);
    if (m->wrong)
        return;
    if (*ask(m->admin,
             "SELECT generation FROM pgleader.term JOIN pgleader.duty USING (duty_id) WHERE duty = "
             "'%s' AND "
             "instance = 'model' AND term.ended_at IS NULL AND stopped_at IS NULL",
             m->duty))
        complain(m, "left a term open");
    if (!m->lease && holds(m)) /* a lease given up between two sessions expires */
        complain(m, "holds it still");
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    struct model m = {
        .conninfo = argv[1], .duty = argv[4], .lease = strcmp(argv[5], "lease") == 0, .last = -1};
    int64_t end = clock_boottime_us() + strtol(argv[2], NULL, 10) * SECOND_US;
    m.seed = (unsigned)strtoul(argv[3], NULL, 10);
    m.admin = connect_or_die(argv[1]);
    m.rival = connect_or_die(argv[1]);
    m.locker = connect_or_die(argv[1]);
    thaw_by_alarm();
    start(&m);
    while (clock_boottime_us() < end && !m.wrong) {
        storm(&m);
        calm(&m);
        if (!m.wrong && chance(&m, 3) == 0)
            stop_in_calm(&m);
    }
    if (!m.wrong) {
        stop(&m);
        finish_stop(&m);
    }
    if (!m.wrong && m.gains != m.losses + m.finishes)
        complain(&m, "not every gain has its loss");
    thaw();
    lead_free(m.lead);
    PQfinish(m.admin);
    PQfinish(m.rival);
    PQfinish(m.locker);
    (void)printf("terms %d losses %d\n", m.gains, m.losses);
    return m.wrong;
}
