/* SPDX-License-Identifier: PostgreSQL */
/* Processes: fork, exec, groups, and the guard. */
#include "candidate/run/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "candidate/report.h"

static const int look_every_ms = 10;
static const int64_t report_within_us = 10 * SECOND_US;

/* A process of /proc that is of the group, and not only waiting to be reaped. */
static bool lives_in_group(const char *pid, pid_t group)
{
    char path[64], text[512], *end = NULL;
    (void)snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    CLEANUP(fclose_filep) FILE *file = fopen(path, "re");
    if (!file || !fgets(text, sizeof text, file))
        return false;
    const char *after_name = strrchr(text, ')'); /* the name may hold anything */
    if (!after_name || strlen(after_name) < 5 || after_name[2] == 'Z')
        return false;
    (void)strtol(after_name + 4, &end, 10); /* the parent */
    return strtol(end, NULL, 10) == group;
}

bool group_alive(pid_t group)
{
    DIR *proc = opendir("/proc");
    bool alive = false;
    if (!proc)
        return kill(-group, 0) == 0;
    for (const struct dirent *entry; !alive && (entry = readdir(proc));)
        alive =
            *entry->d_name >= '0' && *entry->d_name <= '9' && lives_in_group(entry->d_name, group);
    (void)closedir(proc);
    return alive;
}

/* SIGTERM, then SIGKILL for what is still there. */
static void end_group(pid_t group, int64_t kill_after_us)
{
    int64_t deadline = clock_boottime_us() + kill_after_us;
    (void)kill(-group, SIGTERM);
    while (group_alive(group) && clock_boottime_us() < deadline)
        (void)poll(NULL, 0, look_every_ms);
    (void)kill(-group, SIGKILL);
}

/* Reads what runs now until the other end is closed: by our death, however it came. */
static void guard_run(int fd, const struct guard_options *options)
{
    struct guard_note note = {0}, told;
    struct error err;
    (void)prctl(PR_SET_NAME, "pgleader-guard");
    for (;;) {
        ssize_t size = read(fd, &told, sizeof told);
        if (size < 0 && errno == EINTR)
            continue;
        if (size != (ssize_t)sizeof told)
            break;
        note = told;
    }
    if (note.group > 0) {
        end_group(note.group, options->kill_after_us);
        if (note.generation >= 0)
            (void)!report_stopped(options->conninfo, options->duty, note.generation,
                                  options->instance, report_within_us, &err);
    }
    _exit(0);
}

bool guard_start(const struct guard_options *options, int *ret_fd, pid_t *ret_pid,
                 struct error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return error_set_errno(err, errno, "could not start the guard");
    pid_t pid = fork();
    if (pid < 0)
        return error_set_errno(err, errno, "could not start the guard");
    if (pid == 0) {
        (void)close(ends[1]);
        (void)setpgid(0, 0); /* a terminal's Ctrl-C is for the others */
        guard_run(ends[0], options);
    }
    (void)close(ends[0]);
    *ret_fd = ends[1];
    *ret_pid = pid;
    return true;
}

bool guard_tell(int fd, struct guard_note note)
{
    return write(fd, &note, sizeof note) == (ssize_t)sizeof note;
}

static void exec_child(char *const *argv, char *const *environment, int report_fd)
{
    sigset_t none;
    (void)setpgid(0, 0);
    (void)sigemptyset(&none);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    for (; *environment; environment++)
        (void)putenv(*environment);
    (void)execvp(argv[0], argv);
    int why = errno;
    (void)!write(report_fd, &why, sizeof why);
    _exit(127);
}

/* The pipe is closed by a successful exec, or carries its error. */
bool child_start(char *const *argv, char *const *environment, pid_t *ret_pid, struct error *err)
{
    int ends[2], why = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return error_set_errno(err, errno, "could not start \"%s\"", argv[0]);
    pid_t pid = fork();
    if (pid == 0)
        exec_child(argv, environment, ends[1]);
    if (pid < 0)
        why = errno;
    (void)close(ends[1]);
    if (pid > 0) {
        (void)setpgid(pid, pid); /* both sides, whichever is first */
        if (read(ends[0], &why, sizeof why) != (ssize_t)sizeof why)
            why = 0;
    }
    (void)close(ends[0]);
    if (why)
        return error_set_errno(err, why, "could not start \"%s\"", argv[0]);
    *ret_pid = pid;
    return true;
}
