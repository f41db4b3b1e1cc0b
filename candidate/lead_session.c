/* SPDX-License-Identifier: PostgreSQL */
/* What a candidate does until its session is ready, and while it follows. */
#include <inttypes.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/memory.h"
#include "base/text.h"
#include "candidate/lead_internal.h"

static const int64_t count_every_us = 10 * SECOND_US;
static const int64_t standby_pause_us = SECOND_US;

static bool owes_report(const struct lead *lead)
{
    return lead->ledger && lead->unreported >= 0;
}

/* Followers: report what we owe, count now and then, then try. */
static enum ask next_of_follower(const struct lead *lead)
{
    if (owes_report(lead))
        return ASK_REPORT;
    if (clock_boottime_us() - lead->counted_us > count_every_us)
        return ASK_COUNT;
    if (lead->target.lease_table)
        return ASK_ACQUIRE;
    return lead->queue && lead->ledger ? ASK_QUEUE : ASK_TRY;
}

void lead_follow(struct lead *lead, int64_t pause_us)
{
    int64_t until = lead->stands_back_until_us > lead->held_off_until_us
                        ? lead->stands_back_until_us
                        : lead->held_off_until_us;
    int64_t back = until - clock_boottime_us();
    enum ask next = next_of_follower(lead);
    if (lead->stopping && !owes_report(lead))
        lead_end_candidacy(lead, LEAD_ENDED);
    else if (next == ASK_REPORT || next == ASK_COUNT)
        lead_wait(lead, 0, next);
    else
        lead_wait(lead, pause_us > back ? pause_us : back, next);
}

/* A leader by lease outlives its session: it goes on where it was. */
void lead_ready(struct lead *lead)
{
    if (lead->state == LEAD_LEADER || lead->state == LEAD_YIELDING) {
        lead->hinted = true; /* nobody heard what was told meanwhile */
        lead_ask(lead, lead_check_ask(lead));
        return;
    }
    lead_follow(lead, timing_wake_pause_us(lead->candidates, lead_random()));
}

/* By lot. Who comes to lead hears requests to yield in any case. */
static bool should_hear(const struct lead *lead)
{
    return (uint64_t)lead->lot * (uint64_t)lead->candidates <= (uint64_t)TIMING_HEARERS << 32;
}

void lead_took_listen(struct lead *lead, const struct reply *reply)
{
    bool first = !lead->listening;
    (void)reply;
    lead->listening = true;
    lead->deaf = false;
    if (lead->holds)
        lead_proceed(lead);
    else if (!first)
        lead_follow(lead, timing_try_pause_us(lead->candidates, lead_random()));
    else if (lead->ledger && lead->state == LEAD_FOLLOWER)
        lead_ask(lead, ASK_WARM);
    else
        lead_ready(lead);
}

void lead_took_unlisten(struct lead *lead, const struct reply *reply)
{
    (void)reply;
    lead->deaf = true;
    lead_follow(lead, timing_try_pause_us(lead->candidates, lead_random()));
}

void lead_took_count(struct lead *lead, const struct reply *reply)
{
    lead->candidates = reply->candidates > 1 ? (int32_t)reply->candidates : 2;
    if (reply->candidates <= 1)
        lead->stands_back_until_us = 0; /* for whom? */
    /* The first count of a session is followed by a try at once; others would double the tries. */
    int64_t pause = timing_try_pause_us(lead->candidates, lead_random());
    bool first = lead->counted_us == 0;
    lead->counted_us = clock_boottime_us();
    lead->stale = lead->stale || (lead->deaf && lead->ledger && !lead->target.lease_table);
    if (!lead->pooled && !lead->stopping && should_hear(lead) == lead->deaf)
        lead_ask(lead, lead->deaf ? ASK_LISTEN : ASK_UNLISTEN);
    else
        lead_follow(lead, first ? 0 : pause);
}

/* Its limits, the target, the channel. Behind a pooler, where only a lease can be led, nothing is
 * set and nothing heard. */
void lead_prepare(struct lead *lead)
{
    struct error err = {0};
    if (lead->options.lease_table && !lead->found) {
        lead_ask(lead, ASK_TABLE);
    } else if (!lead->pooled && !lead->prepared) {
        lead_ask(lead, ASK_SETUP);
    } else if (!lead->options.lease_table && lead->ledger && !lead->knows_registry) {
        lead_ask(lead, ASK_KEY);
    } else if (!lead->found) {
        (void)error_set(&err, ERROR_CONFIG,
                        "could not find the lock of %s: there is no ledger to ask",
                        lead->options.duty);
        error_hint(&err, "Install the ledger and register the duty, or name the lock.");
        lead_refuse(lead, &err);
    } else if (!lead->pooled && !lead->listening) {
        lead_ask(lead, ASK_LISTEN);
    } else {
        lead_ready(lead);
    }
}

static int local_port(const struct pg_session *conn)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    if (getsockname(pg_conn_fd(conn), (struct sockaddr *)&address, &size) != 0)
        return 0;
    if (address.ss_family == AF_INET)
        return ntohs(((struct sockaddr_in *)&address)->sin_port);
    if (address.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    return 0;
}

/* What the operator should know of this session, each once. */
static void remark_on(struct lead *lead, const struct reply *reply)
{
    bool lease = lead->options.lease_table != NULL;
    if (!reply->has_ledger)
        lead_remark(lead, REMARK_NO_LEDGER,
                    lead->queue ? "there is no ledger in this database: no generations, no "
                                  "settling, and trying instead of waiting in the queue"
                                : "there is no ledger in this database: no generations, no "
                                  "settling");
    if (lead->pooled)
        lead_remark(lead, REMARK_POOLED,
                    "a pooler stands between: a lease can be led through it, but a release is not "
                    "heard of, and followers find out by trying");
    else if (reply->seen_port != local_port(lead->conn) && !lease)
        lead_remark(lead, REMARK_PROXY,
                    "a TCP proxy or address translation stands between: the server sees another "
                    "port than ours, so after a silent network failure it may let go before we "
                    "stop");
    if (reply->idle_session_timeout_ms > 0)
        lead_remark(lead, REMARK_IDLE_SESSION,
                    lead->pooled || pg_conn_version(lead->conn) < 140000
                        ? "idle_session_timeout is set and may end a leader's session"
                        : "idle_session_timeout is set and would end a leader's session: it is "
                          "off for this one");
    if (reply->idle_transaction_timeout_ms > 0)
        lead_remark(lead, REMARK_IDLE_TRANSACTION,
                    "idle_in_transaction_session_timeout is set: it is off for this session, "
                    "which is never inside a transaction; the work's own sessions have it");
}

static void wait_for_primary(struct lead *lead)
{
    lead_remark(lead, REMARK_STANDBY,
                "this server is a standby: its locks are not the primary's, waiting");
    if (lead->several_hosts) {
        lead->attempts++;
        lead_drop_session(lead, standby_pause_us);
    } else {
        lead_wait(lead, standby_pause_us, ASK_IDENTIFY);
    }
}

/* Proof at connect: the protocol's backend is the server's, or something stands between. */
void lead_took_identity(struct lead *lead, const struct reply *reply)
{
    struct error err = {0};
    lead->pooled = reply->pid != pg_conn_backend_pid(lead->conn);
    if (lead->pooled && !lead->options.lease_table) {
        (void)error_set(&err, ERROR_CONFIG,
                        "could not lead through this connection: the server's backend is %" PRId32
                        ", the connection's is %d: a pooler stands between, and a lock taken "
                        "through it would be the pooler's",
                        reply->pid, pg_conn_backend_pid(lead->conn));
        error_hint(&err, "Connect to PostgreSQL directly.");
        lead_refuse(lead, &err);
        return;
    }
    lead->ledger = reply->has_ledger;
    if (reply->in_recovery) {
        wait_for_primary(lead);
        return;
    }
    lead->remarked &= ~(1U << REMARK_STANDBY);
    lead->was_up = true;
    remark_on(lead, reply);
    lead_prepare(lead);
}

/* False, and refused, where its times cannot be kept. */
static bool found_lease(struct lead *lead, const char *table, const char *row)
{
    struct error err = {0};
    char *old_table = lead->lease_table, *old_row = lead->lease_row;
    lead->lease_table = xstrdup(table);
    lead->lease_row = xstrdup(row);
    free(old_table);
    free(old_row);
    lead->target.lease_table = lead->lease_table;
    lead->target.own_lease = text_equal(table, LEAD_OWN_LEASE);
    lead->found = true;
    lead->options.timing = timing_of_lease(&lead->options.timing, lead->options.lease_us);
    if (timing_check(&lead->options.timing, &err))
        return true;
    lead_refuse(lead, &err);
    return false;
}

void lead_took_table(struct lead *lead, const struct reply *reply)
{
    struct error err = {0};
    const char *row = lead->options.lease_row;
    if (!reply->lease_table) {
        (void)error_set(&err, ERROR_CONFIG, "could not lead by the lease table %s: there is none",
                        lead->options.lease_table);
    } else if (!reply->yes) {
        (void)error_set(&err, ERROR_CONFIG,
                        "could not lead by the lease table %s: it has not the columns job_name, "
                        "holder and expires_at (timestamptz)",
                        reply->lease_table);
    } else if (!reply->is_key) {
        (void)error_set(&err, ERROR_CONFIG,
                        "could not lead by the lease table %s: job_name is not unique in it",
                        reply->lease_table);
        error_hint(&err, "Make job_name its primary key, or two rows may have two leaders.");
    } else if (text_equal(reply->lease_table, LEAD_OWN_LEASE) && row &&
               !text_equal(row, lead->options.duty)) {
        (void)error_set(&err, ERROR_CONFIG,
                        "could not lead by row \"%s\" of %s: its rows are named by their duty", row,
                        LEAD_OWN_LEASE);
    }
    if (err.kind != ERROR_NONE) {
        lead_refuse(lead, &err);
        return;
    }
    lead->unlogged = reply->unlogged;
    if (!found_lease(lead, reply->lease_table, row ? row : lead->options.duty))
        return;
    if (!lead->target.own_lease)
        lead_remark(lead, REMARK_NO_GENERATION,
                    "this lease table has no generations: nothing fences the work of a leader "
                    "that was paused beyond its lease");
    if (lead->unlogged)
        lead_remark(lead, REMARK_UNLOGGED,
                    "this lease table is UNLOGGED: a crash of the server empties it, so that the "
                    "loss of the session is taken for the loss of the lease");
    lead_prepare(lead);
}

void lead_took_limits(struct lead *lead, const struct reply *reply)
{
    struct error err = {0};
    struct timing timing = lead->options.timing;
    int64_t holds = timing_server_holds_us(reply->user_timeout_ms, reply->idle_s, reply->interval_s,
                                           reply->count);
    if (holds && !lead->options.lease_table)
        timing.server_holds_us = holds; /* 0: a local socket, where the kernel tells */
    if (!timing_check(&timing, &err)) {
        lead_refuse(lead, &err);
        return;
    }
    lead->prepared = true;
    lead_prepare(lead);
}
