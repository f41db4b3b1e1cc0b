/* SPDX-License-Identifier: PostgreSQL */
/* When one look is enough, and when a second one is needed. */
#include "tui/status_look.h"

#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "observe/poller.h"

/* The second attempt comes at once and forgives a server that was just restarting, or a first host
 * that does not answer. Polls that follow each other at once find the ledger, read it, and then the
 * rows and sessions that it names; one more tells a contest from a handover that was caught half
 * way. */
enum { ATTEMPTS = 2, POLLS_WITH_LEDGER = 3, POLLS_MOST = 4 };

struct status_look {
    struct board *board;
    struct poller *poller;
    const char *only;   /* NULL: every duty */
    struct pollfd *fds; /* the last one is for stop_fd */
};

struct status_look *status_look_new(struct config *config)
{
    const struct poller_hooks hooks = {0};
    struct status_look *look = xcalloc(1, sizeof *look);
    look->board = board_new();
    look->poller = poller_new(look->board, "pgleader", &hooks);
    look->only = config->only_duty;
    board_set_servers(look->board, config);
    poller_set_config(look->poller, config);
    look->fds = xcalloc(poller_room(look->poller) + 1, sizeof *look->fds);
    return look;
}

struct config *status_look_stop(struct status_look *look)
{
    struct config *config = poller_stop(look->poller);
    board_free(look->board);
    free(look->fds);
    free(look);
    return config;
}

struct pg_session *status_look_session(struct status_look *look, const char *server)
{
    return poller_take_session(look->poller, server);
}

void status_look_free(struct status_look *look)
{
    config_free(status_look_stop(look));
}

static uint64_t attempts(const struct poll_stats *stats)
{
    uint64_t n = 0;
    for (size_t i = 0; i < POLL_BUCKETS; i++)
        n += stats->polls[i];
    return n;
}

/* Who that is, or whether two really contend, is left to another poll. */
static bool leaves_open(const struct snapshot *snapshot, const struct duty *duty, bool names)
{
    bool nameless = names && duty->owners > 0 && duty->owner.pid > 0 && !duty->owner.usename;
    bool unread = !duty->read && !snapshot->facts.in_recovery;
    return nameless || unread || duty->trail.strangers == 1 || duty->trail.rivals == 1;
}

/* NULL while it was not asked. */
static const struct section *ledger_of(const struct published *server)
{
    for (size_t i = 0; i < server->n_sections; i++) {
        if (text_equal(server->sections[i].name, "ledger"))
            return &server->sections[i];
    }
    return NULL;
}

/* A first poll finds out that there is a ledger, the next one reads it. */
bool status_look_complete(const struct published *server, bool fresh)
{
    const struct snapshot *snapshot = server->snapshot;
    return fresh && snapshot && (snapshot->facts.ledger_version == 0 || ledger_of(server));
}

/* One duty alone: nobody asks for the names of roles, nor what the other duties leave open. */
static bool only_is_open(const struct published *server, const char *only, uint64_t n)
{
    const struct snapshot *snapshot = server->snapshot;
    const struct duty *duty = snapshot_find(snapshot, only);
    const struct section *ledger = ledger_of(server);
    bool read = snapshot->facts.ledger_version == 0 || (ledger && ledger->up);
    return (!read && n < POLLS_WITH_LEDGER) || (duty && leaves_open(snapshot, duty, false));
}

static bool every_is_open(const struct snapshot *snapshot, uint64_t n)
{
    bool open = snapshot->facts.ledger_version != 0 && n < POLLS_WITH_LEDGER;
    for (size_t i = 0; i < snapshot->n_duties; i++)
        open = open || leaves_open(snapshot, &snapshot->duties[i], true);
    return open;
}

static bool enough_of(const struct published *server, bool fresh, const char *only)
{
    const struct snapshot *snapshot = server->snapshot;
    uint64_t n = attempts(&server->stats);
    if (!fresh)
        return n >= ATTEMPTS;
    bool open = only ? only_is_open(server, only, n) : every_is_open(snapshot, n);
    return !open || n >= POLLS_MOST;
}

static bool enough(struct status_look *look)
{
    struct picture picture;
    bool all = true;
    board_take(look->board, &picture);
    for (size_t i = 0; i < picture.n; i++)
        all = all && enough_of(picture.servers[i], picture.fresh[i], look->only);
    picture_done(&picture);
    return all;
}

enum status_look_end status_look_wait(struct status_look *look, bool always, int64_t deadline_us,
                                      int stop_fd)
{
    while (always || !enough(look)) {
        int64_t left = deadline_us - clock_monotonic_us();
        if (left <= 0)
            return LOOK_LATE;
        int timeout_ms = 0;
        size_t n = poller_prepare(look->poller, look->fds, &timeout_ms);
        int most_ms = (int)(left / 1000) + 1;
        if (timeout_ms < 0 || timeout_ms > most_ms)
            timeout_ms = most_ms;
        look->fds[n] = (struct pollfd){.fd = stop_fd, .events = POLLIN};
        (void)poll(look->fds, (nfds_t)n + 1, timeout_ms);
        if (look->fds[n].revents)
            return LOOK_STOPPED;
        poller_step(look->poller, look->fds, n);
    }
    return LOOK_ENOUGH;
}

void status_look_take(struct status_look *look, struct picture *ret_picture)
{
    board_take(look->board, ret_picture);
}
