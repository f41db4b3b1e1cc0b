/* SPDX-License-Identifier: PostgreSQL */
/* The psql line that finds who has a key. */
#pragma once

#include <stdio.h>

#include "pg/key.h"

/* connect: without passwords; NULL or "" leaves it to psql's environment. */
void find_owner_print(struct lock_key key, const char *connect, FILE *out);
