/* SPDX-License-Identifier: PostgreSQL */
/* What may happen to a candidate. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "base/clock.h"
#include "lead_model.h"

static const int64_t rival_stop_within_us = SECOND_US / 2;

static volatile sig_atomic_t frozen; /* a server process */

static int session(const struct model *m)
{
    return (int)strtol(
        ask(m->admin,
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgleader:%s:model'",
            m->duty),
        NULL, 10);
}

void thaw(void)
{
    if (frozen)
        (void)kill((pid_t)frozen, SIGCONT);
    frozen = 0;
}

static void on_alarm(int signo)
{
    (void)signo;
    thaw();
}

void thaw_by_alarm(void)
{
    (void)signal(SIGALRM, on_alarm);
}

static void freeze(struct model *m)
{
    int64_t us = within(m, 50, 1500);
    int pid = session(m);
    if (frozen || !pid)
        return;
    frozen = pid;
    (void)kill(pid, SIGSTOP);
    (void)setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {us / SECOND_US, us % SECOND_US}},
                    NULL);
}

static void terminate(struct model *m)
{
    (void)ask(m->admin, "SELECT pg_terminate_backend(%d)", session(m));
}

static void cancel(struct model *m)
{
    (void)ask(m->admin, "SELECT pg_cancel_backend(%d)", session(m));
}

static void strangers_notify(struct model *m)
{
    static const char *const events[] = {"yield", "stopped", "released", "yield\", \"stopped",
                                         "key"};
    (void)ask(m->admin,
              "SELECT pg_notify('pgleader:%s', format('{\"event\": \"%s\", \"generation\": %%s}', "
              "i)) FROM "
              "generate_series(1, %d) i",
              m->duty, events[chance(m, 5)], 1 + (int)chance(m, 100));
}

static void request_yield(struct model *m)
{
    (void)ask(m->admin,
              "SELECT pgleader.request_yield('%s', %" PRId64 ", 'model', '1 s', '{cool-down}')",
              m->duty, lead_generation(m->lead));
}

static void yield(struct model *m)
{
    lead_yield(m->lead);
}

static void lock_ledger(struct model *m)
{
    static const char *const tables[] = {"pgleader.duty", "pgleader.term"};
    if (m->unlock_us)
        return;
    (void)ask(m->locker, "BEGIN");
    (void)ask(m->locker, "LOCK TABLE %s IN ACCESS EXCLUSIVE MODE", tables[chance(m, 2)]);
    m->unlock_us = clock_boottime_us() + within(m, 100, 1500);
}

/* The whole process is not scheduled for a while. */
static void pause_us(struct model *m)
{
    int64_t us = within(m, 50, 1500);
    const struct timespec pause = {us / SECOND_US, us % SECOND_US * 1000};
    m->unheld_us = 0;
    (void)nanosleep(&pause, NULL);
}

/* The row goes, or is another's; or he leads for a moment, and his work may go on for longer than
 * our lease lasts. */
static void rewrite_lease(struct model *m)
{
    if (chance(m, 3) == 0) {
        (void)ask(m->admin, "UPDATE pgleader.lease SET holder = 'rival' WHERE job_name = '%s'",
                  m->duty);
        return;
    }
    (void)ask(m->admin, "DELETE FROM pgleader.lease WHERE job_name = '%s'", m->duty);
    if (!*ask(m->admin, "SELECT pgleader.acquire_lease('%s', 'rival', '1 s', false, '2 s')",
              m->duty))
        return;
    m->not_before_us = clock_boottime_us() + 2 * SECOND_US;
    (void)ask(m->admin, "DELETE FROM pgleader.lease WHERE job_name = '%s'", m->duty);
}

void end_rival(struct model *m)
{
    if (m->rival_led && PQstatus(m->rival) == CONNECTION_OK)
        m->not_before_us = clock_boottime_us() + rival_stop_within_us;
    m->rival_us = 0;
    PQreset(m->rival);
}
static bool rival_takes(struct model *m, const char *column)
{
    return strcmp(ask(m->rival,
                      "SELECT pg_try_advisory_lock(%s) FROM pgleader.duty WHERE duty = '%s' AND %s "
                      "> 0",
                      column, m->duty, column),
                  "t") == 0;
}

/* Another takes it when it can, and is gone without a word. */
static void rival_leads(struct model *m)
{
    if (m->rival_us)
        return;
    if (m->lease) {
        rewrite_lease(m);
        return;
    }
    if (!rival_takes(m, "lock_objid"))
        return;
    m->rival_led =
        *ask(m->rival, "SELECT pgleader.begin_term('%s', 'rival', false, '0.5 s')", m->duty);
    m->rival_us = clock_boottime_us() + within(m, 50, 500);
    if (m->rival_led)
        return;
    m->rival_us = 0;
    PQreset(m->rival);
}

/* A worker that knows only the key which the duty moves to. */
static void rival_takes_next(struct model *m)
{
    if (m->lease || m->rival_us || !rival_takes(m, "next_lock_objid"))
        return;
    m->rival_led = false;
    m->rival_us = clock_boottime_us() + within(m, 50, 1500);
}

/* Reserved, called off or completed. */
static void change_key(struct model *m)
{
    if (m->lease)
        return;
    if (chance(m, 2))
        (void)ask(m->admin, "SELECT pgleader.register_duty('%s', lock_key => %d)", m->duty,
                  1 + (int)chance(m, 3));
    else
        (void)ask(m->admin, "SELECT pgleader.complete_key_change('%s')", m->duty);
}

void stop(struct model *m)
{
    m->stopped = true;
    lead_stop(m->lead);
}

static const struct {
    void (*happens)(struct model *);
    const char *name;
} misfortunes[] = {{freeze, "freeze"},
                   {terminate, "terminate"},
                   {cancel, "cancel"},
                   {strangers_notify, "strangers notify"},
                   {request_yield, "request yield"},
                   {yield, "yield"},
                   {lock_ledger, "lock ledger"},
                   {pause_us, "pause"},
                   {rival_leads, "rival"},
                   {rival_leads, "rival"},
                   {rival_takes_next, "rival takes the next key"},
                   {change_key, "change key"},
                   {change_key, "change key"},
                   {change_key, "change key"},
                   {terminate, "terminate"},
                   {stop, "stop"}};

void befall(struct model *m)
{
    size_t i = (size_t)chance(m, sizeof misfortunes / sizeof *misfortunes);
    say(m, "%s", misfortunes[i].name);
    misfortunes[i].happens(m);
}
