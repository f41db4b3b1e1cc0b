/* SPDX-License-Identifier: PostgreSQL */
/* Which libpq this program runs with. */
#pragma once

enum { PG_VERSION_TEXT_SIZE = 24 };

/* "15.14", of the libpq that is loaded, not the one it was built against. */
void pg_library_version(char out[PG_VERSION_TEXT_SIZE]);
