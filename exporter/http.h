/* SPDX-License-Identifier: PostgreSQL */
/* The web server: routes, limits, authentication. It knows libmicrohttpd and nothing of PostgreSQL.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"
#include "exporter/body.h"
#include "exporter/negotiate.h"

/* What is served; every function is called on the web server's one thread and must not block. */
struct http_content {
    void *context;
    /* The metrics of all servers, or of one by name; NULL when there is no server of that name. The
     * caller gets a reference. */
    struct body *(*metrics)(void *context, const char *target, enum exposition_format format,
                            bool gzip);
    void (*page)(void *context, FILE *out); /* the HTML page of / */
    bool (*healthy)(void *context);         /* false: the poller's loop has not ticked for 30 s */
    bool (*ready)(void *context);           /* true once the first poll of every server was tried */
    void (*reload)(void *context);          /* asks for a reload; returns at once */
};

struct http_options {
    const char *const
        *listen_addresses; /* "127.0.0.1:10187", "[::1]:10187", ":10187"; n = 0: the defaults */
    int n_listen_addresses;
    const char *telemetry_path;  /* "/metrics" */
    const char *web_config_path; /* or NULL */
    bool lifecycle;              /* POST /-/reload is served */
    /* Hears of what goes wrong while it serves: a web configuration or a certificate that was
     * replaced by one that does not do. Called on a thread of the web server; may be NULL. */
    void (*warn)(void *context, const char *text);
    void *warn_context;
};

struct http_server;

/* Binds and serves on threads of its own, which take no signals. A default address that cannot be
 * bound is only put into warnings; an address that was asked for fails. Raises the soft limit of
 * open files where thousands of connections would not fit. The options' strings must outlive the
 * server. */
struct http_server *http_start(const struct http_options *options,
                               const struct http_content *content, struct problems *warnings,
                               struct error *err) MUSTCHECK;

/* Stops within a second, also with connections open; NULL is fine. */
void http_stop(struct http_server *server);

/* The addresses bound, "127.0.0.1:10187 [::1]:10187"; lives as long as the server. */
const char *http_addresses(const struct http_server *server);
