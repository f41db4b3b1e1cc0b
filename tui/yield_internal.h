/* SPDX-License-Identifier: PostgreSQL */
/* The yield's insides, shared by its session, its phases and its statements. */
#pragma once

#include "pg/batch.h"
#include "pg/conn.h"
#include "pg/statement.h"
#include "tui/yield.h"

enum yield_io { IO_NONE, IO_CONNECTING, IO_READING, IO_STATEMENT };

struct yield {
    struct yield_order order;
    struct arena *arena;   /* as long as the yield */
    struct arena *scratch; /* sentences of the last reading */
    struct yield_target target;
    struct lock_key key; /* whose holder leads: the frozen one, until a watch sees another */
    struct yield_view view;
    struct pg_session *conn;
    struct pg_batch *batch;
    struct arena *questions;  /* of the batch */
    struct pg_answer *answer; /* of the statement under way: it may come in pieces */
    struct error why;         /* likewise, why it failed */
    enum yield_io io;
    int64_t due_us;                     /* the deadline of what is under way, or the next reading */
    int64_t started_us;                 /* all CLOCK_MONOTONIC */
    int64_t read_sent_us, read_done_us; /* of the newest reading */
    int64_t confirmed_us;               /* TIME_UNKNOWN: not confirmed */
    int64_t phase_us;                   /* when the phase began */
    int64_t watch_until_us, record_until_us;
    const char *confirm, *reason;
    struct yield_facts *facts, *asked;
    struct yield_step *steps;
    bool uncertain; /* nobody can know any more what was sent */
    bool late;      /* the statement said that the intent cannot be used: did the leader go? */
    bool cancelled;
};

/* yield.c: phases */
void yield_note(struct yield *yield, bool audit, const char *format, ...) PRINTF_LIKE(3, 4);
void yield_enter(struct yield *yield, enum yield_phase phase);
void yield_finish(struct yield *yield, enum yield_end end, const char *sentence);
void yield_watch(struct yield *yield);
void yield_took_reading(struct yield *yield);
void yield_lost(struct yield *yield, const struct error *err);

/* yield_io.c: the session */
void yield_read(struct yield *yield);
void yield_ask(struct yield *yield, const char *text, int n, const char *const *values);
void yield_close(struct yield *yield);

/* yield_deed.c: statements and their answers; answer is NULL where err says why */
void yield_request(struct yield *yield);
void yield_send(struct yield *yield);
void yield_record(struct yield *yield);
void yield_took_answer(struct yield *yield, const struct pg_answer *answer,
                       const struct error *err);
