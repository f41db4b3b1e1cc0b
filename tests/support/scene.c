/* SPDX-License-Identifier: PostgreSQL */
/* Pictures from locks that are held by hand. */
#include "tests/support/scene.h"

#include <stdio.h>

#include "base/arena.h"
#include "observe/history.h"

static const int64_t origin_us = INT64_C(1700000000) * SECOND_US;
enum { OURS = 5 };

static const struct thresholds nothing_declared = {-1, -1, -1, -1, -1, TIME_UNKNOWN};

struct config_duty lock_duty(const char *name, int64_t key)
{
    return (struct config_duty){
        .name = name, .key = lock_key_from_int8(key), .limits = nothing_declared};
}

struct config_duty lease_duty(const char *name, const char *table, const char *row)
{
    return (struct config_duty){.name = name,
                                .mechanism = MECHANISM_LEASE,
                                .lease = {.table = table, .row = row},
                                .limits = nothing_declared};
}

struct scene scene_of(int64_t after_us, int limit)
{
    return (struct scene){.config = {.discovery_enabled = true,
                                     .discovery_after_us = after_us,
                                     .discovery_limit = limit}};
}

void name_duties(struct scene *scene, const struct config_duty *registry, size_t n_registry,
                 const struct config_duty *config, size_t n_config)
{
    scene->definitions.registry = registry;
    scene->definitions.n_registry = n_registry;
    scene->server.duties = config;
    scene->server.n_duties = n_config;
}

static void fill(struct duty *duty, const struct sessions *sessions, int64_t at_us)
{
    size_t n = 0;
    const struct lock_row *const *rows = sessions_of_key(sessions, duty->key, &n);
    duty->read = true;
    duty->read_lower_us = duty->read_upper_us = at_us;
    for (size_t i = 0; i < n; i++) {
        duty->owners += rows[i]->granted && rows[i]->exclusive;
        duty->shared_owners += rows[i]->granted && !rows[i]->exclusive;
    }
    duty->owner = (struct owner){.pid = n ? rows[0]->pid : 0, .holder = "w"};
}

static const struct snapshot *look(struct scene *scene, int64_t at_us, const struct held *held,
                                   size_t n)
{
    struct snapshot *next = snapshot_new();
    struct lock_row *rows = arena_array(next->arena, n, sizeof *rows);
    struct sessions sessions;
    for (size_t i = 0; i < n; i++) {
        rows[i] = (struct lock_row){.classid = held[i].key.classid,
                                    .objid = held[i].key.objid,
                                    .objsubid = held[i].key.objsubid,
                                    .lock_database = OURS,
                                    .exclusive = !held[i].shared,
                                    .granted = !held[i].waits,
                                    .pid = held[i].pid,
                                    .session_database = OURS};
    }
    sessions_index(rows, n, OURS, next->arena, &sessions);
    next->read_lower_us = next->read_upper_us = at_us;
    scene->definitions.server = &scene->server;
    struct named *named = named_new(&scene->definitions);
    duties_list(next, named, &scene->config, &sessions, scene->last);
    named_free(named);
    for (size_t i = 0; i < next->n_duties; i++)
        fill(&next->duties[i], &sessions, at_us);
    history_advance(scene->last, next);
    snapshot_unref(scene->last);
    return scene->last = next;
}

const struct snapshot *look_at(struct scene *scene, int64_t second, const struct held *held,
                               size_t n)
{
    return look(scene, origin_us + second * SECOND_US, held, n);
}

const char *names_in(const struct snapshot *snapshot)
{
    static char text[512];
    FILE *out = fmemopen(text, sizeof text, "w");
    for (size_t i = 0; i < snapshot->n_duties; i++)
        (void)fprintf(out, "%s%s", i ? " " : "", snapshot->duties[i].name);
    (void)putc('\0', out);
    (void)fclose(out);
    return text;
}

struct held held_by(int64_t key, int32_t pid)
{
    return (struct held){.key = lock_key_from_int8(key), .pid = pid};
}
