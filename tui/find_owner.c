/* SPDX-License-Identifier: PostgreSQL */
/* Keys to psql lines. */
#include "tui/find_owner.h"

#include <inttypes.h>

/* Without quotes, dollars or backslashes: it stands between double quotes of a shell. */
static void print_query(struct lock_key key, FILE *out)
{
    (void)fprintf(out,
                  "SELECT l.pid, l.granted, l.mode, a.application_name, a.usename, a.client_addr, "
                  "a.backend_start, a.state FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid "
                  "= l.pid WHERE l.locktype = 'advisory' AND l.classid = %" PRIu32
                  " AND l.objid = %" PRIu32
                  " AND l.objsubid = %d AND l.database = (SELECT oid FROM pg_database WHERE "
                  "datname = current_database()) ORDER BY l.granted DESC, a.backend_start",
                  key.classid, key.objid, key.objsubid);
}

void find_owner_print(struct lock_key key, const char *connect, FILE *out)
{
    (void)fputs("psql -X ", out);
    if (connect && *connect) {
        (void)fputs("-d '", out);
        for (const char *c = connect; *c; c++) {
            if (*c == '\'')
                (void)fputs("'\\'", out);
            (void)putc(*c, out);
        }
        (void)fputs("' ", out);
    }
    (void)fputs("-c \"", out);
    print_query(key, out);
    (void)putc('"', out);
}
