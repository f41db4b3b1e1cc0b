/* SPDX-License-Identifier: PostgreSQL */
/* A yield in words and as JSON; pure. */
#pragma once

#include <stdio.h>

#include "tui/yield.h"

/* What is asked of the person: who, what ends, what becomes of the worker, every guard. */
void yield_show_question(const struct yield_view *view, FILE *out);

/* The whole as one JSON object. dry: nothing was to be sent. */
void yield_show_json(const struct yield_view *view, bool dry, int status, FILE *out);

/* "nothing", "the session was signalled"; a yield that goes on may send yet. */
const char *yield_sent_words(const struct yield_view *view);
