/* SPDX-License-Identifier: PostgreSQL */
/* What the model of a candidate and the misfortunes that befall it share. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <libpq-fe.h>

#include "candidate/lead.h"

struct model {
    const char *conninfo, *duty;
    bool lease, wrong, stopped;
    unsigned seed;
    struct lead *lead;
    PGconn *admin, *rival, *locker;
    bool rival_led;
    bool working, told; /* gained and not stopped; and told to stop */
    int64_t generation, last;
    int64_t work_stops_us, unlock_us, rival_us; /* 0: never */
    int64_t not_before_us;                      /* an earlier leader's work may run until then */
    int64_t calm_us;   /* since when nothing happens to it; 0: something does */
    int64_t unheld_us; /* since when it leads what it does not hold; 0: it holds */
    int gains, losses, finishes, spins;
};

/* lead_model.c */
void say(const struct model *m, const char *format, ...);
int64_t chance(struct model *m, int64_t below);
int64_t within(struct model *m, int64_t least_ms, int64_t most_ms); /* microseconds */

/* The first value of the answer, "" for none or for an error, until the next call. */
const char *ask(PGconn *conn, const char *format, ...);

/* lead_model_misfortunes.c */
void befall(struct model *m); /* any one of them */
void stop(struct model *m);
void end_rival(struct model *m);
void thaw(void);          /* a server process */
void thaw_by_alarm(void); /* whatever we wait for */
