/* SPDX-License-Identifier: PostgreSQL */
/* The option table, what follows from it, and --help. */
#include "candidate/run/arguments.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/text.h"
#include "candidate/run/ends.h"
#include "pg/conninfo.h"

/* As they stand on the command line. */
struct words {
    const char *lock, *wait, *log_level, *log_format;
};

enum { OPTIONS = 20 };

static void make_table(struct arguments *a, struct words *w, struct option_row table[OPTIONS])
{
    const struct option_row rows[] = {
        {"duty", "NAME", "The duty to lead, namespace/name.", NULL, OPTION_STRING, &a->duty},
        {"lock", "KEY", "Its advisory lock, 742118 or 12,-7.", "as the ledger has it",
         OPTION_STRING, &w->lock},
        {"lease", "TABLE[:ROW]", "Lead by a row of a lease table instead; the row is the duty's.",
         NULL, OPTION_STRING, &a->lease},
        {"lease-duration", "TIME", "How long a lease holds without being renewed.", "15s",
         OPTION_DURATION, &a->lease_us},
        {"name", "INSTANCE", "The name of this candidate.", "HOST-PID", OPTION_STRING, &a->name},
        {"timeout", "TIME", "Give up if it has not led within that time.", "never", OPTION_DURATION,
         &a->timeout_us},
        {"kill-after", "TIME", "From SIGTERM to SIGKILL when the command must stop.", "3s",
         OPTION_DURATION, &a->kill_after_us},
        {"wait", "HOW", "try: again and again; queue: wait in the lock's own queue, by the ledger.",
         "try", OPTION_STRING, &w->wait},
        {"settle", "TIME", "0: begin without waiting for a lost predecessor's work to stop.",
         "as its term says", OPTION_DURATION, &a->settle_us},
        {"recontend", NULL, "After a loss or a yield compete again instead of ending.", "off",
         OPTION_FLAG, &a->recontend},
        {"status-file", "FILE", "Where to write how it ended, as JSON.", NULL, OPTION_STRING,
         &a->status_file},
        {"health", "ADDRESS:PORT", "Serve /livez, /readyz and /leaderz there.", NULL, OPTION_STRING,
         &a->health},
        {"log.level", "LEVEL", "debug, info, warn or error.", "info", OPTION_STRING, &w->log_level},
        {"log.format", "FORMAT", "logfmt or json.", "logfmt", OPTION_STRING, &w->log_format},
        {"version", NULL, "Print the version and exit.", NULL, OPTION_FLAG, &a->version},
        {"help", NULL, "Print this and exit.", NULL, OPTION_FLAG, &a->help},
        {0},
    };
    _Static_assert(sizeof rows <= OPTIONS * sizeof *rows, "more options than room");
    memcpy(table, rows, sizeof rows);
}

static const char *default_instance(void)
{
    static char name[320];
    char host[256] = "localhost";
    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(name, sizeof name, "%s-%d", host, (int)getpid());
    return name;
}

static bool is_utf8(const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        size_t length = text_utf8_length(text, left);
        if (length == 0)
            return false;
        text += length;
        left -= length;
    }
    return true;
}

static bool refuse(struct error *err, const char *what, const char *hint)
{
    (void)error_set(err, ERROR_USAGE, "could not lead: %s", what);
    error_hint(err, "%s", hint);
    return false;
}

/* "schema.table:row" or "table:row" or "table". */
static bool read_lease(struct arguments *a, struct error *err)
{
    if (!a->lease)
        return true;
    size_t size = strcspn(a->lease, ":");
    char *table = a->lease_table = xasprintf("%.*s", (int)size, a->lease);
    const char *dot = strchr(table, '.');
    bool named = size > 0 && *table != '.' && (!dot || (dot[1] && !strchr(dot + 1, '.')));
    a->lease_row = a->lease[size] ? a->lease + size + 1 : NULL;
    if (named && (!a->lease_row || *a->lease_row) && is_utf8(a->lease))
        return true;
    (void)error_set(err, ERROR_USAGE,
                    "could not read --lease=%s: not a table, or a table and a row", a->lease);
    error_hint(err, "Write --lease=schema.table:row; without the row it is the duty's name.");
    return false;
}

static bool read_words(struct arguments *a, const struct words *w, struct error *err)
{
    if (!log_level_parse(w->log_level, &a->log_level))
        return error_set(err, ERROR_USAGE,
                         "could not read --log.level=%s: not debug, info, warn or error",
                         w->log_level);
    if (!log_format_parse(w->log_format, &a->log_format))
        return error_set(err, ERROR_USAGE, "could not read --log.format=%s: not logfmt or json",
                         w->log_format);
    if (w->lock && !lock_key_parse(w->lock, &a->key))
        return error_set(err, ERROR_USAGE,
                         "could not read --lock=%s: not a key such as 742118 or 12,-7", w->lock);
    a->has_key = w->lock != NULL;
    a->queue = strcmp(w->wait, "queue") == 0;
    if (!a->queue && strcmp(w->wait, "try") != 0)
        return error_set(err, ERROR_USAGE, "could not read --wait=%s: not try or queue", w->wait);
    return read_lease(a, err);
}

/* What may not be said together, and what must be said. */
static bool check(const struct arguments *a, int separator, int rest, struct error *err)
{
    if (!a->duty)
        return refuse(err, "--duty is missing", "Name the duty: --duty=jobs/reconcile.");
    if (separator >= a->argc - 1)
        return refuse(err, "-- and a command are missing",
                      "Write pgleader-run [OPTION]... [CONNINFO] -- COMMAND [ARGUMENT]...");
    if (rest < separator - 1)
        return refuse(err, "there is more than one CONNINFO",
                      "Quote a connection string that holds blanks.");
    if (a->has_key && a->lease)
        return refuse(err, "--lock and --lease exclude each other",
                      "A duty is led by a lock or by a lease.");
    if (a->queue && a->lease)
        return refuse(err, "--wait=queue is not for a lease", "A lease has no queue to wait in.");
    if (a->lease_us <= 0)
        return refuse(err, "--lease-duration is not positive", "Write --lease-duration=15s.");
    if (!*a->name || !is_utf8(a->name))
        return refuse(err, "--name is empty or not UTF-8",
                      "The ledger and every log show that name.");
    return true;
}

/* Where "--" stands; argc if nowhere. */
static int find_separator(int argc, char **argv)
{
    int at = 1;
    while (at < argc && strcmp(argv[at], "--") != 0)
        at++;
    return at;
}

bool arguments_read(int argc, char **argv, struct arguments *arguments, struct error *err)
{
    struct words words = {.wait = "try", .log_level = "info", .log_format = "logfmt"};
    struct option_row table[OPTIONS];
    int separator = find_separator(argc, argv), rest = 0;
    *arguments = (struct arguments){.name = default_instance(),
                                    .lease_us = 15 * SECOND_US,
                                    .kill_after_us = 3 * SECOND_US,
                                    .settle_us = -1,
                                    .log_level = LOG_INFO,
                                    .command = argv + separator + 1,
                                    .argv = argv,
                                    .argc = argc};
    make_table(arguments, &words, table);
    if (!option_parse(table, separator, argv, &rest, err))
        return false;
    if (arguments->version || arguments->help)
        return true;
    arguments->conninfo = xstrdup(rest < separator ? argv[rest] : "");
    if (rest < separator)
        conninfo_hide_password(argv[rest]);
    return read_words(arguments, &words, err) && check(arguments, separator, rest, err);
}

void arguments_done(struct arguments *arguments)
{
    free(STEAL(arguments->conninfo));
    free(STEAL(arguments->lease_table));
}

static const char usage[] =
    "Usage: pgleader-run --duty=NAME [OPTION]... [CONNINFO] -- COMMAND [ARGUMENT]...\n"
    "Runs COMMAND while this candidate leads the duty, and ends it before the lock is given back.\n"
    "CONNINFO is a connection string or URI; what it leaves out comes from PG* as for psql.\n\n";

static const char manual[] =
    "\n"
    "The command gets PGLEADER_DUTY, PGLEADER_INSTANCE, PGLEADER_KEY (of a lock) and, with the\n"
    "ledger, PGLEADER_GENERATION: the fencing token of everything that it writes. It has a "
    "process\n"
    "group of its own, and the terminal if there is one. SIGTERM, SIGINT and SIGQUIT go to the "
    "group\n"
    "and end the candidacy; SIGHUP, SIGUSR1 and SIGUSR2 go to the group, and end the candidacy "
    "while\n"
    "no command runs. When the command has ended, all that descends from it gets SIGTERM, and "
    "SIGKILL\n"
    "after --kill-after. --recontend competes again after a loss or a yield, not when the command\n"
    "ended by itself.\n";

static const char examples[] =
    "\n"
    "Examples:\n"
    "  pgleader-run --duty=jobs/reconcile service=main -- ./worker --once\n"
    "  pgleader-run --duty=jobs/mail --lock=742118 --recontend --health=:8080 host=db -- ./mailer\n"
    "  pgleader-run --duty=jobs/report --lease=public.leader_lease:report --timeout=30s -- "
    "./report\n";

static void print_ends(FILE *out)
{
    (void)fputs("\nExit status, which --status-file tells apart from the command's own:\n", out);
    for (enum end end = END_NONE + 1; end < ENDS; end++) {
        const struct end_row *row = &end_rows[end];
        char status[16] = "its own";
        if (row->status != STATUS_OF_ITS_OWN)
            (void)snprintf(status, sizeof status, "%d", row->status);
        (void)fprintf(out, "  %-8s%-15s%s\n", status, row->outcome, row->sentence);
    }
}

void arguments_print_help(FILE *out)
{
    struct arguments unused = {0};
    struct words words = {0};
    struct option_row table[OPTIONS];
    make_table(&unused, &words, table);
    (void)fputs(usage, out);
    option_print_help(table, out);
    (void)fputs(manual, out);
    print_ends(out);
    (void)fputs(examples, out);
}
