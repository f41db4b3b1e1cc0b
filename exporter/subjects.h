/* SPDX-License-Identifier: PostgreSQL */
/* What a picture has to tell about: its servers and their duties, each with its labels escaped
 * once, for every family to use again. */
#pragma once

#include "exporter/sample.h"

struct subjects {
    struct subject *servers, *duties;
    size_t n_servers, n_duties;
    char *labels; /* of all of them, one after the other */
};

/* Of all servers, or of one by its index if server is not -1. The picture must outlive it. */
void subjects_init(struct subjects *ret_subjects, const struct picture *picture, int server);
void subjects_done(struct subjects *subjects);
