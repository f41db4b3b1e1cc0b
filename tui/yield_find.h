/* SPDX-License-Identifier: PostgreSQL */
/* Which server a duty is on, and the picture from which its identity is frozen. */
#pragma once

#include "observe/publish.h"
#include "tui/servers.h"

struct yield_place {
    struct config *config;              /* owned */
    const struct config_server *server; /* of it */
    struct picture picture;             /* owned */
    const struct snapshot *snapshot;    /* of it */
    const struct duty *duty;            /* of that */
    struct pg_session *session;         /* the one that was asked, to go on with, or NULL; owned */
};

/* Looks once at every server of the options. Returns 0, or the exit status, with what is wrong on
 * standard error. yield_place_done in either case. */
int yield_find(const struct server_options *options, const char *duty, struct yield_place *place);
void yield_place_done(struct yield_place *place);
