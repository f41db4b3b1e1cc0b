/* SPDX-License-Identifier: PostgreSQL */
/* Answers to scrapes: rendered and compressed at most once a picture, format and encoding, shared
 * by all. */
#pragma once

#include <stdbool.h>

#include "exporter/body.h"
#include "exporter/negotiate.h"
#include "observe/publish.h"

struct exposition;

struct exposition *exposition_new(struct board *board);
void exposition_free(struct exposition *exposition);

/* The body for all servers, or for the one named target; NULL when there is none of that name. The
 * caller owns a reference. One thread at a time. */
struct body *exposition_get(struct exposition *exposition, const char *target,
                            enum exposition_format format, bool gzip);
