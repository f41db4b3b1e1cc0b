/* SPDX-License-Identifier: PostgreSQL */
/* What a candidate asks its server: the statements, and their answers as structs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "pg/batch.h"
#include "pg/key.h"

/* In the order of a life: the session is prepared, the duty found, led, and given back. */
enum ask {
    ASK_NOTHING,
    ASK_IDENTIFY, /* who the server's backend is, and what it brings; changes nothing */
    ASK_TABLE,    /* $1 table: what kind of lease table that is */
    ASK_SETUP,    /* $1 nonce, $2 tcp_user_timeout: sets this session's limits */
    ASK_LIMITS,   /* reads the limits back */
    ASK_KEY,      /* $1 duty: its lock or lease in the registry, and the key that it moves to */
    ASK_LISTEN,   /* the duty's channel */
    ASK_UNLISTEN, /* not to it any more */
    ASK_WARM,     /* has the session prepare for a term before one begins */
    ASK_REPORT,   /* $1 duty, $2 generation, $3 instance: our old work has stopped */
    ASK_COUNT,    /* $1 prefix of the kit's names: how many candidates there are */
    /* a lock */
    ASK_TRY,   /* the key */
    ASK_QUEUE, /* $1 duty: waits a bounded time in the lock's own queue */
    ASK_CHECK, /* $1 classid, $2 objid, $3 objsubid, $4 to $6 of the second key */
    ASK_NEXT,  /* takes the key that the duty moves to, unless this session has it */
    ASK_BEGIN, /* $1 duty, $2 instance, $3 stop_within, $4 last refusal, $5 to $7 the key, $8 to $10
                  the one that the duty moves to; begins nothing where it is another */
    ASK_END,   /* $1 duty, $2 generation, $3 reason */
    ASK_DROP,  /* gives back the second key alone */
    ASK_UNLOCK, /* the key, then the channel; the second key is given back before it */
    /* a lease */
    ASK_ACQUIRE, /* a table: $1 row, $2 holder, $3 duration; the ledger: ..., $4 stop_within, $5
                    last refusal */
    ASK_RENEW,   /* a table: $1 row, $2 holder, $3 duration; the ledger: ..., $4 generation */
    ASK_RELEASE, /* a table: $1 row, $2 holder, $3 channel; the ledger: $3 generation, $4 reason */
    /* either */
    ASK_SETTLE, /* $1 duty: what is known of the predecessor's work */
    ASK_YIELD,  /* $1 duty, $2 generation: does an operator ask for it, or is the term over? */
    ASKS,
};

/* What is led: a lock, or a row of a lease table. */
struct target {
    const char *duty;
    struct lock_key key;
    struct lock_key next;    /* the registry's: what the duty moves to; objsubid 0: nothing */
    struct lock_key other;   /* a second key that this session may hold; objsubid 0: none */
    const char *lease_table; /* NULL: a lock. As SQL takes it: quoted where it must be */
    bool own_lease;          /* pgleader.lease, through the ledger's functions */
};

/* The text of a statement; version: of the server. */
const char *ask_text(enum ask ask, const struct target *target, int version, struct arena *arena);

/* One struct for every answer: what a statement does not say stays 0, NULL or false. */
struct reply {
    int32_t pid, seen_port;
    bool in_recovery, has_ledger;
    int64_t user_timeout_ms, idle_s, interval_s, count;
    int64_t idle_session_timeout_ms, idle_transaction_timeout_ms;
    int64_t classid, objid;
    int32_t objsubid;
    int64_t next_classid, next_objid;
    int32_t next_objsubid;
    const char *lease_table, *lease_row; /* in the reply's arena */
    bool unlogged, is_key;
    int64_t candidates;
    bool yes;              /* tried, held, acquired, renewed, given back, wanted */
    bool other;            /* ASK_CHECK: the second key is held, too */
    bool is_new;           /* ASK_ACQUIRE: the row was not there */
    const char *nonce;     /* ASK_CHECK */
    int64_t generation;    /* ASK_BEGIN; -1: the duty moves to another key than was said */
    int64_t now_us;        /* the server's clock, before the deed */
    int64_t wait_until_us; /* ASK_SETTLE; TIME_UNKNOWN: no need to wait */
};

/* Decodes the one row of an answer. */
bool ask_reply(enum ask ask, const struct pg_answer *answer, struct arena *arena, struct reply *ret,
               struct error *err) MUSTCHECK;
