/* SPDX-License-Identifier: PostgreSQL */
/* The guards of a yield: pure rules over what was frozen when it was asked for and what is read
 * now. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/clock.h"
#include "observe/config.h"
#include "pg/key.h"

/* Which session, of which server: frozen when the person asks. A lease has no session. */
struct yield_target {
    const char *server;
    const char *duty;
    enum mechanism mechanism;
    struct lock_key key;
    const char *key_text;
    const char *lease_table;       /* NULL for a lock; "pgleader.lease" is the ledger's own */
    const char *candidate_pattern; /* LIKE on application_name; NULL: none is declared */
    const char *system_identifier; /* NULL: not readable */
    int64_t postmaster_start_us;
    const char *database;
    bool registered; /* the ledger has it */
    int32_t owners;  /* at that moment */
    int32_t pid;     /* 0: a lease, or nobody */
    int64_t backend_start_us;
    const char *application_name; /* "" where there is none */
    const char *client_addr;      /* "local" for a socket; NULL: not known */
    const char *holder;           /* of a lease */
    int64_t generation;           /* of the owner's own open term; -1: there is none */
    const char *instance;         /* of that term; NULL */
    bool pooled;                  /* seen by whoever watched before */
};

/* A session with its advisory lock, or a named session without one (objsubid -1). */
struct yield_lock {
    int64_t classid, objid;
    int32_t objsubid;
    bool exclusive, granted;
    int32_t pid; /* -1: a prepared transaction */
    int64_t backend_start_us;
    const char *application_name; /* NULL or "": none */
    const char *client_addr;      /* NULL: a socket, or not readable */
};

/* The server and the frozen session, as they are now. */
struct yield_server {
    const char *database;
    bool in_recovery;
    int64_t postmaster_start_us;
    int32_t pid; /* of the frozen session; -1: there is no such pid */
    int64_t backend_start_us;
    const char *application_name;
    const char *client_addr;
    int32_t client_port;
    const char *backend_type;
    const char *usename;
    int64_t xact_start_us;
    bool target_superuser;
    bool superuser;  /* the operator is one */
    bool may_signal; /* the operator's own right over that session, superusers apart */
};

/* The ledger's row of the duty. */
struct yield_ledger {
    const char *mechanism;
    int64_t classid, objid;
    int32_t objsubid;
    int64_t next_classid, next_objid; /* of a reserved key, while it changes; objsubid -1: none */
    int32_t next_objsubid;
    const char *lease_table;
    const char *candidate_pattern;
    bool yieldable;
    const char *also_leads; /* other duties whose open term is that session's; NULL */
    int64_t generation;
    int32_t term_pid;
    int64_t term_backend_start_us;
    const char *term_instance;
    bool term_listens;
    bool term_open;
    int64_t term_acquired_us;
    int64_t stop_within_us;
    int64_t previous_generation;
    int64_t previous_stopped_us; /* when its work was reported stopped */
    const char *run_key;         /* the newest unfinished run; NULL */
    int64_t run_generation;
    const char *run_cursor;
    double run_position, run_target;
    bool yield_open;
    const char *yield_by;
    int64_t yield_intent;
    int64_t yield_expires_us;
    bool cooling;
    int64_t cool_until_us;
    const char *lease_holder; /* of pgleader.lease, unless it has expired */
    int64_t lease_generation;
    const char *function_owner;
    bool may_request;        /* the operator may call the ledger's functions */
    bool may_record_refusal; /* that one, too, which older ledgers lack */
    bool owner_may_signal;
    bool owner_superuser;
    bool read_only; /* the operator's transactions are, by default */
};

/* One reading of all that. Lives in its arena. */
struct yield_facts {
    struct arena *arena;
    int64_t read_lower_us, read_upper_us; /* the server's clock around it */
    const char *system_identifier;        /* NULL: not readable */
    struct yield_server server;
    struct lock_key key; /* whose holder and waiters are read; the frozen session's locks are all */
    const struct yield_lock *locks;
    size_t n_locks;
    const struct yield_ledger *ledger; /* NULL: no ledger, or the duty is not in it */
    bool ledger_unread;                /* it is there, and could not be read this time */
    bool ledger_denied; /* it is there, and not ours to read; the duty was never seen in it */
};

/* How the deed would be done. */
enum yield_road {
    ROAD_LEDGER,  /* its functions, its audit */
    ROAD_OWN,     /* the operator's own right, the local log */
    ROAD_RELEASE, /* a lease: its holder is asked, nothing can be ended */
    ROAD_NONE,
};

enum guard_id {
    GUARD_PRIMARY,
    GUARD_SERVER,
    GUARD_FRESH,
    GUARD_LED,
    GUARD_IDENTITY,
    GUARD_OWNER,
    GUARD_KEY,
    GUARD_GENERATION,
    GUARD_CONFIRM,
    GUARD_CLIENT,
    GUARD_SIGNAL,
    GUARD_LEASE,
    GUARD_YIELDABLE,
    GUARD_OPEN,
    GUARD_DUTIES,
    GUARD_RUN,
    GUARD_SUCCESSOR,
    GUARD_COOLDOWN,
    GUARD_POOLED,
    GUARD_AUDIT,
    GUARDS,
};

enum guard_state { GUARD_PASSED, GUARD_NOTED, GUARD_OVERRIDDEN, GUARD_FAILED };

struct guard {
    enum guard_id id;
    enum guard_state state;
    bool privilege; /* it failed for want of a right */
    const char *sentence;
    const char *remedy; /* "" where nothing is to be done */
};

struct guard_list {
    struct guard rows[GUARDS];
    enum yield_road road;
    uint32_t overrides; /* one bit a guard_id */
};

/* What a person who asks has given and when it was read. */
struct guard_context {
    const char *confirm;    /* "DUTY TOKEN"; NULL: not typed yet, which fails nothing */
    uint32_t overrides;     /* one bit a guard_id */
    int64_t reading_age_us; /* -1: there is no reading */
    bool connected;
};

/* "fresh", "no-successor" ...; whether --override may name it. */
const char *guard_code(enum guard_id id);
bool guard_overridable(enum guard_id id);
const char *guard_state_name(enum guard_state state); /* "ok", "note", "overridden", "refused" */

/* The guard that may be overridden by that code; GUARDS if there is none. */
enum guard_id guard_find_overridable(const char *code);

/* Fills all rows; sentences live in the arena. facts may be NULL: nothing was read yet. */
void guards_check(const struct yield_target *target, const struct yield_facts *facts,
                  const struct guard_context *context, struct arena *arena, struct guard_list *ret);

/* The first that failed, or NULL; and whether each that failed did for want of a right. */
const struct guard *guards_failed(const struct guard_list *list, bool *ret_privilege);

/* True when what is wrong cannot become right while the person looks: another owner, another
 * server. */
bool guards_changed(const struct guard_list *list);

/* "42", or "pid:22819@2026-11-29T16:35:59.409594Z", or NULL where the session cannot be named. */
const char *yield_token(const struct yield_target *target, struct arena *arena);

/* The server's time with microseconds and Z; "unknown". */
const char *yield_time(int64_t us, struct arena *arena);

/* What becomes of the worker. */
enum yield_fate { FATE_KIT, FATE_FENCED, FATE_UNPROTECTED };
enum yield_fate yield_fate(const struct yield_target *target, const struct yield_facts *facts);
const char *yield_fate_name(enum yield_fate fate); /* "kit", "fenced", "UNPROTECTED" */
const char *yield_fate_sentence(const struct yield_target *target, const struct yield_facts *facts,
                                struct arena *arena);

/* "10.2.0.14:51514", "this server, by its socket", or "an address that may not be read". */
const char *yield_address(const struct yield_facts *facts, struct arena *arena);

/* The ledger's open term is the frozen owner's. */
bool yield_term_is_targets(const struct yield_target *target, const struct yield_facts *facts);

/* The session that holds the key now, exclusively; NULL. */
const struct yield_lock *yield_holder(struct lock_key key, const struct yield_facts *facts);
