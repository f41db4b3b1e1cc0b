/* SPDX-License-Identifier: PostgreSQL */
/* Chooses the exposition format and the encoding from Accept and Accept-Encoding (RFC 9110
 * section 12.5). */
#pragma once

#include <stdbool.h>

enum exposition_format { FORMAT_TEXT, FORMAT_OPENMETRICS, FORMAT_COUNT };

/* Either header may be NULL. Text 0.0.4 is the answer where nothing acceptable is asked for. */
enum exposition_format negotiate_format(const char *accept);
bool negotiate_gzip(const char *accept_encoding);

/* "text/plain; version=0.0.4; charset=utf-8", ... */
const char *exposition_content_type(enum exposition_format format);
