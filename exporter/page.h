/* SPDX-License-Identifier: PostgreSQL */
/* The HTML of `/`: the servers and the duties as they are now, without scripts, every text escaped.
 */
#pragma once

#include <stdio.h>

struct picture;

/* Writes the whole page. metrics_path is where the metrics are served. What is not known is called
 * unknown, never shown as it was last. */
void page_render(const struct picture *picture, const char *metrics_path, FILE *out);
