/* SPDX-License-Identifier: PostgreSQL */
/* Where a connection string leads: the hosts in the order in which libpq tries them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Owned texts; "" where not given. */
struct host {
    char *name; /* or the directory of a socket */
    char *address;
    char *port;
};

struct hosts {
    struct host *items;
    size_t n;
};

/* What the connection string, the environment and the service file name together. None where libpq
 * would find a mistake: then it is libpq that says which. */
void hosts_read(const char *conninfo, struct hosts *ret_hosts);

/* Texts are copied. */
void hosts_add(struct hosts *hosts, const char *name, const char *address, const char *port);
void hosts_done(struct hosts *hosts);

/* True for a name that getaddrinfo would have to ask somebody about. */
bool host_needs_lookup(const struct host *host);

/* The values of host, hostaddr and port, with the host of index `first` (modulo their number) in
 * front and those before it at the end; all from malloc. */
struct host hosts_rotated(const struct hosts *hosts, size_t first);
void host_done(struct host *host);
