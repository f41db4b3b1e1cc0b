/* SPDX-License-Identifier: PostgreSQL */
/* The web server with nothing behind it: fixed bodies, and a health that is set from standard
 * input. For tests of what HTTP alone is about.
 *
 *   http_harness [--size=BYTES] [--lifecycle] [--web-config=FILE] [--telemetry=PATH] [ADDRESS...]
 *
 * It reads the words healthy, unhealthy, ready, unready, wait and stop, one a line, and prints what
 * happens, one line each. */
#include <getopt.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "exporter/http.h"

struct harness {
    struct body *bodies[FORMAT_COUNT][2];
    atomic_bool healthy, ready;
};

static void say(const char *word, const char *text)
{
    char *line = xasprintf("%s %s\n", word, text);
    if (fputs(line, stdout) < 0 || fflush(stdout) != 0)
        abort();
    free(line);
}

static struct body *metrics(void *context, const char *target, enum exposition_format format,
                            bool gzip)
{
    struct harness *harness = context;
    if (target && strcmp(target, "one") != 0)
        return NULL;
    return body_ref(harness->bodies[format][gzip]);
}

static void page(void *context, FILE *out)
{
    (void)context;
    (void)fputs("<!DOCTYPE html><title>harness</title>", out);
}

static bool healthy(void *context)
{
    return atomic_load(&((struct harness *)context)->healthy);
}

static bool ready(void *context)
{
    return atomic_load(&((struct harness *)context)->ready);
}

static void reload(void *context)
{
    (void)context;
    say("reload", "");
}

static void warn(void *context, const char *text)
{
    (void)context;
    say("warn", text);
}

static struct body *compressed(const struct body *plain)
{
    z_stream z = {.next_in = (Bytef *)plain->data, .avail_in = (uInt)plain->size};
    if (deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        abort();
    uLong bound = deflateBound(&z, plain->size);
    z.next_out = xmalloc(bound);
    z.avail_out = (uInt)bound;
    char *data = (char *)z.next_out;
    if (deflate(&z, Z_FINISH) != Z_STREAM_END)
        abort();
    struct body *body = body_new(data, z.total_out);
    (void)deflateEnd(&z);
    return body;
}

/* "# text 0\n# text 1\n..." of about that size. */
static void make_bodies(struct harness *harness, int64_t size)
{
    static const char *const names[FORMAT_COUNT] = {"text", "openmetrics"};
    for (int format = 0; format < FORMAT_COUNT; format++) {
        char *data = NULL;
        size_t length = 0;
        FILE *out = open_memstream(&data, &length);
        for (int i = 0; out && (i == 0 || (int64_t)length < size); i++) {
            (void)fprintf(out, "# %s %d\n", names[format], i);
            (void)fflush(out);
        }
        if (!out || fclose(out) != 0)
            abort();
        harness->bodies[format][0] = body_new(data, length);
        harness->bodies[format][1] = compressed(harness->bodies[format][0]);
    }
}

/* Every reference that was given out has come back. */
static bool bodies_are_back(struct harness *harness)
{
    bool back = true;
    for (int i = 0; i < FORMAT_COUNT * 2; i++) {
        struct body *body = harness->bodies[i / 2][i % 2];
        back = back && atomic_load(&body->references) == 1;
        body_unref(body);
    }
    return back;
}

static void obey(struct harness *harness)
{
    char line[64];
    while (fgets(line, sizeof line, stdin) && strcmp(line, "stop\n") != 0) {
        if (strstr(line, "healthy"))
            atomic_store(&harness->healthy, line[0] == 'h');
        else if (strstr(line, "ready"))
            atomic_store(&harness->ready, line[0] == 'r');
        say("done", "");
    }
}

static struct http_options read_options(int argc, char **argv, int64_t *ret_size)
{
    static const struct option table[] = {{"size", required_argument, NULL, 's'},
                                          {"lifecycle", no_argument, NULL, 'l'},
                                          {"web-config", required_argument, NULL, 'w'},
                                          {"telemetry", required_argument, NULL, 't'},
                                          {0}};
    struct http_options options = {.telemetry_path = "/metrics", .warn = warn};
    for (int c; (c = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        if (c == 'l')
            options.lifecycle = true;
        else if (c == 'w')
            options.web_config_path = optarg;
        else if (c == 't')
            options.telemetry_path = optarg;
        else if (c != 's' || !text_to_int64(optarg, ret_size))
            exit(2);
    }
    options.listen_addresses = (const char *const *)argv + optind;
    options.n_listen_addresses = argc - optind;
    return options;
}

int main(int argc, char **argv)
{
    int64_t size = 1000;
    struct error err = {0};
    struct problems warnings = {0};
    struct http_options options = read_options(argc, argv, &size);
    struct harness harness = {.healthy = true, .ready = true};
    make_bodies(&harness, size);
    const struct http_content content = {&harness, metrics, page, healthy, ready, reload};
    struct http_server *server = http_start(&options, &content, &warnings, &err);
    for (size_t i = 0; i < warnings.n; i++)
        say("warning", warnings.items[i]);
    problems_done(&warnings);
    if (!server) {
        say("error", err.message);
        (void)bodies_are_back(&harness);
        return 1;
    }
    say("listening", http_addresses(server));
    obey(&harness);
    int64_t start_us = clock_monotonic_us();
    http_stop(server);
    char *line = xasprintf("%d %s", (int)((clock_monotonic_us() - start_us) / 1000),
                           bodies_are_back(&harness) ? "clean" : "leaked");
    say("stopped", line);
    free(line);
    return 0;
}
