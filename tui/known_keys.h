/* SPDX-License-Identifier: PostgreSQL */
/* Lock keys that other software is known to take, whatever it is installed for. */
#pragma once

#include "pg/key.h"

/* What takes the key, or NULL: "Airflow (migrations)". */
const char *known_key(struct lock_key key);
