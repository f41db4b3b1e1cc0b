/* SPDX-License-Identifier: PostgreSQL */
/* The sockets that the web server listens on. */
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

/* Binds "HOST:PORT" each, where HOST is a name, an address, "[IPv6]" or nothing for every address
 * of the machine, and PORT a number (0: any that is free). n = 0: 127.0.0.1:10187 and [::1]:10187,
 * of which one may fail and is then put into warnings. A name is bound by each of its addresses
 * that can be, at least one. On failure nothing stays open. */
bool listeners_open(const char *const *addresses, int n, struct listeners *ret_listeners,
                    struct problems *warnings, struct error *err) MUSTCHECK;

void listeners_done(struct listeners *listeners);
