/* SPDX-License-Identifier: PostgreSQL */
/* The duty of the failover exercise: claims the run, writes one effect per item in the transaction
 * that moves the cursor, makes one external call per item, and notes when it works. exercise_duty
 * has begun it. It takes no care of its own that another might be at the same work: that is what is
 * exercised. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "tests/exercise/note.h"

enum { FENCED = 3 };

static const char *duty, *instance, *generation;
static int notes;
static char term_words[128], stop_words[128], stubborn_path[256], delay_path[256];

static void pause_ms(long ms)
{
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&pause, NULL);
}

static void note(const char *kind, const char *more)
{
    char words[192];
    (void)snprintf(words, sizeof words, "%s %s %s %d %s", kind, instance, generation, (int)getpid(),
                   more);
    note_write(notes, now_ns(), words);
}

/* Stops at once, as a program without a handler would; a stubborn one works on until SIGKILL. */
static void on_term(int signo)
{
    (void)signo;
    note_write(notes, now_ns(), term_words);
    if (access(stubborn_path, F_OK) == 0)
        return;
    note_write(notes, now_ns(), stop_words);
    _exit(0);
}

static void stop(int status, const char *why)
{
    note("stop", why);
    exit(status);
}

static int open_target(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    note_path("target", address.sun_path, sizeof address.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        stop(1, "no target");
    return fd;
}

/* The fence has refused: a stubborn worker is at something else, and goes on until it is killed. */
static void refused(const char *by)
{
    note("refused", by);
    while (access(stubborn_path, F_OK) == 0) {
        pause_ms(4);
        note("beat", "");
    }
    stop(FENCED, by);
}

/* A write outside the database, with the generation as its token: the target refuses a stale one.
 */
static void call_target(int target, long item)
{
    char line[192], answer[16] = "";
    bool later = item > 0 && unlink(delay_path) == 0;
    int size = snprintf(line, sizeof line, "%s %ld %s %s\n", generation, item, instance,
                        later ? "later" : "now");
    if (write(target, line, (size_t)size) != size || read(target, answer, sizeof answer - 1) <= 0)
        stop(1, "target gone");
    if (strncmp(answer, "refused", 7) == 0)
        refused("target");
}

/* True if it worked; false: the connection is gone. A stale generation ends the work. */
static bool query(PGconn *conn, const char *text, char *ret, size_t size)
{
    PGresult *result = PQexec(conn, text);
    ExecStatusType status = PQresultStatus(result);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    bool stale = state && strcmp(state, "PL001") == 0;
    if (status == PGRES_TUPLES_OK && ret)
        (void)snprintf(ret, size, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    if (stale)
        refused("ledger");
    return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

/* A connection of the work's own, not the lock's; tried again and again, as a program would. */
static PGconn *open_database(void)
{
    for (;;) {
        PGconn *conn = PQconnectdb(getenv("EXERCISE_CONNINFO"));
        if (PQstatus(conn) == CONNECTION_OK)
            return conn;
        PQfinish(conn);
        note("beat", "");
        pause_ms(20);
    }
}

/* Reconciles first: where did the last leader come to? */
static bool claim(PGconn *conn, int target, long *ret_item)
{
    char text[256], row[128] = "";
    (void)snprintf(text, sizeof text,
                   "SELECT outcome || ' ' || coalesce(cursor, '0') FROM "
                   "pgleader.claim_run('%s', 'items', %s, '1 hour')",
                   duty, generation);
    if (!query(conn, text, row, sizeof row) || !strchr(row, ' '))
        return false;
    *ret_item = strtol(strchr(row, ' '), NULL, 10) + 1;
    note("claim", row);
    call_target(target, 0); /* from now on the target refuses older generations */
    return true;
}

/* One item: the cursor and the effect in one transaction, then the call. */
static bool work(PGconn *conn, int target, long item)
{
    char text[384], more[96];
    (void)snprintf(text, sizeof text,
                   "BEGIN; SELECT pgleader.advance_run('%s', 'items', %s, '%ld')", duty, generation,
                   item);
    if (!query(conn, text, NULL, 0))
        return false;
    int64_t fenced_ns = now_ns();
    pause_ms(2);
    (void)snprintf(text, sizeof text,
                   "INSERT INTO effect VALUES (%ld, %s, '%s', clock_timestamp()); COMMIT", item,
                   generation, instance);
    if (!query(conn, text, NULL, 0))
        return false;
    (void)snprintf(more, sizeof more, "%ld %lld", item, (long long)fenced_ns);
    note("unit", more);
    call_target(target, item);
    pause_ms(4);
    return true;
}

static const char *required(const char *name)
{
    const char *value = getenv(name);
    if (!value) {
        (void)fprintf(stderr, "exercise_worker: %s is not set\n", name);
        exit(2);
    }
    return value;
}

int main(void)
{
    char file[192];
    duty = required("PGLEADER_DUTY");
    instance = required("PGLEADER_INSTANCE");
    generation = required("PGLEADER_GENERATION");
    (void)snprintf(term_words, sizeof term_words, "term %s %s %d", instance, generation,
                   (int)getpid());
    (void)snprintf(stop_words, sizeof stop_words, "stop %s %s %d term", instance, generation,
                   (int)getpid());
    note_path("stubborn", stubborn_path, sizeof stubborn_path);
    (void)snprintf(file, sizeof file, "delay-%s", instance);
    note_path(file, delay_path, sizeof delay_path);
    notes = note_open("notes");
    (void)signal(SIGTERM, on_term);
    (void)signal(SIGPIPE, SIG_IGN);
    int target = open_target();
    for (;;) {
        PGconn *conn = open_database();
        long item = 0;
        bool going = claim(conn, target, &item);
        while (going)
            going = work(conn, target, item++);
        note("gone", "");
        PQfinish(conn);
        pause_ms(5);
    }
}
