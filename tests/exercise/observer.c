/* SPDX-License-Identifier: PostgreSQL */
/* The exercise's independent observer: asks every 2 ms, on a session of its own, who owns the lock
 * or the lease, and notes each change, bracketed by the clock. It knows nothing of the kit.
 *
 * Usage: observer CONNINFO QUERY, of one row with one text, 0 for nobody. A line is "AFTER owner
 * BEFORE OLD NEW": OLD was still seen by a poll that began at BEFORE, and no longer by one that
 * ended at AFTER. A server that is away owns nothing. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <libpq-fe.h>

#include "tests/exercise/note.h"

struct seen {
    int notes;
    char owner[64];
    int64_t before_ns; /* when the last poll began */
};

static void pause_until(int64_t due_ns)
{
    const struct timespec due = {due_ns / 1000000000, due_ns % 1000000000};
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
}

static void take(struct seen *seen, const char *owner, int64_t before_ns)
{
    char words[192];
    int64_t after = now_ns();
    if (snprintf(words, sizeof words, "%s", owner) > 0 && !strcmp(words, seen->owner)) {
        seen->before_ns = before_ns;
        return;
    }
    (void)snprintf(words, sizeof words, "owner %lld %s %s", (long long)seen->before_ns, seen->owner,
                   owner);
    note_write(seen->notes, after, words);
    (void)snprintf(seen->owner, sizeof seen->owner, "%s", owner);
    seen->before_ns = before_ns;
}

/* Polls until the session ends. */
static void watch(PGconn *conn, const char *query, struct seen *seen)
{
    PQclear(PQprepare(conn, "owner", query, 0, NULL));
    for (int64_t due = now_ns();; due += 2000000) {
        int64_t before = now_ns();
        PGresult *result = PQexecPrepared(conn, "owner", 0, NULL, NULL, NULL, 0);
        bool ok = PQresultStatus(result) == PGRES_TUPLES_OK;
        if (ok)
            take(seen, PQgetvalue(result, 0, 0), before);
        PQclear(result);
        if (!ok)
            return;
        due = due < before - 2000000 ? before : due; /* it does not catch up on what it missed */
        pause_until(due + 2000000);
    }
}

int main(int argc, char **argv)
{
    struct seen seen = {.owner = "0", .before_ns = now_ns()};
    if (argc != 3)
        return 2;
    seen.notes = note_open("observed");
    for (;;) {
        PGconn *conn = PQconnectdb(argv[1]);
        if (PQstatus(conn) == CONNECTION_OK) {
            note_write(seen.notes, now_ns(), "watching");
            watch(conn, argv[2], &seen);
            take(&seen, "0", now_ns());
        }
        PQfinish(conn);
        pause_until(now_ns() + 5000000);
    }
}
