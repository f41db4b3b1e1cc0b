/* SPDX-License-Identifier: PostgreSQL */
/* The running exporter: poller, web server, signals, reload, and what systemd and the log are told.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "exporter/http.h"
#include "observe/config.h"

struct service_options {
    const char *config_path; /* NULL: conninfo or the environment */
    const char *conninfo;    /* NULL: the environment */
    struct http_options http;
};

/* What the options name, read and checked. */
bool service_read_config(const struct service_options *options, struct config **ret_config,
                         struct problems *problems) MUSTCHECK;

/* Runs until SIGTERM or SIGINT; owns config. False when it could not begin to serve. */
bool service_run(const struct service_options *options, struct config *config,
                 struct error *err) MUSTCHECK;
