/* SPDX-License-Identifier: PostgreSQL */
/* Which path answers what: from a request to an answer, with no socket and no HTTP library. */
#pragma once

#include <stdbool.h>

#include "exporter/body.h"
#include "exporter/http.h"

struct routes;

struct request {
    const char *method;
    const char *path;                     /* unescaped, without the query */
    const char *accept, *accept_encoding; /* or NULL */
    const char *target;                   /* of the query, or NULL */
};

/* Either body or text is what to send. */
struct answer {
    unsigned int status;
    const char *content_type;
    const char *allow; /* the methods there are, with 405; else NULL */
    struct body *body; /* a reference that the receiver owns, or NULL */
    const char *text;  /* lives as long as the routes */
    bool negotiated;   /* depends on Accept and Accept-Encoding */
    bool gzip;
};

/* Both must outlive the routes. */
struct routes *routes_new(const struct http_options *options, const struct http_content *content);
void routes_free(struct routes *routes); /* NULL is fine */

struct answer routes_answer(const struct routes *routes, const struct request *request);
