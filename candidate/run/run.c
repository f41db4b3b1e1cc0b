/* SPDX-License-Identifier: PostgreSQL */
/* One loop: signals, the candidate's session, the command, health checks. */
#include "candidate/run/run.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/notify.h"
#include "candidate/run/announce.h"
#include "candidate/run/environment.h"
#include "candidate/run/health.h"
#include "candidate/run/signals.h"
#include "candidate/run/work.h"

struct run {
    const struct arguments *arguments;
    struct status *status;
    struct lead *lead;
    struct work work;
    struct guard guard;
    struct announce announce;
    struct health *health;
    char marker[64]; /* of the command's environment */
    int signal_fd;
    int signo;        /* the first that ended the candidacy; 0: none */
    bool hurry;       /* a second one, while nothing runs: do not wait for the server */
    bool fork_failed; /* no process could be made for the command */
    bool connected;   /* it was, once */
    enum end lost;    /* END_LOST or END_YIELDED: the command runs, and we do not lead any more */
    int64_t deadline_us, guard_due_us, watchdog_us; /* CLOCK_BOOTTIME; 0: none */
};

static void end(struct run *run, enum end how, int exit_status)
{
    if (run->status->end != END_NONE)
        return;
    run->status->end = how;
    run->status->status = exit_status;
}

static void end_as_said(struct run *run, enum end how)
{
    end(run, how, end_rows[how].status);
}

static void told(void *context, const struct lead_rule *rule, const struct error *err,
                 const char *remark)
{
    struct run *run = context;
    if (rule && rule->from == LEAD_LEADER)
        run->status->rule = rule->id;
    announce_news(&run->announce, run->lead, rule, err, remark);
}

static void remark(void *context, const char *text)
{
    told(context, NULL, NULL, text);
}

/* A duty may move to another key while it is led. */
static void note_key(struct run *run)
{
    const struct lock_key *key = lead_key(run->lead);
    if (key && !run->arguments->lease && lead_state(run->lead) == LEAD_LEADER)
        lock_key_format(*key, run->status->key);
}

static void gained(void *context, int64_t generation)
{
    struct run *run = context;
    struct status *status = run->status;
    struct error err = {0};
    note_key(run);
    char *more[] = {
        xasprintf("PGLEADER_DUTY=%s", run->arguments->duty),
        xasprintf("PGLEADER_INSTANCE=%s", run->arguments->name),
        *status->key ? xasprintf("PGLEADER_KEY=%s", status->key) : NULL,
        generation >= 0 ? xasprintf("PGLEADER_GENERATION=%" PRId64, generation) : NULL,
        xstrdup(run->marker),
    };
    enum { MORE = sizeof more / sizeof *more };
    char **environment = environment_make(more, MORE);
    status->generation = generation;
    status->leading_us = clock_realtime_us();
    run->lost = END_NONE;
    run->fork_failed = !work_start(&run->work, environment, generation, &err);
    if (run->fork_failed)
        told(run, NULL, &err, NULL);
    free(environment);
    for (int i = 0; i < MORE; i++)
        free(more[i]);
}

/* Aborts the work: the lock is not given back before it has stopped. */
static void lost(void *context, int64_t generation, const struct lead_rule *rule)
{
    struct run *run = context;
    (void)generation;
    if (rule->event == EVENT_YIELD_REQUEST)
        run->lost = END_YIELDED;
    else if (rule->to == LEAD_UNCERTAIN)
        run->lost = END_LOST;
    work_stop(&run->work, run->signo != 0);
}

static void stop_candidacy(struct run *run, int signo)
{
    run->hurry = run->signo && !work_runs(&run->work);
    run->signo = run->signo ? run->signo : signo;
    if (!work_runs(&run->work))
        end(run, END_SIGNAL, STATUS_OF_A_SIGNAL + signo);
    lead_stop(run->lead);
}

/* What the command's end means for us. */
static void work_over(struct run *run)
{
    const struct work *work = &run->work;
    run->status->has_command = !work->why_not;
    run->status->command = work->wait_status;
    if (work->why_not) {
        (void)snprintf(run->status->reason, sizeof run->status->reason,
                       "could not execute \"%s\": %s", run->arguments->command[0],
                       strerror(work->why_not));
        end(run, END_NOT_STARTED,
            work->why_not == ENOENT ? STATUS_NOT_FOUND : end_rows[END_NOT_STARTED].status);
    } else if (run->lost == END_NONE) {
        end(run, END_COMMAND,
            WIFSIGNALED(work->wait_status) ? STATUS_OF_A_SIGNAL + WTERMSIG(work->wait_status)
                                           : WEXITSTATUS(work->wait_status));
    } else if (!run->arguments->recontend) {
        end_as_said(run, run->lost);
    } else if (run->signo) {
        end(run, END_SIGNAL, STATUS_OF_A_SIGNAL + run->signo);
    }
    lead_work_stopped(run->lead);
    if (run->status->end != END_NONE)
        lead_stop(run->lead);
}

static void start_guard_again(struct run *run)
{
    struct error err = {0};
    run->guard_due_us = 0;
    if (guard_start(&run->guard, &err))
        return;
    told(run, NULL, &err, NULL);
    run->guard_due_us = clock_boottime_us() + SECOND_US;
}

static void take_child(struct run *run)
{
    if (guard_died(&run->guard)) {
        remark(run, "the guard was killed; another one takes its place");
        run->guard_due_us = run->guard.started_us + SECOND_US;
    }
    if (work_look(&run->work))
        work_over(run);
}

static void take_signal(struct run *run, int signo)
{
    switch (signal_use(signo)) {
    case SIGNAL_OTHER:
        return;
    case SIGNAL_CHILD:
        take_child(run);
        return;
    case SIGNAL_STOP:
        work_signal(&run->work, signo);
        stop_candidacy(run, signo);
        return;
    case SIGNAL_FORWARD:
        if (work_runs(&run->work))
            work_signal(&run->work, signo);
        else
            stop_candidacy(run, signo);
        return;
    case SIGNAL_CONTINUE:
        work_signal(&run->work, signo);
        return;
    case SIGNAL_SUSPEND:
        remark(run, "a candidate cannot be suspended from the terminal; Ctrl-C ends it");
        return;
    }
}

static void take_signals(struct run *run)
{
    struct signalfd_siginfo info;
    while (read(run->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        take_signal(run, (int)info.ssi_signo);
}

static void take_deadlines(struct run *run)
{
    int64_t now = clock_boottime_us();
    work_tick(&run->work);
    if (run->guard_due_us && now >= run->guard_due_us)
        start_guard_again(run);
    if (run->watchdog_us && now >= run->watchdog_us) {
        notify_watchdog();
        run->watchdog_us = now + notify_watchdog_interval_us();
    }
    if (run->deadline_us && now >= run->deadline_us && !run->status->leading_us) {
        end_as_said(run, run->connected ? END_NOT_ACQUIRED : END_UNAVAILABLE);
        lead_stop(run->lead);
    }
}

/* What the candidate has come to. */
static void take_stock(struct run *run)
{
    enum lead_end ended = lead_ended(run->lead);
    run->connected = run->connected || lead_connected(run->lead);
    note_key(run);
    if (run->status->leading_us || run->status->end != END_NONE)
        run->deadline_us = 0;
    if (run->fork_failed) {
        run->fork_failed = false;
        end_as_said(run, END_NOT_STARTED);
        lead_stop(run->lead);
        lead_work_stopped(run->lead);
    }
    if (end_of_lead(ended) != END_NONE)
        end_as_said(run, end_of_lead(ended));
    if (ended != LEAD_GOES_ON)
        work_stop(&run->work, run->signo || run->lost);
}

static int sooner(int a_ms, int b_ms)
{
    return b_ms < 0 || (a_ms >= 0 && a_ms < b_ms) ? a_ms : b_ms;
}

static int until_ms(int64_t when_us)
{
    int64_t left = when_us - clock_boottime_us();
    if (when_us == 0)
        return -1;
    return left <= 0 ? 0 : (int)(left < SECOND_US ? left : SECOND_US) / 1000 + 1;
}

static void wait_for_news(struct run *run, struct pollfd fds[3], int lead_ms)
{
    int wait_ms = sooner(lead_ms, work_wait_ms(&run->work));
    wait_ms = sooner(wait_ms, health_wait_ms(run->health));
    wait_ms = sooner(wait_ms, until_ms(run->deadline_us));
    wait_ms = sooner(wait_ms, until_ms(run->guard_due_us));
    wait_ms = sooner(wait_ms, until_ms(run->watchdog_us));
    if (poll(fds, 3, wait_ms) < 0)
        fds[0].revents = fds[1].revents = fds[2].revents = 0;
}

/* Health is answered last: after a pause the candidate first finds out that it does not lead any
 * more. */
static void turn(struct run *run)
{
    struct pollfd fds[3] = {{.fd = run->signal_fd, .events = POLLIN},
                            {.fd = -1},
                            {.fd = health_fd(run->health), .events = POLLIN}};
    int lead_ms = 0;
    lead_wants(run->lead, &fds[1], &lead_ms);
    wait_for_news(run, fds, lead_ms);
    if (fds[0].revents)
        take_signals(run);
    lead_step(run->lead, fds[1].revents != 0);
    take_deadlines(run);
    take_stock(run);
    announce_state(&run->announce, run->lead, run->status);
    health_run(run->health);
}

static void loop(struct run *run)
{
    if (run->arguments->timeout_us > 0)
        run->deadline_us = clock_boottime_us() + run->arguments->timeout_us;
    if (notify_watchdog_interval_us() > 0)
        run->watchdog_us = clock_boottime_us();
    while (work_runs(&run->work) || (lead_ended(run->lead) == LEAD_GOES_ON && !run->hurry))
        turn(run);
}

static struct lead *make_lead(struct run *run, struct error *err)
{
    const struct arguments *arguments = run->arguments;
    struct lead_options options = {
        .conninfo = arguments->conninfo,
        .duty = arguments->duty,
        .instance = arguments->name,
        .key = arguments->has_key ? &arguments->key : NULL,
        .lease_table = arguments->lease_table,
        .lease_row = arguments->lease_row,
        .lease_us = arguments->lease_us,
        .timing = timing_default(),
        .queue = arguments->queue,
        .settle_us = arguments->settle_us,
        .context = run,
        .gained = gained,
        .lost = lost,
        .told = told,
    };
    options.timing.kill_after_us = arguments->kill_after_us;
    return lead_new(&options, err);
}

/* The guard is started before the health listener and any connection; a later one closes them. */
static bool start(struct run *run, struct error *err)
{
    const struct arguments *arguments = run->arguments;
    run->work.options = (struct work_options){.argv = arguments->command,
                                              .kill_after_us = arguments->kill_after_us,
                                              .context = run,
                                              .remark = remark};
    run->work.guard = &run->guard;
    run->guard.options = (struct guard_options){.conninfo = arguments->conninfo,
                                                .duty = arguments->duty,
                                                .instance = arguments->name,
                                                .marker = run->marker,
                                                .kill_after_us = arguments->kill_after_us,
                                                .argv = arguments->argv,
                                                .argc = arguments->argc};
    announce_init(&run->announce, arguments->duty, arguments->name);
    run->lead = make_lead(run, err);
    if (!run->lead || !guard_start(&run->guard, err))
        return false;
    if (!arguments->health)
        return true;
    run->health = health_start(arguments->health, &run->announce.health, err);
    if (run->health)
        announce_health(&run->announce, health_names(run->health));
    return run->health != NULL;
}

bool run_candidate(const struct arguments *arguments, struct status *status, struct error *err)
{
    struct run run = {.arguments = arguments, .status = status};
    (void)snprintf(run.marker, sizeof run.marker, "PGLEADER_RUN=%d-%" PRId64, (int)getpid(),
                   clock_realtime_us());
    run.signal_fd = signals_take();
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* grandchildren are ours to reap */
    bool started = start(&run, err);
    if (started)
        loop(&run);
    announce_end(&run.announce, status);
    lead_free(run.lead);
    guard_end(&run.guard);
    health_stop(run.health);
    announce_done(&run.announce);
    (void)close(run.signal_fd);
    return started;
}
