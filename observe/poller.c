/* SPDX-License-Identifier: PostgreSQL */
/* The loop's body: a list of watches, each stepped when its descriptor or its time is due. */
#include "observe/poller.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "observe/watch.h"

struct poller {
    struct watch_context context;
    struct config *config;
    struct watch **watches;
    size_t n;
    char *application_name;
};

/* The loop comes round at least this often, so that a stuck one is noticed. */
static const int64_t longest_wait_us = SECOND_US;

struct poller *poller_new(struct board *board, const char *application_name,
                          const struct poller_hooks *hooks)
{
    struct poller *poller = xcalloc(1, sizeof *poller);
    poller->application_name = xstrdup(application_name);
    poller->context = (struct watch_context){
        .board = board, .hooks = *hooks, .application_name = poller->application_name};
    return poller;
}

static void free_watches(struct watch **watches, size_t n)
{
    for (size_t i = 0; i < n; i++)
        watch_free(watches[i]);
    free(watches);
}

struct config *poller_stop(struct poller *poller)
{
    struct config *config = poller->config;
    free_watches(poller->watches, poller->n);
    free(poller->application_name);
    free(poller);
    return config;
}

void poller_free(struct poller *poller)
{
    if (poller)
        config_free(poller_stop(poller));
}

void poller_set_config(struct poller *poller, struct config *config)
{
    struct watch **watches = xcalloc(config->n_servers, sizeof *watches);
    for (size_t i = 0; i < config->n_servers; i++) {
        watches[i] = watch_new(&poller->context, config, &config->servers[i]);
        for (size_t j = 0; j < poller->n; j++)
            watch_inherit(watches[i], poller->watches[j]);
    }
    free_watches(poller->watches, poller->n);
    config_free(poller->config);
    poller->watches = watches;
    poller->n = config->n_servers;
    poller->config = config;
    board_set_servers(poller->context.board, config);
}

void poller_hurry(struct poller *poller)
{
    for (size_t i = 0; i < poller->n; i++)
        watch_hurry(poller->watches[i]);
}

struct pg_session *poller_take_session(struct poller *poller, const char *server)
{
    for (size_t i = 0; i < poller->n; i++) {
        if (text_equal(poller->config->servers[i].name, server))
            return watch_take_session(poller->watches[i]);
    }
    return NULL;
}

size_t poller_room(const struct poller *poller)
{
    return poller->n;
}

size_t poller_prepare(struct poller *poller, struct pollfd *fds, int *ret_timeout_ms)
{
    int64_t now = clock_monotonic_us();
    int64_t due = now + longest_wait_us;
    for (size_t i = 0; i < poller->n; i++) {
        watch_wants(poller->watches[i], &fds[i]);
        int64_t watch_due = watch_due_us(poller->watches[i]);
        if (watch_due < due)
            due = watch_due;
    }
    *ret_timeout_ms = due > now ? (int)((due - now + 999) / 1000) : 0;
    return poller->n;
}

void poller_step(struct poller *poller, const struct pollfd *fds, size_t n)
{
    for (size_t i = 0; i < n && i < poller->n; i++)
        watch_step(poller->watches[i], fds[i].revents != 0);
}
