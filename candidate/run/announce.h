/* SPDX-License-Identifier: PostgreSQL */
/* What others hear of the candidate: the log, the service manager, the health checks. */
#pragma once

#include <stdbool.h>

#include "candidate/lead.h"
#include "candidate/run/health.h"
#include "candidate/run/status.h"

struct announce {
    const char *duty, *instance;
    struct health_state health;
    char *line;     /* the health checks' body */
    char *said;     /* the service manager's status */
    char why[1024]; /* the last error or remark, while it is not ready */
    bool competing; /* it has tried since it is connected: a candidate that can serve */
    bool ready_was_said;
    bool stopping;
};

void announce_init(struct announce *announce, const char *duty, const char *instance);
void announce_done(struct announce *announce);

/* Logs a rule or an error or a remark of the candidate; lead may be NULL. */
void announce_news(struct announce *announce, const struct lead *lead, const struct lead_rule *rule,
                   const struct error *err, const char *remark);

/* After every turn: tells those that wait for a change. */
void announce_state(struct announce *announce, const struct lead *lead,
                    const struct status *status);

void announce_health(const struct announce *announce, const char *addresses);
void announce_end(const struct announce *announce, const struct status *status);
