/* SPDX-License-Identifier: PostgreSQL */
/* A server that is polled by hand: which locks are held at which second, and the picture of it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "observe/duties.h"

/* Zero-initialise, or scene_of; the last picture is the caller's to snapshot_unref. */
struct scene {
    struct config config;
    struct config_server server;
    struct definitions definitions;
    struct snapshot *last;
};

/* A lock that one session holds, or waits for. */
struct held {
    struct lock_key key;
    int32_t pid;
    bool waits, shared;
};

/* A scene with discovery. */
struct scene scene_of(int64_t after_us, int limit);

/* A duty that declares nothing. */
struct config_duty lock_duty(const char *name, int64_t key);
struct config_duty lease_duty(const char *name, const char *table, const char *row);

/* What the registry and the config name; they must outlive the scene. */
void name_duties(struct scene *scene, const struct config_duty *registry, size_t n_registry,
                 const struct config_duty *config, size_t n_config);

/* An exclusive lock that is held. */
struct held held_by(int64_t key, int32_t pid);

/* A poll: these locks are held at that second. The picture is scene->last. */
const struct snapshot *look_at(struct scene *scene, int64_t second, const struct held *held,
                               size_t n);

/* The names in a picture, with spaces between; until the next call. */
const char *names_in(const struct snapshot *snapshot);
