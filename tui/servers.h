/* SPDX-License-Identifier: PostgreSQL */
/* Which servers a subcommand looks at. */
#pragma once

#include <stdbool.h>

#include "base/option.h"
#include "observe/config.h"

struct server_options {
    const char *config_file; /* --config; else PGLEADER_CONFIG, unless there is a CONNINFO */
    struct option_list only; /* --server, repeatable: names from the config */
    char *conninfo;          /* the operand, or NULL; servers_read takes a password out of it */
};

/* The option rows of both, for a subcommand's table. */
#define SERVER_OPTIONS(options)                                                                    \
    {"config",          "FILE",        "The exporter's configuration.",                            \
     "PGLEADER_CONFIG", OPTION_STRING, &(options)->config_file},                                   \
    {                                                                                              \
        "server", "NAME", "Only that server of it; repeatable.", NULL, OPTION_LIST,                \
            &(options)->only                                                                       \
    }

/* CONNINFO, then --config, then PGLEADER_CONFIG, then what the environment says as for psql.
 * Both on one command line are refused: nobody could tell which server is meant. Discovered locks
 * are shown at once. False, with every mistake on standard error, where it cannot be read. */
bool servers_read(const struct server_options *options, const char *command,
                  struct config **ret_config) MUSTCHECK;
