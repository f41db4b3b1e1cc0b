/* SPDX-License-Identifier: PostgreSQL */
/* A thin layer over libsystemd. What cannot be sent is not worth an error: the service manager has
 * timeouts of its own. */
#include "base/notify.h"

#include <stdlib.h>

#include <systemd/sd-daemon.h>

#include "base/clock.h"
#include "base/memory.h"

void notify_ready(void)
{
    (void)sd_notify(0, "READY=1");
}

void notify_stopping(void)
{
    (void)sd_notify(0, "STOPPING=1");
}

void notify_reloading(void)
{
    (void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%lld", (long long)clock_monotonic_us());
}

void notify_status(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    for (char *p = text; *p; p++) {
        if (*p == '\n')
            *p = ' '; /* a new line would begin another assignment */
    }
    (void)sd_notifyf(0, "STATUS=%s", text);
    free(text);
}

int64_t notify_watchdog_interval_us(void)
{
    uint64_t limit_us = 0;
    if (sd_watchdog_enabled(0, &limit_us) <= 0)
        return 0;
    return (int64_t)(limit_us / 2);
}

void notify_watchdog(void)
{
    (void)sd_notify(0, "WATCHDOG=1");
}
