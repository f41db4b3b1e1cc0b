/* SPDX-License-Identifier: PostgreSQL */
/* The one table of foreign keys. Derived ones (Rails, Flyway, golang-migrate) differ by database
 * and cannot stand here. */
#include "tui/known_keys.h"

#include <stddef.h>

struct known {
    int64_t key;
    const char *system;
};

static const struct known keys[] = {
    {1, "Airflow (migrations), and examples that are copied as they are"},
    {2, "Airflow (critical section of its scheduler)"},
    {5, "Concourse (migrations)"},
    {6, "Concourse (resource scanning)"},
    {1000, "authentik (migrations)"},
    {28319, "GreptimeDB (election)"},
    {9999999, "Wolverine (leader)"},
    {4097083626, "goose (migrations)"},
    {7241865325823964, "node-pg-migrate (migrations)"},
    {5585198506344173278, "promscale (schema)"},
};

/* Pairs whose first number says who they are of. */
static const struct known namespaces[] = {
    {1, "highlander_pg"},
    {LOCK_LEDGER_CLASSID, "pgleader's ledger itself"},
};

const char *known_key(struct lock_key key)
{
    bool pair = key.objsubid == LOCK_OBJSUBID_PAIR;
    const struct known *table = pair ? namespaces : keys;
    size_t n = pair ? sizeof namespaces / sizeof *namespaces : sizeof keys / sizeof *keys;
    int64_t wanted = pair ? (int32_t)key.classid : lock_key_to_int8(key);
    for (size_t i = 0; i < n; i++) {
        if (key.objsubid != 0 && table[i].key == wanted)
            return table[i].system;
    }
    return NULL;
}
