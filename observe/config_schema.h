/* SPDX-License-Identifier: PostgreSQL */
/* The keys of the configuration file, and the reading of one server and one duty. Only config.c and
 * the tests know it. */
#pragma once

#include "observe/config.h"
#include "observe/yaml_table.h"

/* A duty as it stands in the file, before it is put on its servers. */
struct duty_entry {
    struct config_duty duty;
    const struct yaml_node *servers; /* the list of names, or NULL */
    const struct yaml_node *lock, *lease, *progress;
    bool identified; /* its lock, or its lease's table and row, could be read */
};

struct server_entry {
    struct config_server server;
    int line;
    const struct yaml_node *duties; /* or NULL */
};

/* The file's top level; discovery and poll go straight into the config. */
struct file_entry {
    const struct yaml_node *servers, *duties, *discovery, *poll; /* each may be NULL */
};

void config_read_top(struct yaml_reader *reader, const struct yaml_node *root,
                     struct file_entry *entry, struct config *config);
void config_read_server(struct yaml_reader *reader, const struct yaml_node *node,
                        struct server_entry *entry);

/* top: a duty of the top level, which may carry `servers`. */
void config_read_duty(struct yaml_reader *reader, const struct yaml_node *node, bool top,
                      struct duty_entry *entry);

/* NULL, or why that cannot be a server's name ("is longer than 200 bytes"). */
const char *config_check_name(const char *name);

/* A config without servers, everything else at its default; path may be NULL. */
struct config *config_new(const char *path);

/* config_load of text in memory; path is for the messages. */
bool config_parse(const char *path, const char *text, size_t size, struct config **ret_config,
                  struct problems *problems) MUSTCHECK;

/* All tables; ended by NULL. */
extern const struct yaml_table *const config_tables[];

/* The one server that a conninfo, or with NULL the environment, names (see config_from_conninfo).
 */
bool config_one_server(struct arena *arena, const char *conninfo, struct config_server *ret_server,
                       struct problems *problems) MUSTCHECK;
