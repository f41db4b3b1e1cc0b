/* SPDX-License-Identifier: PostgreSQL */
/* The last changes of all servers, newest first: what the event screen shows. */
#pragma once

#include <stddef.h>

#include "observe/snapshot.h"

enum { JOURNAL_SIZE = 500 };

struct journal_entry {
    char *server, *duty, *holder; /* holder is NULL without an owner */
    char *step;                   /* of a yield, in words; NULL: what follows happened */
    enum rule_id rule;
    int32_t pid;
    int64_t lower_us, upper_us; /* as in struct event */
    int64_t read_us;            /* the server's clock then; TIME_UNKNOWN: none */
};

struct journal {
    struct journal_entry entries[JOURNAL_SIZE];
    size_t n;     /* at most JOURNAL_SIZE */
    size_t next;  /* where the next one goes */
    size_t added; /* ever */
};

/* Copies the event. */
void journal_add(struct journal *journal, const char *server, const struct event *event,
                 int64_t read_us);

/* What the yield of a duty did. */
void journal_add_step(struct journal *journal, const char *server, const char *duty,
                      const char *step, int64_t at_us);

/* The i-th newest, i < n. */
const struct journal_entry *journal_at(const struct journal *journal, size_t i);
void journal_done(struct journal *journal);
