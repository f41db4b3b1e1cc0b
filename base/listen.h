/* SPDX-License-Identifier: PostgreSQL */
/* The sockets that a program's web server listens on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Zero-initialise; listeners_done closes the sockets. */
struct listeners {
    int *fds; /* non-blocking, close-on-exec */
    size_t n;
    char *names; /* the addresses bound: "127.0.0.1:10187 [::1]:10187" */
};

/* Binds n > 0 addresses, "HOST:PORT" each, where HOST is a name, an address, "[IPv6]" or nothing
 * for every address of the machine, and PORT a number (0: any that is free). A name is bound by
 * each of its addresses that can be, at least one. any: one address is enough, and what is wrong
 * with the others is put into warnings (else not used). On failure nothing stays open. */
bool listeners_open(const char *const *addresses, int n, bool any, struct listeners *ret_listeners,
                    struct problems *warnings, struct error *err) MUSTCHECK;

void listeners_done(struct listeners *listeners);
