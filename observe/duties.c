/* SPDX-License-Identifier: PostgreSQL */
/* Named duties first, then discovery. */
#include "observe/duties.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/memory.h"
#include "base/text.h"
#include "observe/queue.h"
#include "observe/table_rows.h"

/* A released lock that was discovered stays as vacant for this long. */
static const int64_t discovery_keep_us = 15 * MINUTE_US;

/* A duty to be: small, so that sorting is cheap. `other` is a second definition that fills gaps of
 * the first. */
struct entry {
    const char *name;
    enum mechanism mechanism;
    enum duty_source source;
    struct lock_key key;
    const char *key_text;
    const struct thresholds *limits;
    const struct config_duty *definition, *other; /* NULL for a discovered duty, as limits are */
};

struct list {
    struct entry *entries;
    size_t n;
};

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int by_name = strcmp(x->name, y->name);
    return by_name ? by_name : (int)x->source - (int)y->source;
}

/* By what it is held by, then by source: the first of equals keeps its place. */
static int compare_authority(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->mechanism != y->mechanism)
        return (int)x->mechanism - (int)y->mechanism;
    int by_key = x->mechanism == MECHANISM_LOCK ? lock_key_compare(x->key, y->key)
                                                : strcmp(x->key_text, y->key_text);
    return by_key ? by_key : (int)x->source - (int)y->source;
}

static bool same_authority(const struct entry *a, const struct entry *b)
{
    if (a->mechanism != b->mechanism)
        return false;
    return a->mechanism == MECHANISM_LOCK ? lock_key_equal(a->key, b->key)
                                          : strcmp(a->key_text, b->key_text) == 0;
}

static const char *key_text_of(const struct config_duty *definition, struct arena *arena)
{
    char text[LOCK_KEY_TEXT_SIZE];
    if (definition->mechanism == MECHANISM_LEASE)
        return arena_printf(arena, "%s:%s", table_canonical(definition->lease.table, arena),
                            definition->lease.row);
    lock_key_format(definition->key, text);
    return arena_strdup(arena, text);
}

static void add_defined(struct list *list, const struct config_duty *definitions, size_t n,
                        enum duty_source source, struct arena *arena)
{
    for (size_t i = 0; i < n; i++) {
        list->entries[list->n++] = (struct entry){
            .name = definitions[i].name,
            .mechanism = definitions[i].mechanism,
            .source = source,
            .key = definitions[i].key,
            .key_text = key_text_of(&definitions[i], arena),
            .limits = &definitions[i].limits,
            .definition = &definitions[i],
        };
    }
}

static void sort_entries(struct list *list, int (*compare)(const void *, const void *))
{
    if (list->n > 1)
        qsort(list->entries, list->n, sizeof *list->entries, compare);
}

/* What the first definition does not declare, the second may. */
static int64_t declared(int64_t first, int64_t second, int64_t unknown)
{
    return first == unknown ? second : first;
}

static struct thresholds merge_limits(const struct thresholds *a, const struct thresholds *b)
{
    return (struct thresholds){
        .min_candidates = (int32_t)declared(a->min_candidates, b->min_candidates, -1),
        .stall_after_us = declared(a->stall_after_us, b->stall_after_us, -1),
        .run_every_us = declared(a->run_every_us, b->run_every_us, -1),
        .takeover_slow_after_us =
            declared(a->takeover_slow_after_us, b->takeover_slow_after_us, -1),
        .wait_slow_after_us = declared(a->wait_slow_after_us, b->wait_slow_after_us, -1),
        .alerts_paused_until_us =
            declared(a->alerts_paused_until_us, b->alerts_paused_until_us, TIME_UNKNOWN),
    };
}

static void add_other(struct entry *entry, const struct config_duty *other, struct arena *arena)
{
    const struct thresholds limits = merge_limits(entry->limits, &other->limits);
    entry->other = other;
    entry->limits = arena_copy(arena, &limits, sizeof limits);
}

/* One duty a lock or lease row, and one a name: the registry wins over the config. */
static void drop_shadowed(struct list *list, struct arena *arena)
{
    size_t left = 0;
    sort_entries(list, compare_authority);
    for (size_t i = 0; i < list->n; i++) {
        if (left > 0 && same_authority(&list->entries[left - 1], &list->entries[i]))
            add_other(&list->entries[left - 1], list->entries[i].definition, arena);
        else
            list->entries[left++] = list->entries[i];
    }
    list->n = left;
    sort_entries(list, compare_entries);
    left = 0;
    for (size_t i = 0; i < list->n; i++) {
        if (left == 0 || strcmp(list->entries[left - 1].name, list->entries[i].name) != 0)
            list->entries[left++] = list->entries[i];
    }
    list->n = left;
}

static int compare_keys(const void *a, const void *b)
{
    return lock_key_compare(*(const struct lock_key *)a, *(const struct lock_key *)b);
}

/* A sorted set of keys. */
struct key_set {
    struct lock_key *keys;
    size_t n;
};

struct named {
    struct arena *arena; /* shared with the pictures */
    struct list list;    /* by name */
    struct key_set keys; /* what they have or move to */
};

static struct key_set named_keys(const struct list *list, struct arena *arena)
{
    struct lock_key *keys = arena_array(arena, 2 * list->n, sizeof *keys);
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        const struct entry *entry = &list->entries[i];
        if (entry->mechanism == MECHANISM_LOCK)
            keys[n++] = entry->key;
        if (entry->definition->next_key.objsubid)
            keys[n++] = entry->definition->next_key;
    }
    if (n > 1)
        qsort(keys, n, sizeof *keys, compare_keys);
    return (struct key_set){keys, n};
}

struct named *named_new(const struct definitions *definitions)
{
    const struct config_server *server = definitions->server;
    struct named *named = xcalloc(1, sizeof *named);
    named->arena = arena_new();
    for (size_t i = 0; i < sizeof definitions->arenas / sizeof *definitions->arenas; i++) {
        if (definitions->arenas[i])
            arena_keep(named->arena, definitions->arenas[i]);
    }
    named->list.entries = arena_array(named->arena, definitions->n_registry + server->n_duties,
                                      sizeof *named->list.entries);
    add_defined(&named->list, definitions->registry, definitions->n_registry, SOURCE_LEDGER,
                named->arena);
    add_defined(&named->list, server->duties, server->n_duties, SOURCE_CONFIG, named->arena);
    drop_shadowed(&named->list, named->arena);
    named->keys = named_keys(&named->list, named->arena);
    return named;
}

void named_free(struct named *named)
{
    if (named)
        arena_free(named->arena);
    free(named);
}

static int compare_watched(const void *a, const void *b)
{
    const struct watched_lock *x = a, *y = b;
    int by_key = lock_key_compare(x->key, y->key);
    return by_key ? by_key : (x->pid > y->pid) - (x->pid < y->pid);
}

static const struct watched_lock *find_watched(const struct snapshot *snapshot, struct lock_key key,
                                               int32_t pid)
{
    struct watched_lock wanted = {.key = key, .pid = pid};
    if (!snapshot || snapshot->n_watched == 0)
        return NULL;
    return bsearch(&wanted, snapshot->watched, snapshot->n_watched, sizeof *snapshot->watched,
                   compare_watched);
}

static bool key_in(const struct key_set *set, struct lock_key key)
{
    return set->n > 0 && bsearch(&key, set->keys, set->n, sizeof *set->keys, compare_keys) != NULL;
}

/* The same for keys that come in order: *at moves on with them. */
static bool key_next_in(const struct key_set *set, size_t *at, struct lock_key key)
{
    while (*at < set->n && lock_key_compare(set->keys[*at], key) < 0)
        ++*at;
    return *at < set->n && lock_key_equal(set->keys[*at], key);
}

static bool of_ledger(struct lock_key key)
{
    return key.objsubid == LOCK_OBJSUBID_PAIR && key.classid == LOCK_LEDGER_CLASSID;
}

/* Held keys that nobody named: counts them and carries on since when each session has held its
 * lock. */
static void watch_unnamed(struct snapshot *snapshot, const struct sessions *sessions,
                          const struct key_set *named, const struct snapshot *previous)
{
    struct lock_key last = {0};
    size_t at = 0;
    struct watched_lock *watched = xcalloc(sessions->n_locks, sizeof *watched);
    snapshot->unregistered_locks = 0;
    queue_foreign(snapshot, sessions);
    for (size_t i = 0; i < sessions->n_locks; i++) {
        const struct lock_row *row = sessions->locks[i];
        struct lock_key key = lock_row_key(row);
        if (!row->granted || key_next_in(named, &at, key) || of_ledger(key))
            continue;
        if (!lock_key_equal(key, last))
            snapshot->unregistered_locks++;
        last = key;
        const struct watched_lock *before = find_watched(previous, key, row->pid);
        bool known = before && before->since_us <= snapshot->read_upper_us; /* a clock set back */
        watched[snapshot->n_watched++] =
            (struct watched_lock){.key = key,
                                  .pid = row->pid,
                                  .since_us = known ? before->since_us : snapshot->read_upper_us};
    }
    snapshot->watched = arena_array(snapshot->arena, snapshot->n_watched, sizeof *watched);
    memcpy(snapshot->watched, watched, snapshot->n_watched * sizeof *watched);
    free(watched);
}

static int compare_name(const void *name, const void *entry)
{
    return strcmp(name, ((const struct entry *)entry)->name);
}

/* A duty of that name stands for another lock and keeps the name: then there is nothing to add. */
static bool add_discovered(struct list *list, size_t n_named, struct lock_key key,
                           struct arena *arena)
{
    char text[LOCK_KEY_TEXT_SIZE];
    lock_key_format(key, text);
    const char *name = arena_printf(arena, DISCOVERED "%s", text);
    if (n_named > 0 && bsearch(name, list->entries, n_named, sizeof *list->entries, compare_name))
        return false;
    list->entries[list->n++] = (struct entry){.name = name,
                                              .key_text = name + strlen(DISCOVERED),
                                              .source = SOURCE_DISCOVERY,
                                              .key = key};
    return true;
}

static bool watched_now(const struct snapshot *snapshot, struct lock_key key)
{
    size_t low = 0, high = snapshot->n_watched;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lock_key_compare(snapshot->watched[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < snapshot->n_watched && lock_key_equal(snapshot->watched[low].key, key);
}

/* Members stay: as long as they are held, and a while after. */
static struct key_set keep_discovered(const struct snapshot *snapshot,
                                      const struct snapshot *previous, const struct key_set *named)
{
    struct key_set members = {.keys =
                                  xcalloc(previous ? previous->n_duties : 0, sizeof *members.keys)};
    for (size_t i = 0; previous && i < previous->n_duties; i++) {
        const struct duty *duty = &previous->duties[i];
        bool recent = duty->trail.seen_us != TIME_UNKNOWN &&
                      snapshot->read_upper_us - duty->trail.seen_us < discovery_keep_us;
        if (duty->source == SOURCE_DISCOVERY && !key_in(named, duty->key) &&
            (recent || watched_now(snapshot, duty->key)))
            members.keys[members.n++] = duty->key;
    }
    if (members.n > 1)
        qsort(members.keys, members.n, sizeof *members.keys, compare_keys);
    return members;
}

static bool is_sought(const struct config *config, struct lock_key key)
{
    return config->discovery_key.objsubid == 0 || lock_key_equal(config->discovery_key, key);
}

/* Locks that one session has held long enough join, while there is room. */
static void discover(struct list *list, const struct snapshot *snapshot,
                     const struct key_set *members, const struct config *config)
{
    size_t room = (size_t)config->discovery_limit, n_named = list->n;
    struct lock_key last = {0};
    for (size_t i = 0; i < members->n && room > 0; i++)
        room -= add_discovered(list, n_named, members->keys[i], snapshot->arena);
    for (size_t i = 0; i < snapshot->n_watched && room > 0; i++) {
        const struct watched_lock *lock = &snapshot->watched[i];
        int64_t held_us = snapshot->read_lower_us - lock->since_us;
        bool long_enough = config->discovery_after_us == 0 || held_us >= config->discovery_after_us;
        if (!long_enough || !is_sought(config, lock->key) || lock_key_equal(lock->key, last) ||
            key_in(members, lock->key))
            continue;
        room -= add_discovered(list, n_named, lock->key, snapshot->arena);
        last = lock->key;
    }
}

static void define_duty(struct duty *duty, const struct entry *entry)
{
    const struct config_duty *a = entry->definition, *b = entry->other ? entry->other : a;
    duty_init(duty);
    duty->source = entry->source;
    duty->mechanism = entry->mechanism;
    duty->key = entry->key;
    duty->key_text = entry->key_text;
    duty->name = entry->name;
    if (!a)
        return;
    duty->candidate_pattern = a->candidates ? a->candidates : b->candidates;
    duty->team = a->team ? a->team : b->team;
    duty->runbook = a->runbook ? a->runbook : b->runbook;
    duty->limits = entry->limits;
}

/* The named ones with what is discovered beside them; from malloc, and sorted. */
static struct list with_discovered(const struct named *named, const struct snapshot *snapshot,
                                   const struct snapshot *previous, const struct config *config)
{
    struct list list = {
        .entries = xcalloc(named->list.n + (size_t)config->discovery_limit, sizeof *list.entries)};
    for (; list.n < named->list.n; list.n++)
        list.entries[list.n] = named->list.entries[list.n];
    struct key_set members = keep_discovered(snapshot, previous, &named->keys);
    discover(&list, snapshot, &members, config);
    free(members.keys);
    if (list.n > named->list.n)
        sort_entries(&list, compare_entries);
    return list;
}

void duties_list(struct snapshot *snapshot, const struct named *named, const struct config *config,
                 const struct sessions *sessions, const struct snapshot *previous)
{
    struct list found = {0};
    watch_unnamed(snapshot, sessions, &named->keys, previous);
    if (config->discovery_enabled)
        found = with_discovered(named, snapshot, previous, config);
    const struct list *list = config->discovery_enabled ? &found : &named->list;
    snapshot->definitions = arena_share(named->arena);
    snapshot->duties = arena_array(snapshot->arena, list->n, sizeof *snapshot->duties);
    for (size_t i = 0; i < list->n; i++)
        define_duty(&snapshot->duties[snapshot->n_duties++], &list->entries[i]);
    free(found.entries);
}
