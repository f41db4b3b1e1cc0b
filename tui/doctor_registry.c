/* SPDX-License-Identifier: PostgreSQL */
/* Checks of keys, of the ledger, and of lease tables. */
#include <inttypes.h>

#include "base/text.h"
#include "tui/doctor_checks.h"
#include "tui/known_keys.h"

/* The registry and the configuration each refuse two duties of one key; between them nobody does.
 */
DOCTOR_CHECK(key_collision)
{
    const struct registry *registry = &facts->ledger.registry;
    for (size_t c = 0; c < server->n_duties; c++) {
        const struct config_duty *duty = &server->duties[c];
        char text[LOCK_KEY_TEXT_SIZE];
        lock_key_format(duty->key, text);
        for (size_t r = 0; r < registry->n; r++) {
            const struct config_duty *other = &registry->items[r].duty;
            bool next = other->next_key.objsubid && lock_key_equal(other->next_key, duty->key);
            if (duty->mechanism == MECHANISM_LOCK && other->mechanism == MECHANISM_LOCK &&
                !text_equal(duty->name, other->name) &&
                (next || lock_key_equal(other->key, duty->key)))
                doctor_find(doctor, "key %s is %s in the configuration, and %s%s in the registry",
                            text, duty->name, next ? "what is to become of " : "", other->name);
        }
    }
}

DOCTOR_CHECK(key_known)
{
    (void)server;
    for (size_t i = 0; i < facts->n_duties; i++) {
        const struct config_duty *duty = facts->duties[i].duty;
        const char *system = duty->mechanism == MECHANISM_LOCK ? known_key(duty->key) : NULL;
        char text[LOCK_KEY_TEXT_SIZE];
        lock_key_format(duty->key, text);
        if (system)
            doctor_find(doctor, "%s has key %s, which %s takes, too", duty->name, text, system);
    }
}

DOCTOR_CHECK(ledger_unreadable)
{
    (void)server;
    if (facts->ledger.error.kind == ERROR_NONE)
        return;
    doctor_find(doctor, "role %s: %s", facts->role, facts->ledger.error.message);
    if (text_equal(facts->ledger.error.sqlstate, "42501"))
        doctor_mend(doctor, "GRANT pgleader_reader TO %s;", doctor_quote(doctor, facts->role));
}

DOCTOR_CHECK(ledger_version)
{
    (void)server;
    if (facts->ledger.version > 0 && facts->ledger.version != ledger_program_version())
        doctor_find(doctor, "the ledger has version %" PRId32 ", this pgleader brings %" PRId32,
                    facts->ledger.version, ledger_program_version());
}

DOCTOR_CHECK(ledger_rights)
{
    (void)server;
    for (size_t i = 0; i < facts->ledger.n_missing && facts->ledger.version > 0; i++) {
        const struct ledger_missing *missing = &facts->ledger.missing[i];
        doctor_find(doctor, "missing: %s: %s; %s", missing->what, missing->loss,
                    missing->statement);
    }
}

static void find_drift(struct doctor *doctor, const struct doctor_facts *facts,
                       const struct config_server *server, enum drift_kind kind)
{
    size_t n = 0;
    const struct drift *drift = registry_drift(&facts->ledger.registry, server, doctor->arena, &n);
    for (size_t i = 0; i < n; i++) {
        if (drift[i].kind == kind)
            doctor_find(doctor, "%s", drift[i].sentence);
    }
}

DOCTOR_CHECK(registry_differs)
{
    find_drift(doctor, facts, server, DRIFT_DIFFERS);
}

DOCTOR_CHECK(registry_lacks)
{
    find_drift(doctor, facts, server, DRIFT_UNREGISTERED);
}

DOCTOR_CHECK(lease_unlogged)
{
    (void)server;
    for (size_t i = 0; i < facts->n_duties; i++) {
        const struct config_duty *duty = facts->duties[i].duty;
        const char *table = NULL;
        if (!facts->duties[i].lease_unlogged)
            continue;
        doctor_find(doctor, "%s is led by a row of %s, which is UNLOGGED", duty->name,
                    duty->lease.table);
        if (pg_quote_name(doctor->arena, duty->lease.table, &table))
            doctor_mend(doctor, "ALTER TABLE %s SET LOGGED;", table);
    }
}
