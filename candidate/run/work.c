/* SPDX-License-Identifier: PostgreSQL */
/* The life of a command. Its own process is reaped last: as long as it is a zombie, nobody else
 * can get its number, which the guard knows. */
#include "candidate/run/work.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "candidate/run/processes.h"
#include "candidate/run/terminal.h"

static const int64_t look_again_us = SECOND_US;

bool work_start(struct work *work, char *const *environment, int64_t generation, struct error *err)
{
    struct child child;
    if (!child_fork(work->options.argv, environment, &child, err))
        return false;
    *work = (struct work){.options = work->options, .guard = work->guard, .child = child};
    guard_tell(work->guard, (struct guard_note){child.pid, generation});
    (void)terminal_lend(child.pid);
    child_let_go(&child);
    return true;
}

bool work_runs(const struct work *work)
{
    return work->child.pid > 0;
}

void work_signal(struct work *work, int signo)
{
    if (work_runs(work))
        (void)kill(-work->child.pid, signo);
}

/* What we are to do with each child that is neither the guard nor the command itself. */
struct sweep {
    const struct work *work;
    int signo; /* 0: none */
    bool reaped, left;
};

static bool sweep_one(void *context, const struct process *process)
{
    struct sweep *sweep = context;
    const struct work *work = sweep->work;
    if (process->parent != getpid() || process->pid == work->guard->pid ||
        process->pid == work->child.pid)
        return true;
    if (waitpid(process->pid, NULL, WNOHANG) == process->pid) {
        sweep->reaped = true;
        return true;
    }
    sweep->left = true;
    if (sweep->signo && process->group != work->child.pid && kill(process->pid, sweep->signo) == 0)
        (void)kill(process->pid, SIGCONT);
    return true;
}

/* The children of one that was reaped are ours by then, and may have been passed: look again. */
static bool sweep_children(const struct work *work, int signo)
{
    struct sweep sweep = {.work = work, .signo = signo};
    do {
        sweep.reaped = sweep.left = false;
        processes_each(sweep_one, &sweep);
    } while (sweep.reaped);
    return sweep.left;
}

/* To the group, and to what left it and is our child by now. True if such children are left. */
static bool signal_all(struct work *work, int signo)
{
    work_signal(work, signo);
    work_signal(work, SIGCONT); /* a stopped process takes no SIGTERM */
    return sweep_children(work, signo);
}

static void set_deadline(struct work *work)
{
    if (!work->kill_us)
        work->kill_us = clock_boottime_us() + work->options.kill_after_us;
}

void work_stop(struct work *work, bool signalled)
{
    if (!work_runs(work))
        return;
    set_deadline(work);
    if (signalled)
        work_signal(work, SIGCONT);
    else
        (void)signal_all(work, SIGTERM);
}

/* In the background it can wait for the terminal, which is ours to lend once we are in front. */
static void stopped(struct work *work, int signo)
{
    if (work->kill_us) {
        work_signal(work, SIGCONT);
    } else if (signo == SIGTSTP) {
        work->options.remark(work->options.context,
                             "a leader cannot be suspended: it would keep the lock and do no work");
        work_signal(work, SIGCONT);
    } else if (signo == SIGTTIN || signo == SIGTTOU) {
        if (!work->wants_terminal)
            work->options.remark(work->options.context,
                                 "the command waits for the terminal: bring it to the foreground");
        work->wants_terminal = true;
    } else {
        work->options.remark(work->options.context,
                             "the command is stopped: it leads, and does no work");
    }
}

static void look_at_command(struct work *work)
{
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)work->child.pid, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid)
        stopped(work, info.si_status);
    info.si_pid = 0;
    if (waitid(P_PID, (id_t)work->child.pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        !info.si_pid)
        return;
    work->ended = true;
    work->why_not = child_why_not_executed(&work->child);
    set_deadline(work);
    (void)signal_all(work, SIGTERM);
}

/* While the command itself runs, no need to look through /proc. */
static void reap_orphans(const struct work *work)
{
    siginfo_t info = {0};
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid &&
           info.si_pid != work->child.pid && info.si_pid != work->guard->pid) {
        (void)waitpid(info.si_pid, NULL, 0);
        info.si_pid = 0;
    }
}

/* True if nothing was left. */
static bool finish(struct work *work)
{
    if (sweep_children(work, work->killing ? SIGKILL : 0))
        return false;
    pid_t pid = work->child.pid;
    guard_tell(work->guard, (struct guard_note){0});
    (void)waitpid(pid, &work->wait_status, 0);
    terminal_take_back(pid);
    work->child.pid = 0;
    work->kill_us = 0;
    return true;
}

bool work_look(struct work *work)
{
    if (work_runs(work) && !work->ended)
        look_at_command(work);
    if (work_runs(work) && work->ended)
        return finish(work);
    reap_orphans(work);
    return false;
}

void work_tick(struct work *work)
{
    int64_t now = clock_boottime_us();
    if (!work_runs(work))
        return;
    if (work->wants_terminal && terminal_lend(work->child.pid)) {
        work->wants_terminal = false;
        work_signal(work, SIGCONT);
    }
    if (work->kill_us && now >= work->kill_us) {
        work->killing = true;
        work->kill_us = now + look_again_us;
        (void)signal_all(work, SIGKILL);
    }
}

int work_wait_ms(const struct work *work)
{
    if (!work_runs(work) || !work->kill_us)
        return -1; /* the terminal is looked at as often as the candidate steps */
    int64_t left = work->kill_us - clock_boottime_us();
    return left <= 0 ? 0 : (int)(left / 1000) + 1;
}
