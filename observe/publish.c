/* SPDX-License-Identifier: PostgreSQL */
/* The board: one slot a server, swapped under one mutex. */
#include "observe/publish.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

const int64_t poll_bucket_us[POLL_BUCKETS] = {
    500,    1000,   2500,   5000,      10000,         25000,
    100000, 250000, 500000, SECOND_US, 5 * SECOND_US, INT64_MAX,
};

struct board {
    pthread_mutex_t mutex;
    struct published **slots;
    size_t n;
    uint64_t serial;
    bool reload_ok;
    int64_t reload_us;
};

static void free_sections(struct section *sections, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free((char *)sections[i].name);
        free((char *)sections[i].message);
    }
    free(sections);
}

void published_unref(struct published *published)
{
    if (!published || atomic_fetch_sub(&published->references, 1) != 1)
        return;
    snapshot_unref(published->snapshot);
    free_sections(published->sections, published->n_sections);
    free((char *)published->server);
    free(published);
}

bool published_fresh(const struct published *published, int64_t now_us)
{
    return published->snapshot && published->success_monotonic_us != TIME_UNKNOWN &&
           now_us - published->success_monotonic_us <= published->fresh_for_us;
}

struct board *board_new(void)
{
    struct board *board = xcalloc(1, sizeof *board);
    (void)pthread_mutex_init(&board->mutex, NULL);
    board->reload_ok = true;
    return board;
}

static void free_slots(struct published **slots, size_t n)
{
    for (size_t i = 0; i < n; i++)
        published_unref(slots[i]);
    free(slots);
}

void board_free(struct board *board)
{
    if (!board)
        return;
    free_slots(board->slots, board->n);
    (void)pthread_mutex_destroy(&board->mutex);
    free(board);
}

static struct published *published_empty(const struct config_server *server)
{
    struct published *published = xcalloc(1, sizeof *published);
    atomic_init(&published->references, 1);
    published->server = xstrdup(server->name);
    published->expect = server->expect;
    published->success_monotonic_us = TIME_UNKNOWN;
    return published;
}

static int find_slot(struct published *const *slots, size_t n, const char *server)
{
    for (size_t i = 0; i < n; i++) {
        if (slots[i] && strcmp(slots[i]->server, server) == 0)
            return (int)i;
    }
    return -1;
}

void board_set_servers(struct board *board, const struct config *config)
{
    struct published **slots = xcalloc(config->n_servers, sizeof *slots);
    (void)pthread_mutex_lock(&board->mutex);
    for (size_t i = 0; i < config->n_servers; i++) {
        int old = find_slot(board->slots, board->n, config->servers[i].name);
        slots[i] = old >= 0 ? STEAL(board->slots[old]) : published_empty(&config->servers[i]);
    }
    struct published **old_slots = board->slots;
    size_t old_n = board->n;
    board->slots = slots;
    board->n = config->n_servers;
    board->serial++;
    (void)pthread_mutex_unlock(&board->mutex);
    free_slots(old_slots, old_n);
}

void board_publish(struct board *board, struct published *published)
{
    struct published *old = published;
    (void)pthread_mutex_lock(&board->mutex);
    int slot = find_slot(board->slots, board->n, published->server);
    if (slot >= 0) {
        published->serial = ++board->serial;
        old = board->slots[slot];
        board->slots[slot] = published;
    }
    (void)pthread_mutex_unlock(&board->mutex);
    published_unref(old);
}

void board_set_reload(struct board *board, bool ok, int64_t at_us)
{
    (void)pthread_mutex_lock(&board->mutex);
    board->reload_ok = ok;
    if (ok)
        board->reload_us = at_us;
    (void)pthread_mutex_unlock(&board->mutex);
}

void board_take(struct board *board, struct picture *ret_picture)
{
    int64_t now = clock_monotonic_us();
    (void)pthread_mutex_lock(&board->mutex);
    struct picture picture = {
        .servers = xcalloc(board->n, sizeof *picture.servers),
        .fresh = xcalloc(board->n, sizeof *picture.fresh),
        .n = board->n,
        .serial = board->serial,
        .taken_us = now,
        .reload_ok = board->reload_ok,
        .reload_us = board->reload_us,
    };
    for (size_t i = 0; i < board->n; i++) {
        picture.servers[i] = board->slots[i];
        atomic_fetch_add(&picture.servers[i]->references, 1);
    }
    (void)pthread_mutex_unlock(&board->mutex);
    for (size_t i = 0; i < picture.n; i++)
        picture.fresh[i] = published_fresh(picture.servers[i], now);
    *ret_picture = picture;
}

void picture_done(struct picture *picture)
{
    free_slots(picture->servers, picture->n);
    free(picture->fresh);
    *picture = (struct picture){0};
}

int picture_find(const struct picture *picture, const char *server)
{
    return find_slot(picture->servers, picture->n, server);
}
