/* SPDX-License-Identifier: PostgreSQL */
/* What the web configuration file says now. The file, and the certificates that it names, are read
 * again when they change; what does not do is reported once, and the last good settings stay. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"
#include "exporter/tls.h"
#include "exporter/web_config.h"

/* Immutable; lives until the last reference is given back. */
struct web_settings {
    atomic_int references;
    struct web_config *config;
    struct tls *tls; /* NULL: plain HTTP */
};

struct web_watch;

/* Reads the file for the first time. */
bool web_watch_open(const char *path, struct web_watch **ret_watch, struct error *err) MUSTCHECK;
void web_watch_free(struct web_watch *watch); /* NULL is fine */

/* Looks whether a file has changed, and if so reads them. True with err set when there is news of a
 * failure: the settings stay as they were. One thread at a time. */
bool web_watch_check(struct web_watch *watch, struct error *err);

/* The caller owns a reference. From any thread. */
struct web_settings *web_watch_current(struct web_watch *watch);
void web_settings_unref(struct web_settings *settings); /* NULL is fine */

static inline void web_settings_unrefp(struct web_settings **settings)
{
    web_settings_unref(*settings);
}
