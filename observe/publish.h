/* SPDX-License-Identifier: PostgreSQL */
/* Where the poller leaves what it saw and any thread picks it up: one slot a server, swapped under
 * a mutex. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "observe/snapshot.h"

enum { POLL_BUCKETS = 12 };
extern const int64_t poll_bucket_us[POLL_BUCKETS]; /* upper bounds; the last is +Inf */

/* What the observer knows of its own work on one server. Counters live as long as the program. */
struct poll_stats {
    uint64_t polls[POLL_BUCKETS]; /* by duration, not cumulative; every attempt counts */
    int64_t poll_sum_us;
    int64_t interval_us;     /* in force */
    int64_t last_poll_us;    /* exporter's clock; 0 = never */
    int64_t last_success_us; /* exporter's clock; 0 = never */
    uint64_t connects;
    bool tried; /* the first poll has ended, well or badly */
};

/* Immutable once published. */
struct published {
    atomic_int references;
    const char *server; /* the name; owned */
    enum expect expect;
    struct snapshot *snapshot;    /* the last good one, or NULL; owns a reference */
    int64_t success_monotonic_us; /* when that poll ended; TIME_UNKNOWN = never */
    int64_t fresh_for_us;
    struct section *sections; /* of the last attempt; owned, names too */
    size_t n_sections;
    struct poll_stats stats;
    uint64_t serial; /* rises with every publication of any server */
};

void published_unref(struct published *published);

/* True while the last good poll is young enough, judged at now_us (CLOCK_MONOTONIC). */
bool published_fresh(const struct published *published, int64_t now_us);

/* All servers, in the config's order, as of one instant. Freed by picture_done. */
struct picture {
    struct published **servers;
    bool *fresh; /* judged when the picture was taken */
    size_t n;
    uint64_t serial;  /* of the newest publication, and of the set of servers */
    int64_t taken_us; /* CLOCK_MONOTONIC */
    bool reload_ok;
    int64_t reload_us; /* exporter's clock */
};

struct board;

struct board *board_new(void);
void board_free(struct board *board);

/* Sets the servers: what was published for names that stay is kept. Names are copied. */
void board_set_servers(struct board *board, const struct config *config);

/* Hands over a publication; the slot of its server is swapped. Ignored if the server is gone. */
void board_publish(struct board *board, struct published *published);

void board_set_reload(struct board *board, bool ok, int64_t at_us);

/* Takes the picture; safe from any thread. */
void board_take(struct board *board, struct picture *ret_picture);
void picture_done(struct picture *picture);

/* The index of a server in the picture, or -1. */
int picture_find(const struct picture *picture, const char *server);
