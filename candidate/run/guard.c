/* SPDX-License-Identifier: PostgreSQL */
/* Fork, wait, end, report. */
#include "candidate/run/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "candidate/report.h"
#include "candidate/run/processes.h"

enum { OWN_FD = STDERR_FILENO + 1 };

static const char name[] = "pgleader-guard";
static const int look_every_ms = 10;
static const int64_t report_within_us = 10 * SECOND_US;

/* The command's processes, as they are looked for after our parent's death. */
struct hunt {
    pid_t group;
    const char *marker;
    int signo; /* to send them; 0: none */
    bool alive;
};

/* A stopped process takes no SIGTERM before it is continued. */
static void send_signal(pid_t to, int signo)
{
    if (signo && kill(to, signo) == 0)
        (void)kill(to, SIGCONT);
}

static bool look(void *context, const struct process *process)
{
    struct hunt *hunt = context;
    bool inside = process->group == hunt->group;
    if (process->zombie || !(inside || process_has_environment(process->pid, hunt->marker)))
        return true;
    hunt->alive = true;
    if (!inside)
        send_signal(process->pid, hunt->signo);
    return true;
}

/* True if any of them was there. */
static bool signal_all(struct hunt *hunt, int signo)
{
    hunt->alive = false;
    hunt->signo = signo;
    send_signal(-hunt->group, signo);
    processes_each(look, hunt);
    return hunt->alive;
}

static void end_command(pid_t group, const struct guard_options *options)
{
    struct hunt hunt = {.group = group, .marker = options->marker};
    int64_t deadline = clock_boottime_us() + options->kill_after_us;
    bool alive = signal_all(&hunt, SIGTERM);
    while (alive) {
        (void)poll(NULL, 0, look_every_ms);
        alive = signal_all(&hunt, clock_boottime_us() < deadline ? 0 : SIGKILL);
    }
}

/* A pipeline of ours must not wait for the guard, nor a port or a session be kept by it. */
static void become_guard(int fd, const struct guard_options *options)
{
    char *last = options->argv[options->argc - 1];
    size_t room = (size_t)(last + strlen(last) - options->argv[0]);
    (void)dup2(fd, OWN_FD);
    closefrom(OWN_FD + 1);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)dup2(null, STDIN_FILENO);
    (void)dup2(null, STDOUT_FILENO);
    (void)close(null);
    (void)!chdir("/");
    (void)setpgid(0, 0); /* a terminal's Ctrl-C is for the others */
    (void)prctl(PR_SET_NAME, name);
    memset(options->argv[0], 0, room);
    memcpy(options->argv[0], name, room < sizeof name ? room : sizeof name);
}

/* Reads what runs now until the other end is closed. */
static struct guard_note wait_for_the_end(int fd, struct guard_note note)
{
    struct guard_note told;
    for (;;) {
        ssize_t size = read(fd, &told, sizeof told);
        if (size < 0 && errno == EINTR)
            continue;
        if (size != (ssize_t)sizeof told)
            return note;
        note = told;
    }
}

static void be_guard(int fd, const struct guard *guard)
{
    struct guard_options options = guard->options;
    struct error err = {0};
    options.duty = xstrdup(options.duty); /* they stand in argv */
    options.instance = xstrdup(options.instance);
    become_guard(fd, &options);
    struct guard_note note = wait_for_the_end(OWN_FD, guard->note);
    if (note.group <= 0)
        _exit(0);
    log_write(LOG_WARN, "pgleader-run is gone: the guard ends its command", "duty", options.duty,
              "instance", options.instance, NULL);
    end_command(note.group, &options);
    if (note.generation >= 0 && !report_stopped(options.conninfo, options.duty, note.generation,
                                                options.instance, report_within_us, &err))
        log_write(LOG_WARN, err.message, "duty", options.duty, "instance", options.instance, NULL);
    _exit(0);
}

bool guard_start(struct guard *guard, struct error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return error_set_errno(err, errno, "could not start the guard");
    pid_t pid = fork();
    if (pid < 0) {
        int why = errno;
        (void)close(ends[0]);
        (void)close(ends[1]);
        return error_set_errno(err, why, "could not start the guard");
    }
    if (pid == 0)
        be_guard(ends[0], guard);
    (void)close(ends[0]);
    guard->fd = ends[1];
    guard->pid = pid;
    guard->started_us = clock_boottime_us();
    return true;
}

void guard_tell(struct guard *guard, struct guard_note note)
{
    guard->note = note;
    if (guard->pid)
        (void)!write(guard->fd, &note, sizeof note);
}

bool guard_died(struct guard *guard)
{
    if (!guard->pid || waitpid(guard->pid, NULL, WNOHANG) != guard->pid)
        return false;
    (void)close(guard->fd);
    guard->pid = 0;
    return true;
}

void guard_end(struct guard *guard)
{
    if (!guard->pid)
        return;
    (void)close(guard->fd);
    (void)waitpid(guard->pid, NULL, 0);
    guard->pid = 0;
}
