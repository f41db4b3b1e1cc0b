/* SPDX-License-Identifier: PostgreSQL */
/* How long the rendering of one series takes, for 500 and 5,000 duties, in both formats. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "exporter/metrics.h"
#include "exporter/sink.h"
#include "tests/support/picture_builder.h"

enum { ROUNDS = 15 };

static int64_t cpu_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static size_t count_series(const char *text)
{
    size_t n = 0;
    for (const char *line = text; *line; line++)
        n += *line == '\n' && line[1] && line[1] != '#';
    return n;
}

static void measure(const struct picture *picture, size_t duties, enum exposition_format format)
{
    int64_t spent[ROUNDS];
    size_t size = 0, series = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct sink sink = {.deflater = NULL};
        int64_t begin = cpu_ns();
        FILE *out = sink_open(&sink);
        metrics_render(picture, -1, format, out);
        sink_close(&sink, out);
        spent[i] = cpu_ns() - begin;
        size = sink.size;
        sink_append(&sink, "", 1);
        series = count_series(sink.data);
        free(sink.data);
    }
    qsort(spent, ROUNDS, sizeof *spent, compare);
    printf("%5zu duties, %-11s %7zu series, %8zu bytes: median %4.0f ns per series (%.1f ms)\n",
           duties, format == FORMAT_TEXT ? "text" : "openmetrics", series, size,
           (double)spent[ROUNDS / 2] / (double)series, (double)spent[ROUNDS / 2] / 1e6);
}

int main(void)
{
    static const size_t sizes[] = {500, 5000};
    for (size_t i = 0; i < 2; i++) {
        struct picture picture;
        build_many(&picture, sizes[i]);
        measure(&picture, sizes[i], FORMAT_TEXT);
        measure(&picture, sizes[i], FORMAT_OPENMETRICS);
        picture_done(&picture);
    }
    return 0;
}
