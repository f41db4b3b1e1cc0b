/* SPDX-License-Identifier: PostgreSQL */
/* What went wrong: a kind for programs, an SQLSTATE where there is one, and words for people. */
#pragma once

#include <stdbool.h>

#include "base/cleanup.h"

enum error_kind {
    ERROR_NONE,
    ERROR_USAGE,   /* the command line */
    ERROR_CONFIG,  /* the configuration file */
    ERROR_SYSTEM,  /* the operating system: files, sockets */
    ERROR_CONNECT, /* no session with the server */
    ERROR_QUERY,   /* the server refused a statement; sqlstate says why */
    ERROR_TIMEOUT, /* our own deadline passed */
};

/* Messages are "could not X: why"; detail and hint stand apart and may be empty. */
struct error {
    enum error_kind kind;
    char sqlstate[6];
    char message[1024];
    char detail[512];
    char hint[512];
};

/* Both fill err (a NULL err is allowed) and return false, so that a function can end by
 * `return error_set(err, ...)`. Text that does not fit is cut at a character's boundary. */
bool error_set(struct error *err, enum error_kind kind, const char *format, ...) PRINTF_LIKE(3, 4);

/* As error_set with ": " and strerror(errnum) at the end. */
bool error_set_errno(struct error *err, int errnum, const char *format, ...) PRINTF_LIKE(3, 4);

/* Adds to an error that is set already. */
void error_hint(struct error *err, const char *format, ...) PRINTF_LIKE(2, 3);

/* A lower-case word for logs: "connect", "query". */
const char *error_kind_name(enum error_kind kind);

/* A growing list of messages, for readers that report every mistake of a file at once.
 * Zero-initialise; problems_done frees it. */
struct problems {
    char **items;
    size_t n;
};

void problems_add(struct problems *problems, const char *format, ...) PRINTF_LIKE(2, 3);
void problems_done(struct problems *problems);
