/* SPDX-License-Identifier: PostgreSQL */
/* What `pgleader status` tells: the duties of a picture, those that need a look first, and whether
 * all of them are led. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/option.h"
#include "observe/config.h"
#include "observe/publish.h"

/* As exit statuses; the greater one wins: what could not be seen may be worse. */
enum status_verdict { VERDICT_LED = 0, VERDICT_NOT_LED = 1, VERDICT_UNKNOWN = 2 };

struct status_row {
    const struct published *server;
    const struct duty *duty;
    bool fresh;    /* the duty was read in a picture that is not old */
    bool readable; /* and so was who leads it */
    bool led;      /* and somebody does */
    bool counts;   /* for the verdict */
};

struct status_view {
    const struct picture *picture;
    struct status_row *rows; /* by need for a look, then in the config's order */
    size_t n;
    const char **missing; /* operands that no server knows */
    size_t n_missing;
    enum status_verdict verdict;
    struct arena *arena;
};

/* duties: which to tell of; none is all. The picture and the config must outlive the view. */
void status_view_init(struct status_view *ret_view, const struct picture *picture,
                      const struct config *config, const struct option_list *duties);
void status_view_done(struct status_view *view);

enum duty_state status_row_state(const struct status_row *row);

/* The newest good snapshot of a server, or NULL where it is not to be believed any more. */
const struct snapshot *status_snapshot(const struct status_view *view, size_t server);

/* Where the server is a standby and a primary was expected, or the reverse. */
bool status_unexpected_role(const struct status_view *view, size_t server);

/* Why a server is down, in the words of the poll; never NULL. */
const char *status_down_reason(const struct published *server);

/* A failed section without which duties may be missing or unread; NULL where there is none. */
const struct section *status_failed_section(const struct published *server, size_t *position);
