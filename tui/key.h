/* SPDX-License-Identifier: PostgreSQL */
/* One lock key, what it is compared with, and what came of it. */
#pragma once

#include <stdio.h>

#include "base/arena.h"
#include "observe/config.h"
#include "tui/registry.h"

enum { KEY_COLLISION = 1 }; /* exit status */

/* One server that was asked. */
struct key_source {
    const struct config_server *server;
    struct registry registry;
    struct arena *arena; /* of the registry */
};

/* Another duty, or other software, that has the key. */
struct key_collision {
    const char *server; /* NULL for other software */
    const char *source; /* "registry", "config" or "known" */
    const char *with;   /* the duty, or the software */
    bool reserved;      /* the duty is to move to that key */
};

struct key_report {
    struct arena *arena;
    const char *duty;        /* NULL: a key was given */
    const char *environment; /* NULL: not derived */
    struct lock_key key;     /* objsubid 0: not known yet */
    struct key_source *sources;
    size_t n_sources;
    struct key_collision *collisions; /* with another duty */
    size_t n_collisions;
    struct key_collision *remarks; /* with other software, and this duty where it has the key */
    size_t n_remarks;
    const char **others; /* sentences: the duty is registered with another key */
    size_t n_others;
    char *connect; /* the server as psql takes it, or NULL */
};

int key_run(int argc, char **argv);

/* Sets the key of report->duty from what a registry or the configuration has; false if none has. */
bool key_look_up(struct key_report *report);

/* Fills collisions, remarks and others. */
void key_compare(struct key_report *report);

void key_print(const struct key_report *report, bool json, FILE *out);
