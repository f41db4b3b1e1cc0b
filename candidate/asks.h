/* SPDX-License-Identifier: PostgreSQL */
/* What a candidate asks its server: the statements, and their answers as structs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "pg/batch.h"
#include "pg/key.h"

enum ask {
    ASK_NOTHING,
    ASK_SETUP,  /* $1 nonce: sets this session's limits, and says which session it is */
    ASK_LIMITS, /* reads the limits back */
    ASK_KEY,    /* $1 duty: its lock in the registry */
    ASK_LISTEN, /* the duty's channel */
    ASK_REPORT, /* $1 duty, $2 generation, $3 instance: our old work has stopped */
    ASK_COUNT,  /* $1 prefix of the kit's names: how many candidates there are */
    ASK_TRY,    /* $1, $2 key */
    ASK_QUEUE,  /* $1 duty: waits a bounded time in the lock's own queue */
    ASK_CHECK,  /* $1 classid, $2 objid, $3 objsubid */
    ASK_BEGIN,  /* $1 duty, $2 instance, $3 stop_within, $4 last refusal */
    ASK_SETTLE, /* $1 duty: what is known of the predecessor's work */
    ASK_END,    /* $1 duty, $2 generation, $3 reason */
    ASK_UNLOCK, /* $1, $2 key */
    ASKS,
};

/* The text of a statement; ASK_LISTEN's and those of a pair's key differ. version: of the server.
 */
const char *ask_text(enum ask ask, const struct lock_key *key, const char *duty, int version,
                     struct arena *arena);

/* One struct for every answer: what a statement does not say stays 0. */
struct reply {
    int32_t pid, local_port, seen_port;
    bool in_recovery, has_ledger;
    int64_t user_timeout_ms, idle_s, interval_s, count;
    int64_t idle_session_timeout_ms;
    int64_t classid, objid;
    int32_t objsubid;
    int64_t candidates;
    bool yes;          /* ASK_TRY, ASK_UNLOCK, ASK_CHECK: held */
    const char *nonce; /* ASK_CHECK */
    int64_t generation;
    int64_t now_us, wait_until_us; /* ASK_SETTLE; TIME_UNKNOWN: no need to wait */
    bool yield_wanted;
};

/* Decodes the one row of an answer. */
bool ask_reply(enum ask ask, const struct pg_answer *answer, struct arena *arena, struct reply *ret,
               struct error *err) MUSTCHECK;
