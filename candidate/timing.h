/* SPDX-License-Identifier: PostgreSQL */
/* The arithmetic of leading: when to try, when to check, when to stop believing. Pure;
 * microseconds. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Against silent packet loss the leader stops believing before the server lets go:
 *     check_every + answer_within + kill_after + slack < server_holds
 * counted from the sending of the last confirmed check. */
struct timing {
    int64_t check_every_us;   /* P */
    int64_t answer_within_us; /* D */
    int64_t kill_after_us;    /* K: from SIGTERM to SIGKILL */
    int64_t slack_us;         /* S */
    int64_t server_holds_us;  /* E: for how long the server keeps a session that it cannot reach */
};

/* 1 + 1 + 3 + 1 < 8 s. */
struct timing timing_default(void);

/* What the server's settings of this session come to: tcp_user_timeout, or if that is 0 keepalive
 * idle + count x interval. 0 where the server would hold it without end (a local socket has no
 * need: the kernel tells). */
int64_t timing_server_holds_us(int64_t user_timeout_ms, int64_t idle_s, int64_t interval_s,
                               int64_t count);

/* False where the sum does not hold: err names every part and the sum. */
bool timing_check(const struct timing *timing, struct error *err) MUSTCHECK;

/* The moment at which the leader must have stopped its work for lack of an answer; both
 * CLOCK_BOOTTIME. The work is to be aborted kill_after before the server lets go, less the slack.
 */
int64_t timing_abort_at_us(const struct timing *timing, int64_t confirmed_sent_us);

/* A lease's own: renewed at a third of its duration, for which the server keeps it. */
struct timing timing_of_lease(const struct timing *timing, int64_t lease_us);

/* For a lease the work has to be aborted only when it could not be stopped before the expiry
 * otherwise: there is time for several renewals. */
int64_t timing_lease_abort_at_us(const struct timing *timing, int64_t confirmed_sent_us);

/* For how long old work may go on after the server has let go: detection and kill. */
int64_t timing_stop_within_us(const struct timing *timing);

/* The pause before the next try: full jitter around candidates / tries per second, so that a duty
 * sees four tries a second or fewer, whatever the number of candidates. `random` is any number. */
int64_t timing_try_pause_us(int32_t candidates, uint32_t random);

/* Of many followers about so many hear of a release: they suffice, and waking all of them takes
 * longer than it saves. */
enum { TIMING_HEARERS = 5 };

/* After a graceful release: within 0 to N/500 s, N being those who hear of it. */
int64_t timing_wake_pause_us(int32_t candidates, uint32_t random);

/* While the database is away: full jitter, doubling, capped. */
int64_t timing_reconnect_pause_us(int failures, uint32_t random);
