/* SPDX-License-Identifier: PostgreSQL */
/* What a scrape costs in CPU time without the web server: the first of a picture, with and without
 * gzip, and one of a picture that has not changed; for 500 and 5,000 duties. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "exporter/exposition.h"
#include "tests/support/picture_builder.h"

enum { ROUNDS = 15 };

/* What changes between the scrapes that are compared. */
enum change { CHANGE_PICTURE, CHANGE_TAIL, CHANGE_NOTHING };
static const char *const change_names[] = {"new picture", "new tail", "nothing new"};

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

static size_t count_series(struct exposition *exposition)
{
    struct body *body = exposition_get(exposition, NULL, FORMAT_TEXT, false);
    size_t n = 0;
    for (size_t i = 0; i + 1 < body->size; i++)
        n += body->data[i] == '\n' && body->data[i + 1] != '#';
    body_unref(body);
    return n;
}

static void publish(struct board *board, struct snapshot *snapshot)
{
    struct published *published = build_published("prod-us", snapshot_ref(snapshot));
    published->success_monotonic_us = clock_monotonic_us();
    published->fresh_for_us = HOUR_US;
    board_publish(board, published);
}

static void measure(struct board *board, struct exposition *exposition, struct snapshot *snapshot,
                    enum change change, bool gzip)
{
    int64_t spent[ROUNDS];
    size_t size = 0;
    for (int i = 0; i < ROUNDS; i++) {
        if (change == CHANGE_PICTURE)
            publish(board, snapshot);
        if (change == CHANGE_TAIL)
            board_set_reload(board, true, i + 1);
        int64_t begin = cpu_ns();
        struct body *body = exposition_get(exposition, NULL, FORMAT_TEXT, gzip);
        spent[i] = cpu_ns() - begin;
        size = body->size;
        body_unref(body);
    }
    qsort(spent, ROUNDS, sizeof *spent, compare);
    double median = (double)spent[ROUNDS / 2];
    printf("%5zu duties, %-11s %s %8zu bytes: %9.1f us, %6.1f ns per series\n", snapshot->n_duties,
           change_names[change], gzip ? "gzip " : "plain", size, median / 1e3,
           median / (double)count_series(exposition));
}

static void bench(size_t n)
{
    static const struct config_server server = {.name = "prod-us"};
    struct picture picture;
    build_many(&picture, n);
    struct board *board = board_new();
    board_set_servers(board, &(struct config){.servers = &server, .n_servers = 1});
    struct exposition *exposition = exposition_new(board);
    for (enum change change = CHANGE_PICTURE; change <= CHANGE_NOTHING; change++) {
        for (int gzip = 0; gzip < 2; gzip++)
            measure(board, exposition, picture.servers[0]->snapshot, change, gzip);
    }
    exposition_free(exposition);
    board_free(board);
    picture_done(&picture);
}

int main(void)
{
    bench(500);
    bench(5000);
    return 0;
}
