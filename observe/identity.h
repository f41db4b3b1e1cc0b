/* SPDX-License-Identifier: PostgreSQL */
/* Who the server is, and what we may see there: some of it read at every poll, some now and then.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "observe/snapshot.h"
#include "pg/batch.h"
#include "pg/conn.h"

struct identity;

struct identity *identity_new(void);
void identity_free(struct identity *identity); /* NULL is fine */

/* A new session, perhaps with another server: nothing but the protocol's word is known. */
void identity_connected(struct identity *identity, const struct pg_session *conn);

/* Takes the answer of observe/sql/server.sql. *ret_moved is true when the server behind the session
 * was restarted, promoted or exchanged (by a pooler): what was read now and then is void. */
bool identity_read_server(struct identity *identity, const struct pg_answer *answer,
                          bool *ret_moved, struct error *err) MUSTCHECK;

/* Takes the answer of observe/sql/identity.sql. */
bool identity_read(struct identity *identity, const struct pg_answer *answer,
                   struct error *err) MUSTCHECK;

/* Takes the answer of observe/sql/control.sql. */
bool identity_read_control(struct identity *identity, const struct pg_answer *answer,
                           struct error *err) MUSTCHECK;

/* Takes the answer of observe/sql/ledger_version.sql; with NULL the version is not readable. */
bool identity_read_ledger_version(struct identity *identity, const struct pg_answer *answer,
                                  struct error *err) MUSTCHECK;

/* Everything, for a snapshot; strings are copied into the arena. Clock skew is not set. */
struct server_facts identity_facts(const struct identity *identity, struct arena *arena);

int32_t identity_version(const struct identity *identity);  /* 150018 */
int64_t identity_database(const struct identity *identity); /* the oid of our database */
bool identity_direct(const struct identity *identity);      /* no pooler between */
bool identity_known(const struct identity *identity);       /* read since the server last moved */
bool identity_in_recovery(const struct identity *identity); /* a standby */
bool identity_has_ledger(const struct identity *identity);  /* at the last look */
