/* SPDX-License-Identifier: PostgreSQL */
/* A candidate: one dedicated session that tries for a duty's lock, leads, loses and hands over. It
 * never blocks: the caller waits in poll(2) and steps. It starts no work itself; it says when work
 * may run and when it must stop. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "candidate/rules.h"
#include "candidate/timing.h"
#include "pg/key.h"

/* Why a candidate cannot go on; 0 while it can. */
enum lead_end { LEAD_GOES_ON, LEAD_ENDED, LEAD_NO_PERMISSION, LEAD_REFUSED };

struct lead_options {
    const char *conninfo;
    const char *duty;
    const char *instance;
    const struct lock_key *key; /* NULL: as the ledger's registry has it */
    const char *lease_table; /* NULL: a lock; else the lease table, pgleader.lease or schema.name */
    const char *lease_row;   /* the row's name in it; NULL: the duty's */
    int64_t lease_us;        /* the lease's duration */
    struct timing timing;
    bool queue;        /* wait in the lock's own queue, through the ledger, instead of trying */
    int64_t settle_us; /* -1: as long as the predecessor's term says; 0: not at all */
    void *context;
    /* Work may start: under that generation, or -1 without a ledger. */
    void (*gained)(void *context, int64_t generation);
    /* Work must stop, and lead_work_stopped must be called when it has. Exactly once for each
     * gained. */
    void (*lost)(void *context, int64_t generation, const struct lead_rule *rule);
    /* What happened, for a log: a rule or an error or a remark; any may be NULL. */
    void (*told)(void *context, const struct lead_rule *rule, const struct error *err,
                 const char *remark);
};

struct lead;

/* The options' strings must outlive it. Fails (ERROR_CONFIG) where the timing cannot be promised.
 */
struct lead *lead_new(const struct lead_options *options, struct error *err) MUSTCHECK;
void lead_free(struct lead *lead); /* closes the session; NULL is fine */

void lead_wants(const struct lead *lead, struct pollfd *ret_fd, int *ret_timeout_ms);
void lead_step(struct lead *lead, bool ready);

/* The work is over: aborted after `lost`, or finished by itself. */
void lead_work_stopped(struct lead *lead);

/* Hands over gracefully if it leads, and stays a candidate. */
void lead_yield(struct lead *lead);

/* Stops being a candidate: hands over gracefully if it leads. lead_ended tells when that is done.
 */
void lead_stop(struct lead *lead);

enum lead_end lead_ended(const struct lead *lead);
enum lead_state lead_state(const struct lead *lead);
int64_t lead_generation(const struct lead *lead); /* -1: none */
bool lead_connected(const struct lead *lead);
const struct lock_key *lead_key(const struct lead *lead); /* NULL while not known, and of a lease */
const char *lead_lease_table(const struct lead *lead);    /* NULL of a lock */
const char *lead_lease_row(const struct lead *lead);

/* CLOCK_BOOTTIME: past it no work may go on, whatever has been heard; INT64_MAX while it does not
 * lead. */
int64_t lead_deadline_us(const struct lead *lead);
