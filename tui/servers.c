/* SPDX-License-Identifier: PostgreSQL */
/* From options to a configuration. */
#include "tui/servers.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/memory.h"
#include "base/text.h"
#include "pg/conninfo.h"

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
    if (options->conninfo && options->config_file) {
        (void)fprintf(stderr,
                      "pgleader %s: could not read the command line: CONNINFO and --config exclude "
                      "each other\n",
                      command);
        return false;
    }
    const char *file = options->config_file ? options->config_file : getenv("PGLEADER_CONFIG");
    bool from_file = options->config_file || (file && *file && !options->conninfo);
    bool ok = from_file ? config_load(file, ret_config, &problems)
                        : config_from_conninfo(options->conninfo, ret_config, &problems);
    for (size_t i = 0; i < problems.n; i++)
        (void)fprintf(stderr, "pgleader %s: %s\n", command, problems.items[i]);
    problems_done(&problems);
    if (options->conninfo)
        conninfo_hide_password(options->conninfo);
    if (!ok)
        return false;
    (*ret_config)->discovery_after_us = 0;
    if (keep_wanted(*ret_config, &options->only, command))
        return true;
    config_free(STEAL(*ret_config));
    return false;
}
