/* SPDX-License-Identifier: PostgreSQL */
/* Deadlines and pauses. */
#include "candidate/timing.h"

#include "base/clock.h"

/* One try of the whole duty in this time, on average: 3.5 a second, so that 4 are seldom seen. */
static const int64_t try_share_us = SECOND_US * 2 / 7;
static const int64_t wake_share_us = SECOND_US / 500;
static const int64_t reconnect_least_us = SECOND_US / 10;
static const int64_t reconnect_longest_us = 15 * SECOND_US;

struct timing timing_default(void)
{
    return (struct timing){
        .check_every_us = SECOND_US,
        .answer_within_us = SECOND_US,
        .kill_after_us = 3 * SECOND_US,
        .slack_us = SECOND_US,
        .server_holds_us = 8 * SECOND_US,
    };
}

int64_t timing_server_holds_us(int64_t user_timeout_ms, int64_t idle_s, int64_t interval_s,
                               int64_t count)
{
    if (user_timeout_ms > 0)
        return user_timeout_ms * 1000;
    if (idle_s <= 0 || interval_s <= 0 || count <= 0)
        return 0;
    return (idle_s + interval_s * count) * SECOND_US;
}

static int64_t believes_us(const struct timing *timing)
{
    return timing->check_every_us + timing->answer_within_us + timing->kill_after_us +
           timing->slack_us;
}

static double seconds(int64_t us)
{
    return (double)us / SECOND_US;
}

bool timing_check(const struct timing *timing, struct error *err)
{
    if (believes_us(timing) < timing->server_holds_us)
        return true;
    (void)error_set(
        err, ERROR_CONFIG,
        "could not promise to stop before the server lets go: check every %g s + answer within %g "
        "s + kill after %g s + slack %g s = %g s, which is not less than the %g s after which it "
        "lets go (tcp_user_timeout of the session, or the duration of the lease)",
        seconds(timing->check_every_us), seconds(timing->answer_within_us),
        seconds(timing->kill_after_us), seconds(timing->slack_us), seconds(believes_us(timing)),
        seconds(timing->server_holds_us));
    error_hint(err, "Shorten the times of the candidate, or let the server hold on for longer.");
    return false;
}

int64_t timing_abort_at_us(const struct timing *timing, int64_t confirmed_sent_us)
{
    return confirmed_sent_us + timing->check_every_us + timing->answer_within_us;
}

struct timing timing_of_lease(const struct timing *timing, int64_t lease_us)
{
    struct timing lease = *timing;
    lease.check_every_us = lease_us / 3;
    lease.server_holds_us = lease_us;
    return lease;
}

int64_t timing_lease_abort_at_us(const struct timing *timing, int64_t confirmed_sent_us)
{
    return confirmed_sent_us + timing->server_holds_us - timing->kill_after_us - timing->slack_us;
}

int64_t timing_stop_within_us(const struct timing *timing)
{
    return timing->check_every_us + timing->answer_within_us + timing->kill_after_us;
}

static int64_t jitter(int64_t ceiling_us, uint32_t random)
{
    return (int64_t)((__int128)ceiling_us * random / UINT32_MAX);
}

/* Uniform over twice the mean, so that N candidates together make a try each try_share_us. */
int64_t timing_try_pause_us(int32_t candidates, uint32_t random)
{
    int64_t followers = candidates > 1 ? candidates - 1 : 1;
    return jitter(2 * followers * try_share_us, random);
}

int64_t timing_wake_pause_us(int32_t candidates, uint32_t random)
{
    int32_t hearers = candidates < TIMING_HEARERS ? candidates : TIMING_HEARERS;
    return jitter((hearers > 1 ? hearers : 1) * wake_share_us, random);
}

int64_t timing_reconnect_pause_us(int failures, uint32_t random)
{
    int doublings = failures < 8 ? failures : 8;
    int64_t ceiling = reconnect_least_us << doublings;
    return jitter(ceiling < reconnect_longest_us ? ceiling : reconnect_longest_us, random);
}
