/* SPDX-License-Identifier: PostgreSQL */
/* The functions behind the table of checks; tui/doctor_table.c says what each is. */
#pragma once

#include "tui/doctor.h"

#define DOCTOR_CHECK(name)                                                                         \
    void check_##name(struct doctor *doctor, const struct doctor_facts *facts,                     \
                      const struct config_server *server)

/* doctor_server.c: the server and our role */
DOCTOR_CHECK(server_version);
DOCTOR_CHECK(role_unexpected);
DOCTOR_CHECK(sessions_hidden);
DOCTOR_CHECK(cannot_signal);
DOCTOR_CHECK(pooler_between);
DOCTOR_CHECK(connections_used_up);
DOCTOR_CHECK(lock_table_full);
DOCTOR_CHECK(deadlock_timeout_short);
DOCTOR_CHECK(commit_asynchronous);
DOCTOR_CHECK(standby_asynchronous);
void check_two_primaries(struct doctor *doctor);
void check_same_database_twice(struct doctor *doctor);

/* doctor_sessions.c: settings that the candidates' sessions live under, and what they do */
DOCTOR_CHECK(dead_leader_holds);
DOCTOR_CHECK(dead_waiter_stays);
DOCTOR_CHECK(idle_session_timeout);
DOCTOR_CHECK(idle_transaction_timeout);
DOCTOR_CHECK(transaction_timeout);
DOCTOR_CHECK(owner_in_transaction);
DOCTOR_CHECK(waiter_holds_vacuum);
DOCTOR_CHECK(prepared_transaction);
DOCTOR_CHECK(too_few_candidates);
DOCTOR_CHECK(candidates_uncountable);
DOCTOR_CHECK(candidate_unnamed);
DOCTOR_CHECK(candidate_name_cut);
DOCTOR_CHECK(candidate_name_twice);

/* doctor_registry.c: keys, ledger, leases */
DOCTOR_CHECK(key_collision);
DOCTOR_CHECK(key_known);
DOCTOR_CHECK(ledger_unreadable);
DOCTOR_CHECK(ledger_version);
DOCTOR_CHECK(ledger_rights);
DOCTOR_CHECK(registry_differs);
DOCTOR_CHECK(registry_lacks);
DOCTOR_CHECK(lease_unlogged);
