/* SPDX-License-Identifier: PostgreSQL */
/* Names of roles by oid, remembered: the poll itself never touches pg_authid. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "pg/batch.h"

struct roles;

struct roles *roles_new(void);
void roles_free(struct roles *roles);

/* The name, or NULL while it is not known: then the oid is asked for in the next poll. Lives until
 * the next roles_learn. */
const char *roles_name(struct roles *roles, int64_t oid);

/* True when some name must be read, also now and then for a renamed role. now_us: CLOCK_MONOTONIC.
 */
bool roles_wanted(const struct roles *roles, int64_t now_us);

/* The oids to ask for as '{10,16384}', in the arena. */
const char *roles_question(const struct roles *roles, struct arena *arena);

/* Takes the answer of observe/sql/roles.sql. */
bool roles_learn(struct roles *roles, const struct pg_answer *answer, int64_t now_us,
                 struct error *err) MUSTCHECK;
