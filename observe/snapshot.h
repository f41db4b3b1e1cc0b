/* SPDX-License-Identifier: PostgreSQL */
/* The picture of one server at one poll: plain data in one arena, immutable once published. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "observe/config.h"
#include "observe/rules.h"
#include "pg/key.h"

enum duty_source { SOURCE_LEDGER, SOURCE_CONFIG, SOURCE_ADAPTER, SOURCE_DISCOVERY };

/* For display. The numbers are the metric's values. */
enum duty_state {
    DUTY_UNKNOWN = 0,
    DUTY_LED = 1,
    DUTY_VACANT = 2,
    DUTY_STALLED = 3,
    DUTY_CONTESTED = 4,
    DUTY_YIELDING = 5,
};

/* Who leads. For a lock the identity is (pid, backend_start), for a lease (holder, acquired_us). */
struct owner {
    int32_t pid;              /* 0: a lease's holder, or the lock of a prepared transaction */
    int64_t backend_start_us; /* TIME_UNKNOWN without pg_read_all_stats */
    int64_t acquired_us;      /* lease: as its row says; TIME_UNKNOWN where it does not */
    const char *holder;       /* application_name, or the lease's holder; "" where there is none */
    const char *application_name;
    const char *usename;     /* NULL: not known */
    const char *client_addr; /* "local" for a socket; NULL: not known */
};

/* A term of the ledger. generation is -1 where there is none. */
struct term {
    int64_t generation;
    int32_t pid;
    int64_t backend_start_us;
    int64_t acquired_us;
    int64_t last_refused_us;
    int64_t ended_us; /* TIME_UNKNOWN: open */
    const char *end_reason;
    const char *instance;
    bool listens;
};

/* A run of the ledger, or progress read from the application's own table (then key is NULL). */
struct run {
    bool present;
    const char *key;
    const char *status;
    const char *cursor; /* as text; NULL where there is none */
    double position;    /* the cursor as a number; NAN where it is none */
    double target;      /* NAN where there is none */
    int64_t started_us;
    int64_t advanced_us; /* moves only when the cursor changes */
    int64_t deadline_us;
    int64_t finished_us; /* TIME_UNKNOWN while it runs; a partial run is to be resumed */
};

enum yield_outcome {
    YIELD_MOVED,
    YIELD_RETURNED,
    YIELD_VACANT,
    YIELD_NOT_CONFIRMED,
    YIELD_UNKNOWN,
    YIELD_REFUSED,
    YIELD_OUTCOMES,
};
extern const char *const yield_outcome_names[YIELD_OUTCOMES];

/* A session that waits for a duty's lock. */
struct waiter {
    int32_t pid;
    int64_t backend_start_us; /* TIME_UNKNOWN without pg_read_all_stats */
    int64_t since_us;         /* TIME_UNKNOWN before PostgreSQL 14 */
    const char *name;         /* application_name, "" where there is none */
    const char *client_addr;  /* NULL: a socket, or not known */
};

/* A held advisory lock of another database, or of an extension. */
struct foreign_lock {
    struct lock_key key;
    int64_t database; /* its oid */
    int32_t pid;
    const char *name;
};

/* How many of each are kept: the counts beside them know of all. */
enum { QUEUE_SHOWN = 16, FOREIGN_SHOWN = 100 };

/* What ended, and how it went on. Most duties have none of it: then it is shared. Bounds are the
 * server's clock. */
struct past {
    int64_t lost_lower_us, lost_upper_us; /* the last loss, as bounds */
    int64_t lost_seen_us;                 /* the clock before the reading that saw that loss */
    int64_t lost_until_us;   /* when the lease that was lost was last seen to run out */
    int64_t lost_generation; /* of the owner's newest term who was lost; -1: none read, or a restart
                                lies between */
    int64_t last_term_us;    /* as recorded, or at least so long; -1: none ended yet, or unknown */
    int64_t takeover_at_us;  /* TIME_UNKNOWN: none seen or recorded */
    int64_t takeover_lower_us, takeover_upper_us; /* its latency; -1: no such bound is known */
    uint64_t transitions[RULE_COUNT];
};

/* What history knows of a duty: carried from one snapshot to the next. Bounds are the server's
 * clock. */
struct trail {
    const struct owner *last; /* the present owner, or the one before the vacancy; never NULL */
    const struct past *past;  /* never NULL; duty_past to change it */
    int64_t seen_lower_us; /* the clock before the last reading that told who leads; TIME_UNKNOWN:
                              none did */
    int64_t acquired_lower_us, acquired_upper_us; /* the present owner's acquisition, as bounds */
    int64_t generation;      /* of the present owner's newest term, begun or ended; -1: none read */
    int64_t server_start_us; /* the server's start at the last reading */
    int64_t stranger_generation; /* of the term that `strangers` counts */
    const char *cursor; /* progress of an application's table: last text and when it changed */
    int64_t cursor_changed_us;
    int64_t
        lease_span_us; /* the longest remaining time seen of this holder: at least its duration */
    int64_t seen_us;   /* the last poll that saw this duty held: retention of discovered ones */
    int32_t strangers; /* polls running in which the term's live session is not the owner */
    int32_t rivals;    /* polls running in which there were several owners */
    bool judged;       /* the last poll that knew of this duty could read who leads */
    bool held;         /* at the last authoritative reading */
    bool ever_owned;   /* `last` is set */
    bool acquisition_seen; /* the present owner was seen to begin; else it was first seen held */
    bool unsure;    /* the last reading could not see whether `last` was still the same session */
    bool took_over; /* the past's takeover is how the present owner came to lead */
    bool pooled;    /* seen as rule `pooled` says; latched while the same backend holds */
};

struct duty {
    const char *name;
    enum mechanism mechanism;
    enum duty_source source;
    struct lock_key key;
    const char *key_text; /* "742118", "12,-7", "public.leader_lease:nightly_report" */
    const char *candidate_pattern;
    const char *team, *runbook; /* NULL where not declared */
    const struct thresholds *limits;

    /* authority: read is false when its section failed, and on a standby for what only a primary
     * holds */
    bool read;
    int64_t read_lower_us, read_upper_us; /* it was true for some instant between these */
    int32_t owners, shared_owners;
    struct owner owner; /* the first of owners, by acquisition; valid while owners > 0 */
    int32_t candidates; /* -1: cannot be counted */
    int32_t waiters;
    int64_t oldest_wait_us; /* -1: nobody waits, or the server cannot tell */
    struct waiter *queue;   /* the longest first; at most QUEUE_SHOWN of the waiters */
    size_t n_queue;
    int64_t owner_xmin_age, waiter_xmin_age; /* in transactions; -1: none */
    int64_t owner_xact_age_us;               /* -1: the owner is in no transaction */
    int64_t lease_expires_us;                /* TIME_UNKNOWN where there is no lease row */
    int64_t lease_duration_us;               /* -1 where it is not known */

    /* ledger: metadata, believed only as law allows (term_begun, mismatch) */
    bool in_ledger; /* the registry has it, and its row was read in this poll */
    bool yieldable;
    bool yielding;                      /* a yield of the newest term is open */
    const struct term *term, *previous; /* never NULL */
    bool term_alive;                    /* the open term's session exists, and is not the owner */
    bool term_begun;                    /* the open term's session is the owner */
    bool term_unverified; /* it may be: the pid is the same, but we may not see since when */
    bool mismatch;        /* an open term says another session, and that session is alive, two polls
                             running */
    int64_t generation;   /* of the present term if begun, or of a lease row; -1 unread */
    const struct run *run, *last_run; /* never NULL */
    const int64_t *yields;            /* YIELD_OUTCOMES of them, -1 where unread */

    /* judged */
    enum duty_state state;
    int64_t acquired_us; /* recorded or seen to happen; else TIME_UNKNOWN */
    const char
        *acquired_source; /* "ledger", "lease", "seen", "first seen held"; NULL without owner */
    int64_t age_us, age_uncertainty_us; /* at the poll; -1 unknown */
    struct trail trail;
};

/* A lock that discovery watches, carried along until it qualifies as a duty. */
struct watched_lock {
    struct lock_key key;
    int32_t pid;
    int64_t since_us; /* server's clock at the first poll that saw this session hold it */
};

/* A section of the poll and how it went. */
struct section {
    const char
        *name;  /* "server", "locks", "ledger", "lease:public.leader_lease", "progress:DUTY" */
    bool known; /* it was asked, or its failure is the server's */
    bool up;
    char sqlstate[6];
    const char *message; /* NULL while up */
};

struct server_facts {
    const char *system_identifier; /* NULL: not readable */
    int64_t timeline;              /* -1: not readable */
    const char *database;
    const char *version; /* "15.18" */
    int32_t version_num;
    int64_t postmaster_start_us;
    bool in_recovery;
    bool privileged;        /* has pg_read_all_stats */
    bool direct;            /* no pooler between: the protocol's backend pid is the server's */
    int32_t ledger_version; /* 0: none; -1: not readable */
    int64_t clock_skew_us;  /* server minus exporter, by the middle of the round trip */
};

/* One change of one duty, for the log and the operator's event list. */
struct event {
    const char *duty;
    enum rule_id rule;
    const char *holder; /* NULL without an owner */
    int32_t pid;
    int64_t lower_us, upper_us; /* when it happened, TIME_UNKNOWN where nobody can tell; for a
                                   takeover its latency, -1 where nobody can tell */
};

enum { TAKEOVER_BUCKETS = 13 };
extern const int64_t
    takeover_bucket_us[TAKEOVER_BUCKETS]; /* upper bounds, 1 ms to 5 min; the last is +Inf */

struct snapshot {
    struct arena *arena;
    struct arena
        *definitions; /* names and limits of the duties, shared with other snapshots; or NULL */
    atomic_int references;
    struct server_facts facts;
    int64_t read_lower_us, read_upper_us; /* pg_locks was true for some instant between these */
    struct duty *duties;                  /* sorted by name */
    size_t n_duties;
    struct section *sections;
    size_t n_sections;
    struct watched_lock *watched; /* sorted by key, pid */
    size_t n_watched;
    int32_t unregistered_locks; /* held keys of this database that no duty names; -1 unread */
    int32_t foreign_locks; /* held advisory locks of other databases or an extension's objsubid */
    struct foreign_lock *foreign; /* at most FOREIGN_SHOWN of them */
    size_t n_foreign;
    struct event *events;
    size_t n_events;
    uint64_t takeovers[TAKEOVER_BUCKETS]; /* histogram of upper bounds, not cumulative */
    int64_t takeover_sum_us;
};

/* An empty snapshot with one reference. */
struct snapshot *snapshot_new(void);
struct snapshot *snapshot_ref(struct snapshot *snapshot);
void snapshot_unref(struct snapshot *snapshot); /* frees it with the last reference; NULL is fine */

/* The duty of that name, or NULL. */
const struct duty *snapshot_find(const struct snapshot *snapshot, const char *name);

/* A duty with every "not known" in place. */
void duty_init(struct duty *duty);

/* The duty's past to be written: its own, in the arena, from the first time on. */
struct past *duty_past(struct duty *duty, struct arena *arena);

const char *duty_state_name(enum duty_state state);    /* "led", "vacant", ... */
const char *duty_source_name(enum duty_source source); /* "ledger", "config", ... */
const char *mechanism_name(enum mechanism mechanism);  /* "lock", "lease" */
