/* SPDX-License-Identifier: PostgreSQL */
/* The environment of the command. */
#pragma once

/* Ours, without the PGLEADER_* that we may have inherited and without what the service manager told
 * us alone (NOTIFY_SOCKET, WATCHDOG_*), and with `more`: n strings "NAME=value", of which NULL ones
 * are left out. The strings are not copied; the array is the caller's to free. */
char **environment_make(char *const *more, int n);
