/* SPDX-License-Identifier: PostgreSQL */
/* Hostile text in every field of a picture: what is rendered must stay valid UTF-8, well-formed,
 * and must not let anything become markup. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "exporter/metrics.h"
#include "exporter/page.h"
#include "tests/support/exposition_syntax.h"
#include "tests/support/picture_builder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_metrics(const struct picture *picture, enum exposition_format format)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    metrics_render(picture, -1, format, out);
    (void)fclose(out);
    if (exposition_bad_line(text, size))
        abort();
    free(text);
}

static size_t count(const char *text, char wanted)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == wanted;
    return n;
}

/* The same page with harmless text has the same number of tags. */
static size_t check_page(const struct picture *picture)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    page_render(picture, "/metrics", out);
    (void)fclose(out);
    size_t tags = count(text, '<');
    free(text);
    return tags;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct picture picture, harmless;
    char *text = memcpy(xcalloc(size + 1, 1), data, size);
    build_hostile(&picture, text);
    build_hostile(&harmless, *text ? "x" : "");
    check_metrics(&picture, FORMAT_TEXT);
    check_metrics(&picture, FORMAT_OPENMETRICS);
    if (check_page(&picture) != check_page(&harmless))
        abort();
    picture_done(&picture);
    picture_done(&harmless);
    free(text);
    return 0;
}
