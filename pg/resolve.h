/* SPDX-License-Identifier: PostgreSQL */
/* Looks up names of hosts on a thread of its own: getaddrinfo blocks for as long as the name server
 * keeps it waiting, and so would libpq. */
#pragma once

#include "base/error.h"
#include "pg/hosts.h"

struct resolve;

/* Starts to look up; NULL where no thread could be started. */
struct resolve *resolve_start(const struct hosts *hosts);

/* Readable once the answer is there. */
int resolve_fd(const struct resolve *resolve);
bool resolve_is_done(const struct resolve *resolve);

/* Once done: the hosts with an address each, one entry an address, those without a name to look up
 * as they were. False if none is left; err says why the last was not found. */
bool resolve_take(const struct resolve *resolve, struct hosts *ret_hosts,
                  struct error *err) MUSTCHECK;

/* Also while it looks up: the thread then ends on its own. NULL is fine. */
void resolve_free(struct resolve *resolve);
