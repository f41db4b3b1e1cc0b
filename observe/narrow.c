/* SPDX-License-Identifier: PostgreSQL */
/* The registry may give the duty another lock, and its lock or lease another name: its rows are
 * found by each of them. The queries may let other rows through; these are then not looked at. */
#include "observe/narrow.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "observe/table_rows.h"
#include "sql.h"

/* No duty of the registry has another name, and not every database has other characters. */
static bool may_be_registered(const char *name)
{
    for (; *name; name++) {
        if (*name <= ' ' || *name > '~')
            return false;
    }
    return true;
}

struct finds {
    struct lock_key *locks;
    size_t n_locks;
    const char **names;
    size_t n_names;
};

static void find(struct finds *finds, const char *only, const struct config_duty *duties, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(duties[i].name, only) != 0)
            continue;
        if (duties[i].mechanism == MECHANISM_LOCK)
            finds->locks[finds->n_locks++] = duties[i].key;
        else
            finds->names[finds->n_names++] = duties[i].lease.row;
    }
}

/* Where the config calls the lock that is sought otherwise, the registry may want that name for
 * another. */
static void find_namesake(struct finds *finds, const struct config *config,
                          const struct config_server *server)
{
    for (size_t i = 0; i < server->n_duties; i++) {
        const struct config_duty *duty = &server->duties[i];
        if (duty->mechanism == MECHANISM_LOCK && lock_key_equal(duty->key, config->discovery_key) &&
            strcmp(duty->name, config->only_duty) != 0)
            finds->names[finds->n_names++] = duty->name;
    }
}

static const char *numbers(const struct finds *finds, struct arena *arena)
{
    const char *list = "";
    for (size_t i = 0; i < finds->n_locks; i++)
        list =
            arena_printf(arena, "%s%s%" PRIu32 ",%" PRIu32 ",%u", list, *list ? "," : "",
                         finds->locks[i].classid, finds->locks[i].objid, finds->locks[i].objsubid);
    return arena_printf(arena, "{%s}", list);
}

struct narrow narrow_to(const struct config *config, const struct definitions *definitions,
                        struct arena *arena)
{
    const char *only = config->only_duty;
    /* A name or key stands once in the registry and once in the config; discovery may add a key. */
    enum { LOCKS_MOST = 3, NAMES_MOST = 4 };
    struct finds finds = {.locks = arena_array(arena, LOCKS_MOST, sizeof *finds.locks),
                          .names = arena_array(arena, NAMES_MOST, sizeof *finds.names)};
    if (may_be_registered(only))
        finds.names[finds.n_names++] = only;
    if (config->discovery_key.objsubid)
        finds.locks[finds.n_locks++] = config->discovery_key;
    find(&finds, only, definitions->registry, definitions->n_registry);
    find(&finds, only, definitions->server->duties, definitions->server->n_duties);
    find_namesake(&finds, config, definitions->server);
    return (struct narrow){
        .locks = finds.locks,
        .n_locks = finds.n_locks,
        .keys = numbers(&finds, arena),
        .names = text_array(finds.names, finds.n_names, arena),
    };
}

bool narrow_has(const struct narrow *narrow, struct lock_key key)
{
    for (size_t i = 0; i < narrow->n_locks; i++) {
        if (lock_key_equal(narrow->locks[i], key))
            return true;
    }
    return false;
}

char *narrow_ledger_query(void)
{
    return xasprintf(
        "SELECT q.* FROM (\n%s) AS q\n"
        "WHERE q.duty = ANY ($1::text[]) OR q.lease_row = ANY ($1::text[])\n"
        "    OR (q.lock_classid = ANY ($2::int8[]) AND q.lock_objid = ANY ($2::int8[]))\n"
        "    OR (q.next_lock_classid = ANY ($2::int8[])\n"
        "        AND q.next_lock_objid = ANY ($2::int8[]))",
        sql_ledger);
}
