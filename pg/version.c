/* SPDX-License-Identifier: PostgreSQL */
/* Which libpq this program runs with. */
#include "pg/version.h"

#include <stdio.h>

#include <libpq-fe.h>

void pg_library_version(char out[PG_VERSION_TEXT_SIZE])
{
    int version = PQlibVersion(); /* 150014, since PostgreSQL 10 */
    (void)snprintf(out, PG_VERSION_TEXT_SIZE, "%d.%d", version / 10000, version % 10000);
}
