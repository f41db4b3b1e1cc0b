/* SPDX-License-Identifier: PostgreSQL */
/* From options to a configuration, and from that to a picture. */
#include "tui/servers.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "observe/poller.h"

static bool is_wanted(const struct option_list *only, const char *name)
{
    for (int i = 0; i < only->n; i++) {
        if (text_equal(only->items[i], name))
            return true;
    }
    return only->n == 0;
}

/* Keeps the servers that --server names; false where it names one that is not there. */
static bool keep_wanted(struct config *config, const struct option_list *only, const char *command)
{
    struct config_server *kept =
        arena_array(config->arena, config->n_servers ? config->n_servers : 1, sizeof *kept);
    size_t n = 0;
    for (int i = 0; i < only->n; i++) {
        bool found = false;
        for (size_t s = 0; s < config->n_servers; s++)
            found = found || text_equal(config->servers[s].name, only->items[i]);
        if (!found) {
            (void)fprintf(stderr,
                          "pgleader %s: could not find server \"%s\" in the configuration\n",
                          command, only->items[i]);
            return false;
        }
    }
    for (size_t s = 0; s < config->n_servers; s++) {
        if (is_wanted(only, config->servers[s].name))
            kept[n++] = config->servers[s];
    }
    config->servers = kept;
    config->n_servers = n;
    return true;
}

bool servers_read(const struct server_options *options, const char *command,
                  struct config **ret_config)
{
    struct problems problems = {0};
    const char *file = options->config_file ? options->config_file : getenv("PGLEADER_CONFIG");
    bool from_file = options->config_file || (file && *file && !options->conninfo);
    bool ok = from_file ? config_load(file, ret_config, &problems)
                        : config_from_conninfo(options->conninfo, ret_config, &problems);
    for (size_t i = 0; i < problems.n; i++)
        (void)fprintf(stderr, "pgleader %s: %s\n", command, problems.items[i]);
    problems_done(&problems);
    if (!ok)
        return false;
    (*ret_config)->discovery_after_us = 0;
    if (keep_wanted(*ret_config, &options->only, command))
        return true;
    config_free(STEAL(*ret_config));
    return false;
}

/* Every server has ended its first poll, well or badly. */
static bool all_tried(struct board *board)
{
    struct picture picture;
    bool all = true;
    board_take(board, &picture);
    for (size_t i = 0; i < picture.n; i++)
        all = all && picture.servers[i] && picture.servers[i]->stats.tried;
    picture_done(&picture);
    return all;
}

void servers_look(struct config *config, int64_t within_us, struct picture *ret_picture)
{
    const struct poller_hooks hooks = {0};
    struct board *board = board_new();
    struct poller *poller = poller_new(board, "pgleader", &hooks);
    int64_t deadline = clock_monotonic_us() + within_us, left = within_us;
    board_set_servers(board, config);
    poller_set_config(poller, config);
    size_t room = poller_room(poller);
    struct pollfd *fds = xcalloc(room ? room : 1, sizeof *fds);
    while (!all_tried(board) && (left = deadline - clock_monotonic_us()) > 0) {
        int timeout_ms = 0;
        size_t n = poller_prepare(poller, fds, &timeout_ms);
        int most_ms = (int)(left / 1000) + 1;
        (void)poll(fds, (nfds_t)n, timeout_ms >= 0 && timeout_ms < most_ms ? timeout_ms : most_ms);
        poller_step(poller, fds, n);
    }
    board_take(board, ret_picture);
    free(fds);
    poller_free(poller);
    board_free(board);
}
