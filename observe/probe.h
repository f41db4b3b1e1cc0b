/* SPDX-License-Identifier: PostgreSQL */
/* One section of a server's poll, kept between polls: its query, when it is due, how it went last.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "observe/snapshot.h"
#include "pg/batch.h"

/* How long a section may wait for a lock, and take. */
#define SECTION_LOCK_TIMEOUT_US (SECOND_US / 5)
#define SECTION_STATEMENT_TIMEOUT_US SECOND_US

enum probe_kind {
    PROBE_SERVER,
    PROBE_LOCKS,
    PROBE_IDENTITY,
    PROBE_CONTROL,
    PROBE_ROLES,
    PROBE_LEDGER_VERSION,
    PROBE_LEDGER,
    PROBE_FIXED, /* how many there is one of */
    PROBE_LEASE = PROBE_FIXED,
    PROBE_PROGRESS,
};

struct probe {
    enum probe_kind kind;
    char *name;        /* the section's name; owned */
    char *query;       /* owned */
    char *subject;     /* PROBE_LEASE: its table; PROBE_PROGRESS: its duty; owned */
    bool wanted;       /* PROBE_LEASE, PROBE_PROGRESS: some duty still names it */
    const char **rows; /* PROBE_LEASE: keys that duties name; owned, the strings are not */
    size_t n_rows;
    struct pg_prepared prepared;
    int64_t next_us;    /* CLOCK_MONOTONIC: not before */
    int failures;       /* running */
    int64_t blocked_us; /* what its last failure cost in waiting */
    bool due, planned;
    size_t position; /* in the plan */
};

struct probes {
    struct probe *items;
    struct section *status; /* beside items; name is the probe's */
    size_t n;
};

/* The seven that every server has. */
void probes_init(struct probes *probes);
void probes_done(struct probes *probes);

/* A new session: nothing is prepared in it, and what is read now and then is due. */
void probes_forget_session(struct probes *probes);

/* The lease probe with that query, added if there is none. */
struct probe *probes_lease(struct probes *probes, const char *table, const char *query);
struct probe *probes_progress(struct probes *probes, const char *duty, const char *query);

/* What it asks from now on; owns the query. */
void probe_ask(struct probe *probe, char *query);

/* Before the definitions are walked: nothing is wanted, no keys. */
void probes_clear_wanted(struct probes *probes);
void probe_add_row(struct probe *probe, const char *row);

/* Notes how a section went: err is NULL when it went well. A section that keeps failing is asked
 * less often. */
void probes_note(struct probes *probes, size_t index, const struct error *err, int64_t now_us);

/* None could be asked, for the reason in err: no section's own failure. */
void probes_note_lost(struct probes *probes, const struct error *err);
