/* SPDX-License-Identifier: PostgreSQL */
/* What the files of libpgleader share. */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "candidate/lead.h"
#include "candidate/pgleader.h"

/* The caller's options, checked and copied; everything lives in the arena. */
struct library_setup {
    struct arena *arena;
    struct pgleader_options options;
    struct lead_options lead; /* without its callbacks */
};

/* On failure nothing is left behind. */
bool library_setup_make(const struct pgleader_options *given, struct library_setup *ret,
                        struct error *err) MUSTCHECK;
void library_setup_done(struct library_setup *setup);

/* Both fill ret (NULL is allowed) and return false. */
bool library_error(struct pgleader_error *ret, const struct error *err);
bool library_refuse(struct pgleader_error *ret, enum pgleader_code code, const char *message);
