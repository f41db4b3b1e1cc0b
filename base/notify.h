/* SPDX-License-Identifier: PostgreSQL */
/* What systemd is told of this process (sd_notify(3)). Each does nothing where no service manager
 * listens. */
#pragma once

#include <stdint.h>

#include "base/cleanup.h"

void notify_ready(void);
void notify_stopping(void);

/* Around a reload: RELOADING=1, and READY=1 afterwards by notify_ready. */
void notify_reloading(void);

/* One line that `systemctl status` shows. */
void notify_status(const char *format, ...) PRINTF_LIKE(1, 2);

/* How often notify_watchdog must be called at least: half of what the unit allows (WatchdogSec=);
 * 0: no watchdog is wanted. */
int64_t notify_watchdog_interval_us(void);
void notify_watchdog(void);
