/* SPDX-License-Identifier: PostgreSQL */
/* Structured log lines on standard error, as logfmt or JSON, one write(2) each. Only main.c of a
 * program and what it hands log to may call it. */
#pragma once

#include <stdbool.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };

/* Names as --log.level and --log.format take them; false for any other. */
bool log_level_parse(const char *name, enum log_level *ret_level);
bool log_format_parse(const char *name, enum log_format *ret_format);

void log_configure(enum log_level level, enum log_format format);

/* log_write(LOG_INFO, "connected", "server", name, "pid", number, NULL): pairs of key and value,
 * all strings, closed by NULL; a pair whose value is NULL or "" is left out. Safe from several
 * threads. It never waits: where standard error has no room the line is dropped, and the next one
 * that is written says how many were, as lost_lines. */
void log_write(enum log_level level, const char *message, ...) __attribute__((sentinel));
