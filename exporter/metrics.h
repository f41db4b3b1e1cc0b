/* SPDX-License-Identifier: PostgreSQL */
/* Every metric family, from one table: name, type, help, labels, and where the number comes from.
 */
#pragma once

#include <stdio.h>

#include "exporter/negotiate.h"
#include "observe/publish.h"

/* Renders what depends on the picture alone: pure, no clock, no I/O but out. `server` is an index
 * into the picture, or -1 for all. Does not end the exposition. */
void metrics_render(const struct picture *picture, int server, enum exposition_format format,
                    FILE *out);

/* Renders what is judged at the scrape (process_*, build_info, the reload) and ends the exposition
 * (OpenMetrics' EOF). */
void metrics_render_live(const struct picture *picture, enum exposition_format format, FILE *out);

/* --list-metrics: name, type, labels, help, separated by tabs, one family a line. */
void metrics_list(FILE *out);
