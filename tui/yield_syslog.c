/* SPDX-License-Identifier: PostgreSQL */
/* Apart from base/log.h, whose levels have the names of syslog's macros. */
#include "tui/yield_syslog.h"

#include <syslog.h>

void yield_syslog(const char *duty, const char *server, const char *reason, const char *what)
{
    syslog(LOG_AUTHPRIV | LOG_NOTICE, "pgleader yield of %s on %s for \"%s\": %s", duty, server,
           reason ? reason : "", what);
}
