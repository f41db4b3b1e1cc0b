/* SPDX-License-Identifier: PostgreSQL */
/* The system's log. */
#pragma once

void yield_syslog(const char *duty, const char *server, const char *reason, const char *what);
