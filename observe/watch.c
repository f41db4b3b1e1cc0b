/* SPDX-License-Identifier: PostgreSQL */
/* down -> connecting -> idle <-> polling; any of them -> down when the session is lost or too slow.
 */
#include "observe/watch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "observe/collect.h"
#include "observe/history.h"
#include "observe/pace.h"
#include "pg/batch.h"
#include "pg/conn.h"

enum watch_state { WATCH_DOWN, WATCH_CONNECTING, WATCH_IDLE, WATCH_POLLING };

struct watch {
    const struct watch_context *context;
    const struct config_server *server;
    struct collector *collector;
    struct collector *leaving; /* whose poll was under way at a reload: its answer is dropped */
    enum watch_state state;
    struct pg_session *conn;
    struct pg_batch *batch;
    struct pace pace;
    int silent_after_s;
    int64_t due_us;     /* down: the next attempt; idle: the next poll; else the deadline */
    int64_t attempt_us; /* when the poll under way was due: connecting counts as part of it */
    int64_t connect_us; /* when the last session was begun */
    int64_t sent_real_us;
    int failures;
    bool phased;       /* its polls have their own moment within the interval */
    bool failing;      /* the last attempt was not good */
    size_t first_host; /* moves on when a host gives no answer: libpq would begin with it again */
    struct snapshot *snapshot; /* the last good one */
    int64_t success_us;
    struct poll_stats stats;
    char *reason; /* of the last failure, to log a change only */
    bool *section_up;
    size_t n_section_up;
    bool greeted; /* this session was logged */
};

struct watch *watch_new(const struct watch_context *context, const struct config *config,
                        const struct config_server *server)
{
    struct watch *watch = xcalloc(1, sizeof *watch);
    watch->context = context;
    watch->server = server;
    watch->collector = collector_new(config, server);
    watch->pace.configured_us = config->poll_interval_us;
    watch->silent_after_s = config->silent_after_s;
    watch->due_us = clock_monotonic_us();
    watch->attempt_us = watch->due_us;
    watch->success_us = TIME_UNKNOWN;
    return watch;
}

void watch_free(struct watch *watch)
{
    if (!watch)
        return;
    pg_batch_free(watch->batch);
    pg_conn_close(watch->conn);
    collector_free(watch->collector);
    collector_free(watch->leaving);
    snapshot_unref(watch->snapshot);
    free(watch->reason);
    free(watch->section_up);
    free(watch);
}

void watch_inherit(struct watch *watch, struct watch *old)
{
    if (!text_equal(watch->server->name, old->server->name))
        return;
    watch->snapshot = STEAL(old->snapshot);
    watch->success_us = old->success_us;
    watch->stats = old->stats;
    watch->reason = STEAL(old->reason);
    bool same_door = text_equal(watch->server->conninfo, old->server->conninfo) &&
                     text_equal(watch->server->password_file, old->server->password_file) &&
                     text_equal(watch->server->password, old->server->password);
    if (!same_door || (old->state != WATCH_IDLE && old->state != WATCH_POLLING))
        return;
    watch->conn = STEAL(old->conn);
    watch->state = old->state;
    watch->greeted = old->greeted;
    if (old->state == WATCH_POLLING) {
        watch->batch = STEAL(old->batch);
        watch->leaving = old->leaving ? STEAL(old->leaving) : STEAL(old->collector);
        watch->due_us = old->due_us;
    }
    collector_connected(watch->collector, watch->conn);
}

void watch_wants(const struct watch *watch, struct pollfd *ret_fd)
{
    *ret_fd = (struct pollfd){.fd = -1};
    if (!watch->conn)
        return;
    ret_fd->fd = pg_conn_fd(watch->conn);
    ret_fd->events = pg_conn_events(watch->conn);
}

int64_t watch_due_us(const struct watch *watch)
{
    return watch->due_us;
}

/* Sections' names and words are copied: the collector may be gone before the last reader. */
static struct section *copy_sections(const struct watch *watch, size_t *ret_n)
{
    size_t n = 0;
    const struct section *from = collector_sections(watch->collector, &n);
    struct section *sections = xcalloc(n, sizeof *sections);
    *ret_n = 0;
    for (size_t i = 0; i < n; i++) {
        if (!from[i].known)
            continue;
        struct section *copy = &sections[(*ret_n)++];
        *copy = from[i];
        copy->name = xstrdup(from[i].name);
        copy->message = from[i].message ? xstrdup(from[i].message) : NULL;
    }
    return sections;
}

static void publish(struct watch *watch)
{
    struct published *published = xcalloc(1, sizeof *published);
    atomic_init(&published->references, 1);
    published->server = xstrdup(watch->server->name);
    published->expect = watch->server->expect;
    published->snapshot = snapshot_ref(watch->snapshot);
    published->success_monotonic_us = watch->success_us;
    published->fresh_for_us = pace_fresh_for_us(&watch->pace, watch->failing);
    published->sections = copy_sections(watch, &published->n_sections);
    published->stats = watch->stats;
    board_publish(watch->context->board, published);
}

static void log_sections(struct watch *watch)
{
    const struct poller_hooks *hooks = &watch->context->hooks;
    size_t n = 0;
    const struct section *sections = collector_sections(watch->collector, &n);
    watch->section_up = xreallocarray(watch->section_up, n, sizeof *watch->section_up);
    for (; watch->n_section_up < n; watch->n_section_up++)
        watch->section_up[watch->n_section_up] = true; /* so that a first failure is told */
    for (size_t i = 0; i < n; i++) {
        if (!sections[i].known || sections[i].up == watch->section_up[i])
            continue;
        watch->section_up[i] = sections[i].up;
        if (hooks->section)
            hooks->section(hooks->context, watch->server->name, &sections[i]);
    }
}

static void log_failure(struct watch *watch, const struct error *err)
{
    const struct poller_hooks *hooks = &watch->context->hooks;
    if (text_equal(watch->reason, err->message))
        return;
    free(watch->reason);
    watch->reason = xstrdup(err->message);
    if (hooks->failed)
        hooks->failed(hooks->context, watch->server->name, err);
}

static void log_success(struct watch *watch)
{
    const struct poller_hooks *hooks = &watch->context->hooks;
    const struct snapshot *snapshot = watch->snapshot;
    free(STEAL(watch->reason));
    if (!watch->greeted && hooks->connected)
        hooks->connected(hooks->context, watch->server->name, snapshot->facts.direct,
                         snapshot->facts.version);
    watch->greeted = true;
    for (size_t i = 0; i < snapshot->n_events && hooks->event; i++)
        hooks->event(hooks->context, watch->server->name, &snapshot->events[i]);
}

static uint32_t random_number(void)
{
    uint32_t random = 0;
    (void)!getrandom(&random, sizeof random, 0);
    return random;
}

static void count_poll(struct watch *watch, int64_t now)
{
    struct poll_stats *stats = &watch->stats;
    int64_t took = now - watch->attempt_us;
    int bucket = 0;
    while (took > poll_bucket_us[bucket])
        bucket++;
    stats->polls[bucket]++;
    stats->poll_sum_us += took;
    stats->last_poll_us = clock_realtime_us();
    stats->tried = true;
}

static bool fresh(const struct watch *watch, int64_t now)
{
    return watch->success_us != TIME_UNKNOWN &&
           now - watch->success_us <= pace_fresh_for_us(&watch->pace, true);
}

/* Pauses grow only once the picture is old: a restart that is quicker than that goes unnoticed. */
static void count_failure(struct watch *watch, int64_t now)
{
    if (watch->failures < 2 || !fresh(watch, now))
        watch->failures++;
}

/* The session is lost, or its poll is: tries again at once the first time, later with jitter. */
static void fail(struct watch *watch, const struct error *err)
{
    int64_t now = clock_monotonic_us();
    pg_batch_free(STEAL(watch->batch));
    collector_free(STEAL(watch->leaving));
    if (err->kind == ERROR_TIMEOUT && watch->state == WATCH_POLLING)
        pg_conn_abandon(STEAL(watch->conn));
    else
        pg_conn_close(STEAL(watch->conn));
    watch->greeted = false;
    watch->state = WATCH_DOWN;
    watch->failing = true;
    count_failure(watch, now);
    count_poll(watch, now);
    collector_failed(watch->collector, err);
    watch->due_us =
        now + pace_reconnect_us(watch->failures, now - watch->connect_us, random_number());
    watch->attempt_us = watch->due_us;
    log_failure(watch, err);
    publish(watch);
}

static void start_connecting(struct watch *watch)
{
    struct error err = {0};
    const struct pg_conn_options options = {
        .conninfo = watch->server->conninfo,
        .application_name = watch->context->application_name,
        .password = watch->server->password,
        .password_file = watch->server->password_file,
        .first_host = watch->first_host,
        .silent_after_s = watch->silent_after_s,
    };
    watch->connect_us = clock_monotonic_us();
    watch->conn = pg_conn_start(&options, &err);
    if (!watch->conn) {
        fail(watch, &err);
        return;
    }
    watch->state = WATCH_CONNECTING;
    watch->due_us = clock_monotonic_us() + pace_connect_deadline_us(&watch->pace);
}

static void go_on_polling(struct watch *watch);

/* Sending reads as well: an answer that is complete already would wake nobody up. */
static void start_poll(struct watch *watch)
{
    struct error err = {0};
    size_t n = 0;
    int64_t now = clock_monotonic_us();
    const struct pg_section *plan = collector_plan(watch->collector, now, &n);
    watch->sent_real_us = clock_realtime_us();
    watch->batch = pg_batch_start(watch->conn, plan, n, &err);
    watch->state = WATCH_POLLING;
    watch->due_us = now + pace_poll_deadline_us(&watch->pace);
    if (watch->batch)
        go_on_polling(watch);
    else
        fail(watch, &err);
}

static void go_on_connecting(struct watch *watch)
{
    struct error err = {0};
    switch (pg_conn_connect(watch->conn, &err)) {
    case PG_AGAIN:
        return;
    case PG_FAILED:
        fail(watch, &err);
        return;
    case PG_DONE:
        break;
    }
    watch->stats.connects++;
    collector_connected(watch->collector, watch->conn);
    start_poll(watch);
}

/* The second poll comes at a moment of its own within the interval: servers that began together
 * (or databases of one machine) are not to be asked all at once ever after. */
static void schedule_next(struct watch *watch, int64_t now)
{
    int64_t interval = pace_interval_us(&watch->pace, watch->snapshot);
    watch->stats.interval_us = interval;
    if (collector_incomplete(watch->collector)) {
        watch->due_us = watch->attempt_us = now;
        return;
    }
    if (!watch->phased && watch->snapshot) {
        watch->phased = true;
        watch->attempt_us = now - random_number() % interval;
    }
    watch->due_us = watch->attempt_us + interval;
    if (watch->due_us < now)
        watch->due_us = now + interval; /* fell behind: no burst to catch up */
    watch->attempt_us = watch->due_us;
}

/* Makes the picture of what the batch has; false if it has not enough. */
static bool take_picture(struct watch *watch, int64_t now, struct error *err)
{
    int64_t ended_real_us = clock_realtime_us();
    struct snapshot *snapshot = collector_take(watch->collector, watch->batch, watch->snapshot,
                                               watch->sent_real_us, ended_real_us, err);
    pg_batch_free(STEAL(watch->batch));
    watch->failing = !snapshot;
    if (!snapshot)
        return false;
    history_advance(watch->snapshot, snapshot);
    snapshot_unref(watch->snapshot);
    watch->snapshot = snapshot;
    watch->success_us = now;
    watch->stats.last_success_us = ended_real_us;
    watch->failures = 0;
    pace_note_cost(&watch->pace, collector_cost_us(watch->collector));
    log_success(watch);
    return true;
}

static void finish_poll(struct watch *watch)
{
    struct error err = {0};
    int64_t now = clock_monotonic_us();
    watch->state = WATCH_IDLE;
    if (!take_picture(watch, now, &err))
        log_failure(watch, &err);
    count_poll(watch, now);
    log_sections(watch);
    schedule_next(watch, now);
    publish(watch);
}

/* The poll of the configuration before is over; now that of this one. */
static void leave(struct watch *watch)
{
    pg_batch_free(STEAL(watch->batch));
    collector_free(STEAL(watch->leaving));
    watch->attempt_us = clock_monotonic_us();
    start_poll(watch);
}

/* The deadline is there. What was answered makes a picture all the same, if it is enough for one:
 * then only the sections that held the poll up have failed. */
static void break_off_poll(struct watch *watch, struct error *err)
{
    int64_t now = clock_monotonic_us();
    pg_batch_give_up(watch->batch, err);
    if (watch->leaving || !take_picture(watch, now, err)) {
        fail(watch, err);
        return;
    }
    pg_conn_abandon(STEAL(watch->conn));
    watch->greeted = false;
    watch->state = WATCH_DOWN;
    count_poll(watch, now);
    log_sections(watch);
    watch->due_us = watch->attempt_us = now;
    publish(watch);
}

static void go_on_polling(struct watch *watch)
{
    struct error err = {0};
    switch (pg_batch_step(watch->batch, &err)) {
    case PG_AGAIN:
        return;
    case PG_FAILED:
        fail(watch, &err);
        return;
    case PG_DONE:
        if (watch->leaving)
            leave(watch);
        else
            finish_poll(watch);
        return;
    }
}

static void listen_idle(struct watch *watch)
{
    struct error err = {0};
    if (!pg_conn_idle(watch->conn, &err)) {
        watch->attempt_us = clock_monotonic_us();
        fail(watch, &err);
    }
}

static void set_timeout(struct error *err, const char *what, int64_t deadline_us)
{
    (void)error_set(err, ERROR_TIMEOUT, "could not %s: no answer within %.1f s", what,
                    (double)deadline_us / SECOND_US);
}

static void run_out(struct watch *watch)
{
    struct error err = {0};
    bool looking_up = watch->state == WATCH_CONNECTING && pg_conn_looking_up(watch->conn);
    switch (watch->state) {
    case WATCH_DOWN:
        watch->attempt_us = clock_monotonic_us();
        start_connecting(watch);
        return;
    case WATCH_IDLE:
        start_poll(watch);
        return;
    case WATCH_CONNECTING:
        set_timeout(&err, looking_up ? "look up the host" : "connect",
                    pace_connect_deadline_us(&watch->pace));
        watch->first_host += !looking_up;
        break;
    case WATCH_POLLING:
        set_timeout(&err, "poll", pace_poll_deadline_us(&watch->pace));
        break_off_poll(watch, &err);
        return;
    }
    fail(watch, &err);
}

struct pg_session *watch_take_session(struct watch *watch)
{
    if (watch->state != WATCH_IDLE)
        return NULL;
    watch->state = WATCH_DOWN;
    watch->greeted = false;
    return STEAL(watch->conn);
}

void watch_hurry(struct watch *watch)
{
    if (watch->state == WATCH_IDLE || watch->state == WATCH_DOWN)
        watch->due_us = watch->attempt_us = clock_monotonic_us();
}

void watch_step(struct watch *watch, bool ready)
{
    if (ready && watch->state == WATCH_CONNECTING)
        go_on_connecting(watch);
    else if (ready && watch->state == WATCH_POLLING)
        go_on_polling(watch);
    else if (ready && watch->state == WATCH_IDLE)
        listen_idle(watch);
    if (clock_monotonic_us() >= watch->due_us)
        run_out(watch);
}
