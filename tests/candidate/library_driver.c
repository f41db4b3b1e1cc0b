/* SPDX-License-Identifier: PostgreSQL */
/* A program with libpgleader that does as it is told on standard input and says on standard output
 * what happens, each with CLOCK_REALTIME's microseconds first:
 *
 *     library_driver CONNINFO DUTY INSTANCE [NAME=VALUE]...
 *
 * gained G, lost G RULE, overdue G, log RULE: MESSAGE, abort (the descriptor became readable),
 * query SQLSTATE (one ended), and the answers to commands. */
#include <errno.h>
#include <inttypes.h>
#include <pgleader.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <libpq-fe.h>

struct driver {
    struct pgleader *candidate;
    const char *conninfo, *duty;
    PGconn *conn;
    pthread_t query;
    char query_text[1024];
    bool querying, loud;
    pthread_t watcher;
    int watcher_end[2];
};

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
    struct timespec now;
    va_list args;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    flockfile(stdout);
    (void)printf("%" PRId64 " ", (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    (void)putchar('\n');
    (void)fflush(stdout);
    funlockfile(stdout);
}

static void gained(void *context, int64_t generation)
{
    const struct driver *d = context;
    bool may = pgleader_may_work(d->candidate, generation);
    struct pollfd fd = {.fd = pgleader_abort_fd(d->candidate), .events = POLLIN};
    say("gained %" PRId64 " may %d abort %d", generation, may, poll(&fd, 1, 0));
}

static void lost(void *context, int64_t generation, const char *rule)
{
    const struct driver *d = context;
    bool may = pgleader_may_work(d->candidate, generation);
    struct pollfd fd = {.fd = pgleader_abort_fd(d->candidate), .events = POLLIN};
    say("lost %" PRId64 " %s may %d abort %d wait %" PRId64, generation, rule, may, poll(&fd, 1, 0),
        pgleader_wait(d->candidate, 1000));
}

static void overdue(void *context, int64_t generation)
{
    (void)context;
    say("overdue %" PRId64, generation);
}

static void take_log(void *context, enum pgleader_level level, const char *rule,
                     const char *message, const char *hint)
{
    (void)context;
    say("log %s %s: %s (%s)", level == PGLEADER_WARNING ? "warning" : "info", rule ? rule : "-",
        message, hint ? hint : "");
}

/* Says once a term that the descriptor became readable. */
static void *watch(void *argument)
{
    struct driver *d = argument;
    bool seen = true; /* readable before the first term */
    for (;;) {
        struct pollfd fds[] = {{.fd = pgleader_abort_fd(d->candidate), .events = POLLIN},
                               {.fd = d->watcher_end[0], .events = POLLIN}};
        if (seen)
            fds[0].fd = -1;
        (void)poll(fds, 2, seen ? 5 : -1);
        if (fds[1].revents)
            return NULL;
        struct pollfd again = {.fd = pgleader_abort_fd(d->candidate), .events = POLLIN};
        bool readable = poll(&again, 1, 0) > 0;
        if (readable && !seen)
            say("abort");
        seen = readable;
    }
}

static void *run_query(void *argument)
{
    struct driver *d = argument;
    PGresult *result = PQexec(d->conn, d->query_text);
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    say("query %s",
        sqlstate ? sqlstate
        : PQresultStatus(result) == PGRES_TUPLES_OK || PQresultStatus(result) == PGRES_COMMAND_OK
            ? "ok"
            : "failed");
    PQclear(result);
    return NULL;
}

static void end_query(struct driver *d)
{
    if (d->querying)
        (void)pthread_join(d->query, NULL);
    d->querying = false;
}

static void answer(const char *what, bool ok, const struct pgleader_error *error)
{
    if (ok)
        say("%s ok", what);
    else
        say("%s failed %d %s %s (%s)", what, (int)error->code, error->sqlstate, error->message,
            error->hint);
}

static void claim(struct driver *d, const char *run_key, int64_t generation)
{
    struct pgleader_error error = {0};
    struct pgleader_claim claim;
    if (!pgleader_claim_run(d->conn, d->duty, run_key, generation, 0, &claim, &error)) {
        answer("claim", false, &error);
        return;
    }
    say("claim %d %s %s %" PRId64, (int)claim.outcome, claim.cursor ? claim.cursor : "-",
        claim.position ? claim.position : "-", claim.previous_generation);
    pgleader_claim_clear(&claim);
}

static void say_mask(void)
{
    sigset_t mask;
    int n = 0;
    (void)pthread_sigmask(SIG_BLOCK, NULL, &mask);
    for (int signo = 1; signo < 32; signo++)
        n += sigismember(&mask, signo);
    say("mask %d", n);
}

/* What nobody should do: somebody reads the descriptor. */
static void drain(const struct driver *d)
{
    char eight[8];
    struct pollfd fd = {.fd = pgleader_abort_fd(d->candidate), .events = POLLIN};
    ssize_t taken = read(fd.fd, eight, sizeof eight);
    say("drain %zd %d", taken, poll(&fd, 1, 5000));
}

/* In a forked child there is no candidate. */
static void fork_and_ask(struct driver *d, int64_t generation)
{
    struct pgleader_error error = {0};
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        bool none = !pgleader_may_work(d->candidate, generation) &&
                    pgleader_generation(d->candidate) == 0 &&
                    pgleader_wait(d->candidate, -1) == 0 && !pgleader_stop(d->candidate, -1) &&
                    !pgleader_start(d->candidate, &error) && error.code == PGLEADER_ERROR_USAGE;
        pgleader_work_stopped(d->candidate, generation);
        pgleader_yield(d->candidate, generation);
        pgleader_free(d->candidate);
        (void)execl(none ? "/bin/true" : "/bin/false", "true",
                    NULL); /* an end without leak checks */
        _exit(2);
    }
    (void)waitpid(child, &status, 0);
    say("fork %d", status);
}

static void work_command(struct driver *d, const char *word, int64_t number, const char *rest)
{
    struct pgleader_error error = {0};
    if (strcmp(word, "connect") == 0) {
        d->conn = PQconnectdb(*rest ? rest : d->conninfo);
        say("connect %d", PQbackendPID(d->conn));
    } else if (strcmp(word, "register") == 0) {
        answer("register", pgleader_cancel_on_loss(d->candidate, number, d->conn, &error), &error);
    } else if (strcmp(word, "unregister") == 0) {
        pgleader_no_cancel(d->candidate, d->conn);
        say("unregister ok");
    } else if (strcmp(word, "query") == 0) {
        (void)snprintf(d->query_text, sizeof d->query_text, "%s", rest);
        d->querying = pthread_create(&d->query, NULL, run_query, d) == 0;
    } else if (strcmp(word, "joined") == 0) {
        end_query(d);
        say("joined");
    } else if (strcmp(word, "send") == 0) {
        say("send %d", PQsendQuery(d->conn, rest));
    } else if (strcmp(word, "claim") == 0) {
        claim(d, rest, number);
    } else if (strcmp(word, "advance") == 0) {
        answer("advance",
               pgleader_advance_run(d->conn, d->duty, "r", number, rest, NULL, "9", &error),
               &error);
    } else if (strcmp(word, "finish") == 0) {
        answer("finish",
               pgleader_finish_run(d->conn, d->duty, "r", number, PGLEADER_COMPLETE, rest, &error),
               &error);
    } else if (strcmp(word, "fence") == 0) {
        answer("fence", pgleader_fence(d->conn, *rest ? rest : d->duty, number, &error), &error);
    }
}

static bool command(struct driver *d, const char *word, int64_t number, const char *rest)
{
    struct pgleader_error error = {0};
    if (strcmp(word, "start") == 0)
        answer("start", pgleader_start(d->candidate, &error), &error);
    else if (strcmp(word, "state") == 0)
        say("state %s %" PRId64, pgleader_state_name(pgleader_state(d->candidate)),
            pgleader_generation(d->candidate));
    else if (strcmp(word, "may") == 0)
        say("may %d", pgleader_may_work(d->candidate, number));
    else if (strcmp(word, "wait") == 0)
        say("wait %" PRId64, pgleader_wait(d->candidate, (int)number));
    else if (strcmp(word, "yield") == 0)
        pgleader_yield(d->candidate, number);
    else if (strcmp(word, "stopped") == 0)
        pgleader_work_stopped(d->candidate, number);
    else if (strcmp(word, "stop") == 0)
        say("stop %d", pgleader_stop(d->candidate, (int)number));
    else if (strcmp(word, "ended") == 0)
        say("ended %d %s", (int)pgleader_ended(d->candidate, &error), error.message);
    else if (strcmp(word, "fork") == 0)
        fork_and_ask(d, number);
    else if (strcmp(word, "mask") == 0)
        say_mask();
    else if (strcmp(word, "drain") == 0)
        drain(d);
    else if (strcmp(word, "free") == 0)
        return false;
    else
        work_command(d, word, number, rest);
    return true;
}

/* NAME=VALUE: an option by its name. */
static void option(struct pgleader_options *options, const char *text, bool *ret_loud)
{
    const char *value = strchr(text, '=') + 1;
    size_t size = (size_t)(value - text) - 1;
    const struct {
        const char *name;
        const char **string;
        int64_t *number;
    } rows[] = {
        {"lock", &options->lock, NULL},
        {"lease_table", &options->lease_table, NULL},
        {"lease_row", &options->lease_row, NULL},
        {"lease_us", NULL, &options->lease_us},
        {"check_every_us", NULL, &options->check_every_us},
        {"answer_within_us", NULL, &options->answer_within_us},
        {"kill_after_us", NULL, &options->kill_after_us},
        {"server_holds_us", NULL, &options->server_holds_us},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strncmp(rows[i].name, text, size) != 0 || rows[i].name[size])
            continue;
        if (rows[i].string)
            *rows[i].string = value;
        else
            *rows[i].number = strtoll(value, NULL, 10);
    }
    if (strncmp(text, "flags=", 6) == 0)
        options->flags = strtoull(value, NULL, 10);
    if (strncmp(text, "log=", 4) == 0)
        *ret_loud = true;
}

static void take_commands(struct driver *d)
{
    char *line = NULL;
    size_t size = 0;
    bool more = true;
    while (more && getline(&line, &size, stdin) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *rest = line + strcspn(line, " ");
        if (*rest)
            *rest++ = '\0';
        int64_t number = strtoll(rest, &rest, 10);
        rest += *rest == ' ';
        more = command(d, line, number, rest);
    }
    free(line);
}

int main(int argc, char **argv)
{
    struct driver d = {.conninfo = argv[1], .duty = argv[2]};
    struct pgleader_options options;
    struct pgleader_error error = {0};
    if (argc < 4)
        return 2;
    pgleader_options_init(&options);
    options.conninfo = argv[1];
    options.duty = argv[2];
    options.instance = argv[3];
    options.context = &d;
    options.gained = gained;
    options.lost = lost;
    options.overdue = overdue;
    for (int i = 4; i < argc; i++)
        option(&options, argv[i], &d.loud);
    if (d.loud)
        options.log = take_log;
    d.candidate = pgleader_new(&options, &error);
    answer("new", d.candidate != NULL, &error);
    if (!d.candidate)
        return 1;
    if (pipe(d.watcher_end) != 0 || pthread_create(&d.watcher, NULL, watch, &d) != 0)
        return 1;
    take_commands(&d);
    (void)!write(d.watcher_end[1], "", 1);
    (void)pthread_join(d.watcher, NULL);
    pgleader_free(d.candidate);
    say("freed");
    end_query(&d);
    PQfinish(d.conn);
    return 0;
}
