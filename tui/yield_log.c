/* SPDX-License-Identifier: PostgreSQL */
/* Both logs; syslog's own line is written by yield_syslog.c, since its levels' names are ours. */
#include "tui/yield_log.h"

#include "base/log.h"
#include "tui/yield_syslog.h"

void yield_log(const struct yield_target *target, const char *reason, const char *what)
{
    log_write(LOG_INFO, "yield", "server", target->server, "database", target->database, "duty",
              target->duty, "reason", reason, "what", what, NULL);
    yield_syslog(target->duty, target->server, reason, what);
}
