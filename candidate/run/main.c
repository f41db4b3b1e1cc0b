/* SPDX-License-Identifier: PostgreSQL */
/* pgleader-run: makes any program a candidate. It runs while we lead, and is ended before the lock
 * is given back. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/option.h"
#include "candidate/lead.h"
#include "candidate/run/child.h"
#include "pg/conninfo.h"

enum exit_code {
    EXIT_USAGE = 64,
    EXIT_UNAVAILABLE = 69,
    EXIT_NOT_ACQUIRED = 75,
    EXIT_LOST = 76,
    EXIT_NO_PERMISSION = 77,
};

struct arguments {
    const char *duty, *lock, *name, *wait, *status_file, *log_format;
    int64_t timeout_us, kill_after_us, settle_us;
    bool recontend, version, help;
};

struct run {
    const struct arguments *arguments;
    char **argv;
    struct lead *lead;
    int signal_fd, guard_fd;
    pid_t child;     /* 0: nothing runs */
    int64_t kill_us; /* CLOCK_BOOTTIME: when SIGKILL is due; 0: not */
    bool lost, signalled, was_connected;
    int status; /* to exit with; -1: not known yet */
    const char *reason;
    int64_t generation;
};

static const char *default_instance(void)
{
    static char name[320];
    char host[256] = "localhost";
    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(name, sizeof name, "%s-%d", host, (int)getpid());
    return name;
}

static void told(void *context, const struct lead_rule *rule, const struct error *err,
                 const char *remark)
{
    const struct run *run = context;
    const char *duty = run->arguments->duty;
    if (rule && rule->event != EVENT_TRY && rule->event != EVENT_REFUSED)
        log_write(err ? LOG_WARN : LOG_INFO, rule->sentence, "duty", duty, "rule", rule->id, "why",
                  err ? err->message : "", "hint", err ? err->hint : "", NULL);
    else if (!rule && err)
        log_write(LOG_WARN, err->message, "duty", duty, "sqlstate", err->sqlstate, "hint",
                  err->hint, NULL);
    else if (remark)
        log_write(LOG_WARN, remark, "duty", duty, NULL);
}

static void gained(void *context, int64_t generation)
{
    struct run *run = context;
    char key[LOCK_KEY_TEXT_SIZE];
    struct error err = {0};
    lock_key_format(*lead_key(run->lead), key);
    char *environment[] = {
        xasprintf("PGLEADER_DUTY=%s", run->arguments->duty),
        xasprintf("PGLEADER_INSTANCE=%s", run->arguments->name),
        xasprintf("PGLEADER_KEY=%s", key),
        generation >= 0 ? xasprintf("PGLEADER_GENERATION=%" PRId64, generation) : NULL,
        NULL,
    };
    run->generation = generation;
    run->lost = false;
    run->kill_us = 0;
    if (child_start(run->argv, environment, &run->child, &err)) {
        (void)guard_tell(run->guard_fd, (struct guard_note){run->child, generation});
    } else {
        log_write(LOG_ERROR, err.message, NULL);
        run->status = 127;
        run->reason = "could not start the command";
    }
    for (char **e = environment; *e; e++)
        free(*e);
}

/* Aborts the work: the lock is not given back before it has stopped. */
static void lost(void *context, int64_t generation, const struct lead_rule *rule)
{
    struct run *run = context;
    (void)generation;
    run->lost = rule->to == LEAD_UNCERTAIN || rule->event == EVENT_YIELD_REQUEST;
    if (run->child <= 0)
        return;
    if (!run->signalled) /* else it has that signal already */
        (void)kill(-run->child, SIGTERM);
    run->kill_us = clock_boottime_us() + run->arguments->kill_after_us;
}

static void child_ended(struct run *run, int wait_status)
{
    bool ours = WIFEXITED(wait_status) || WIFSIGNALED(wait_status);
    if (!ours)
        return;
    (void)kill(-run->child, SIGKILL); /* grandchildren do not outlive it */
    int status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
    if (run->lost) {
        run->reason = "leadership was lost while the command ran";
        run->status = run->arguments->recontend ? -1 : EXIT_LOST;
    } else {
        run->reason = "the command ended";
        run->status = status;
    }
    run->child = 0;
    run->kill_us = 0;
    (void)guard_tell(run->guard_fd, (struct guard_note){0});
    lead_work_stopped(run->lead);
    if (run->status >= 0)
        lead_stop(run->lead);
}

static void reap(struct run *run)
{
    int wait_status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0) {
        if (pid == run->child)
            child_ended(run, wait_status);
    }
}

/* Signals are forwarded to the command; before it runs they end the candidacy. */
static void take_signals(struct run *run)
{
    struct signalfd_siginfo info;
    while (read(run->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int signo = (int)info.ssi_signo;
        if (signo == SIGCHLD) {
            reap(run);
        } else if (run->child > 0 && (signo == SIGHUP || signo == SIGUSR1 || signo == SIGUSR2)) {
            (void)kill(-run->child, signo);
        } else {
            run->signalled = true;
            if (run->child > 0) {
                (void)kill(-run->child, signo);
            } else {
                run->status = 128 + signo;
                run->reason = "a signal came before it led";
            }
            lead_stop(run->lead);
        }
    }
}

static void take_end(struct run *run)
{
    enum lead_end end = lead_ended(run->lead);
    if (run->status >= 0)
        return;
    if (end == LEAD_NO_PERMISSION) {
        run->status = EXIT_NO_PERMISSION;
        run->reason = "no permission";
    } else if (end == LEAD_REFUSED) {
        run->status = EXIT_USAGE;
        run->reason = "this database cannot be led in";
    }
}

/* --timeout bounds the wait for the first leadership. */
static void check_timeout(struct run *run, int64_t started_us)
{
    int64_t timeout = run->arguments->timeout_us;
    if (timeout <= 0 || run->status >= 0 || run->generation != INT64_MIN ||
        clock_boottime_us() - started_us < timeout)
        return;
    run->status = run->was_connected ? EXIT_NOT_ACQUIRED : EXIT_UNAVAILABLE;
    run->reason =
        run->was_connected ? "not acquired in time" : "the database was not available in time";
    lead_stop(run->lead);
}

static void loop(struct run *run)
{
    int64_t started = clock_boottime_us();
    while (lead_ended(run->lead) == LEAD_GOES_ON || run->child > 0) {
        struct pollfd fds[2] = {{.fd = run->signal_fd, .events = POLLIN}};
        int timeout_ms = 0;
        lead_wants(run->lead, &fds[1], &timeout_ms);
        if (run->kill_us || run->arguments->timeout_us > 0)
            timeout_ms = timeout_ms > 20 ? 20 : timeout_ms;
        if (poll(fds, 2, timeout_ms) < 0 && errno != EINTR)
            break;
        if (fds[0].revents)
            take_signals(run);
        lead_step(run->lead, fds[1].revents != 0);
        run->was_connected = run->was_connected || lead_connected(run->lead);
        if (run->kill_us && clock_boottime_us() >= run->kill_us && run->child > 0)
            (void)kill(-run->child, SIGKILL);
        if (run->status == 127 && run->child == 0 && lead_state(run->lead) == LEAD_LEADER) {
            lead_stop(run->lead);
            lead_work_stopped(run->lead);
        }
        check_timeout(run, started);
    }
    take_end(run);
}

static void write_status(const struct run *run)
{
    const char *path = run->arguments->status_file;
    FILE *file = path ? fopen(path, "we") : NULL;
    if (!file)
        return;
    (void)fprintf(file, "{\"duty\": \"%s\", \"status\": %d, \"reason\": \"%s\"}\n",
                  run->arguments->duty, run->status, run->reason ? run->reason : "");
    (void)fclose(file);
}

static int block_signals(void)
{
    static const int taken[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD};
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        (void)sigaddset(&set, taken[i]);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

static int usage(const struct error *err)
{
    log_write(LOG_ERROR, err->message, "hint", err->hint, NULL);
    return EXIT_USAGE;
}

static int run_candidate(const struct arguments *arguments, const char *conninfo, char **argv)
{
    struct error err = {0};
    struct lock_key key;
    struct run run = {.arguments = arguments, .argv = argv, .status = -1, .generation = INT64_MIN};
    pid_t guard = 0;
    if (arguments->lock && !lock_key_parse(arguments->lock, &key)) {
        (void)error_set(&err, ERROR_USAGE,
                        "could not read --lock=%s: not a key such as 742118 or 12,-7",
                        arguments->lock);
        return usage(&err);
    }
    struct lead_options options = {
        .conninfo = conninfo,
        .duty = arguments->duty,
        .instance = arguments->name,
        .key = arguments->lock ? &key : NULL,
        .timing = timing_default(),
        .settle_us = arguments->settle_us,
        .context = &run,
        .gained = gained,
        .lost = lost,
        .told = told,
        .queue = strcmp(arguments->wait, "queue") == 0,
    };
    options.timing.kill_after_us = arguments->kill_after_us;
    run.signal_fd = block_signals();
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* grandchildren are ours to reap */
    const struct guard_options guard_options = {.conninfo = conninfo,
                                                .duty = arguments->duty,
                                                .instance = arguments->name,
                                                .kill_after_us = arguments->kill_after_us};
    if (!guard_start(&guard_options, &run.guard_fd, &guard, &err))
        return usage(&err);
    run.lead = lead_new(&options, &err);
    if (!run.lead)
        return usage(&err);
    loop(&run);
    lead_free(run.lead);
    (void)close(run.guard_fd);
    (void)waitpid(guard, NULL, 0);
    write_status(&run);
    if (run.reason)
        log_write(LOG_INFO, run.reason, "duty", arguments->duty, NULL);
    return run.status < 0 ? EXIT_SUCCESS : run.status;
}

/* Where "--" stands; argc if nowhere. */
static int find_separator(int argc, char **argv)
{
    int at = 1;
    while (at < argc && strcmp(argv[at], "--") != 0)
        at++;
    return at;
}

int main(int argc, char **argv)
{
    struct arguments arguments = {.name = default_instance(),
                                  .log_format = "logfmt",
                                  .wait = "try",
                                  .kill_after_us = 3 * SECOND_US,
                                  .settle_us = -1};
    const struct option_row table[] = {
        {"duty", "NAME", "The duty to lead, namespace/name.", NULL, OPTION_STRING, &arguments.duty},
        {"lock", "KEY", "Its lock, 742118 or 12,-7.", "as the ledger has it", OPTION_STRING,
         &arguments.lock},
        {"name", "INSTANCE", "The name of this candidate.", "HOST-PID", OPTION_STRING,
         &arguments.name},
        {"timeout", "TIME", "Give up if it does not lead within that time.", "never",
         OPTION_DURATION, &arguments.timeout_us},
        {"kill-after", "TIME", "From SIGTERM to SIGKILL when the command must stop.", "3s",
         OPTION_DURATION, &arguments.kill_after_us},
        {"settle", "TIME", "0: begin without waiting for a lost predecessor's work to stop.",
         "as its term says", OPTION_DURATION, &arguments.settle_us},
        {"wait", "HOW",
         "try: try again and again; queue: wait in the lock's own queue, through the ledger.",
         "try", OPTION_STRING, &arguments.wait},
        {"recontend", NULL, "After a loss compete again instead of ending with 76.", "off",
         OPTION_FLAG, &arguments.recontend},
        {"status-file", "FILE", "Where to write how it ended, as JSON.", NULL, OPTION_STRING,
         &arguments.status_file},
        {"log.format", "FORMAT", "logfmt or json.", "logfmt", OPTION_STRING, &arguments.log_format},
        {"version", NULL, "Print the version and exit.", NULL, OPTION_FLAG, &arguments.version},
        {"help", NULL, "Print this and exit.", NULL, OPTION_FLAG, &arguments.help},
        {0},
    };
    struct error err = {0};
    enum log_format format = LOG_FORMAT_LOGFMT;
    int separator = find_separator(argc, argv), rest = 0;
    if (!option_parse(table, separator, argv, &rest, &err))
        return usage(&err);
    if (arguments.version) {
        (void)puts("pgleader-run " PGLEADER_VERSION);
        return EXIT_SUCCESS;
    }
    if (arguments.help) {
        (void)puts(
            "Usage: pgleader-run --duty=NAME [OPTION]... [CONNINFO] -- COMMAND [ARGUMENT]...\n"
            "Runs COMMAND while this candidate leads the duty.\n");
        option_print_help(table, stdout);
        (void)puts("\nExit status: the command's own (128+n for a signal), 64 usage, 69 database "
                   "not available within\n"
                   "--timeout, 75 not acquired within --timeout, 76 leadership lost while the "
                   "command ran, 77 no\n"
                   "permission.");
        return EXIT_SUCCESS;
    }
    if (!log_format_parse(arguments.log_format, &format))
        (void)error_set(&err, ERROR_USAGE, "could not read --log.format=%s: not logfmt or json",
                        arguments.log_format);
    else if (strcmp(arguments.wait, "try") != 0 && strcmp(arguments.wait, "queue") != 0)
        (void)error_set(&err, ERROR_USAGE, "could not read --wait=%s: not try or queue",
                        arguments.wait);
    else if (!arguments.duty)
        (void)error_set(&err, ERROR_USAGE, "could not lead: --duty is missing");
    else if (separator >= argc - 1)
        (void)error_set(&err, ERROR_USAGE, "could not lead: -- and a command are missing");
    else if (rest < separator - 1)
        (void)error_set(&err, ERROR_USAGE,
                        "could not read the command line: more than one CONNINFO; quote it");
    if (err.kind != ERROR_NONE)
        return usage(&err);
    log_configure(LOG_INFO, format);
    char *conninfo = xstrdup(rest < separator ? argv[rest] : "");
    if (rest < separator)
        conninfo_hide_password(argv[rest]);
    int status = run_candidate(&arguments, conninfo, argv + separator + 1);
    free(conninfo);
    return status;
}
