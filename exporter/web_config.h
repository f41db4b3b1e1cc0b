/* SPDX-License-Identifier: PostgreSQL */
/* How to serve: TLS, headers and users, from the web configuration file that Prometheus exporters
 * share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* What is asked of clients for a certificate; names as in the file: NoClientCert, ... */
enum client_auth {
    CLIENT_AUTH_NONE,            /* NoClientCert: not asked for */
    CLIENT_AUTH_REQUEST,         /* RequestClientCert: asked for, may be absent, not verified */
    CLIENT_AUTH_REQUIRE_ANY,     /* RequireAnyClientCert: must be there, not verified */
    CLIENT_AUTH_VERIFY_IF_GIVEN, /* VerifyClientCertIfGiven: may be absent, else verified */
    CLIENT_AUTH_REQUIRE,         /* RequireAndVerifyClientCert: must be there and verify */
};

enum tls_version { TLS_VERSION_12, TLS_VERSION_13 };

struct web_header {
    const char *name;  /* as it goes on the wire: "X-Frame-Options" */
    const char *value; /* printable; no CR, LF or NUL */
};

struct web_user {
    const char *name; /* not empty, no colon */
    const char *hash; /* bcrypt, checked for form: "$2y$10$..." */
};

/* One arena; immutable. Freed by web_config_free. */
struct web_config {
    struct arena *arena;
    const char *path;      /* the file it came from */
    const char *cert_file; /* PEM; NULL: plain HTTP, and then the key and the CA are NULL too */
    const char *key_file;  /* PEM; set where cert_file is */
    const char *client_ca_file; /* PEM, or NULL; set where client_auth verifies */
    enum client_auth client_auth;
    enum tls_version min_version, max_version; /* min <= max; default 1.2 to 1.3 */
    const struct web_header *headers;          /* sent with every answer */
    size_t n_headers;
    const struct web_user
        *users; /* sorted by name (strcmp), unique; n_users 0: no authentication */
    size_t n_users;
};

/* Reads and checks a whole file; relative paths in it count from its own directory. The files that
 * it names are seen to be readable and not empty; whether they hold a certificate is the web
 * server's to say. On failure *ret_config is untouched and problems holds every mistake as
 * "FILE:LINE: could not ...: why", at least one; never a hash or a key. */
bool web_config_load(const char *path, struct web_config **ret_config,
                     struct problems *problems) MUSTCHECK;

/* The same from text in memory; path is for the messages and for relative paths. */
bool web_config_parse(const char *path, const char *text, size_t size,
                      struct web_config **ret_config, struct problems *problems) MUSTCHECK;

/* The hash of that user, or NULL. */
const char *web_config_hash(const struct web_config *config, const char *user);

void web_config_free(struct web_config *config); /* NULL is fine */

static inline void web_config_freep(struct web_config **config)
{
    web_config_free(*config);
}
