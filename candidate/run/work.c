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

void work_signal(const struct work *work, int signo)
{
    if (work_runs(work))
        (void)kill(-work->child.pid, signo);
}

/* A stopped process takes no SIGTERM before it is continued. */
static void send_and_continue(pid_t to, int signo)
{
    if (kill(to, signo) == 0)
        (void)kill(to, SIGCONT);
}

/* Through the children that are neither the guard nor the command itself. */
struct sweep {
    const struct work *work;
    int signo; /* for those that left the process group; 0: none */
    bool reaped, left;
};

static bool sweep_one(void *context, const struct process *process)
{
    struct sweep *sweep = context;
    const struct work *work = sweep->work;
    if (process->pid == work->guard->pid || process->pid == work->child.pid)
        return true;
    if (waitpid(process->pid, NULL, WNOHANG) == process->pid) {
        sweep->reaped = true;
        return true;
    }
    sweep->left = true;
    if (sweep->signo && process->group != work->child.pid)
        send_and_continue(process->pid, sweep->signo);
    return true;
}

/* True if any are left. The children of one that was reaped are ours by then, and may have been
 * passed: it looks again. */
static bool sweep_children(const struct work *work, int signo)
{
    struct sweep sweep = {.work = work, .signo = signo};
    do {
        sweep.reaped = sweep.left = false;
        processes_each_child(sweep_one, &sweep);
    } while (sweep.reaped);
    return sweep.left;
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
    send_and_continue(-work->child.pid, signalled ? 0 : SIGTERM);
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

/* True if it has ended. What it leaves behind is told to stop, once each: its group was told if the
 * work had to stop; what left the group is ours only now. */
static bool look_at_command(struct work *work)
{
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)work->child.pid, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid)
        stopped(work, info.si_status);
    info.si_pid = 0;
    if (waitid(P_PID, (id_t)work->child.pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        !info.si_pid)
        return false;
    work->ended = true;
    work->why_not = child_why_not_executed(&work->child);
    if (!work->kill_us)
        send_and_continue(-work->child.pid, SIGTERM);
    set_deadline(work);
    return true;
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

/* The kernel's list may pass over a child while others come and go: proc(5) promises it whole only
 * while none of them ends, so that one empty look is not believed. */
static bool any_left(const struct work *work, int signo)
{
    bool left = false;
    for (int look = 0; look < 2 && !left; look++)
        left = sweep_children(work, signo);
    return left;
}

/* True if nothing is left. */
static bool finish(struct work *work, int signo)
{
    pid_t pid = work->child.pid;
    if (any_left(work, signo))
        return false;
    guard_tell(work->guard, (struct guard_note){0});
    (void)waitpid(pid, &work->wait_status, 0);
    terminal_take_back(pid);
    work->child.pid = 0;
    work->kill_us = 0;
    return true;
}

bool work_look(struct work *work)
{
    bool ends_now = work_runs(work) && !work->ended && look_at_command(work);
    if (work_runs(work) && work->ended)
        return finish(work, work->killing ? SIGKILL : ends_now ? SIGTERM : 0);
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
        work_signal(work, SIGKILL);
        (void)sweep_children(work, SIGKILL);
    }
}

int work_wait_ms(const struct work *work)
{
    if (!work_runs(work) || !work->kill_us)
        return -1; /* the terminal is looked at as often as the candidate steps */
    int64_t left = work->kill_us - clock_boottime_us();
    return left <= 0 ? 0 : (int)(left / 1000) + 1;
}
