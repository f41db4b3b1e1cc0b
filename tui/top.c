/* SPDX-License-Identifier: PostgreSQL */
/* pgleader top: options, and what is done where a screen cannot be drawn. */
#include "tui/top.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "tui/app.h"
#include "tui/charset.h"
#include "tui/command.h"
#include "tui/term.h"

#define INTERVAL_US (2 * SECOND_US)
#define LEAST_INTERVAL_US (SECOND_US / 2)

static void print_help(const struct option_row *table)
{
    (void)puts(
        "Usage: pgleader top [OPTION]... [CONNINFO]\n"
        "Shows who leads, live. It only reads, unless --allow-yield is given: then a duty can be "
        "moved\naway from its leader, after a dialog.\n");
    option_print_help(table, stdout);
    (void)puts(
        "\nKeys: ? on the screen lists them. Colours are the terminal's own, and NO_COLOR is "
        "respected.\n"
        "Exit status: 0 after q, 64 bad command line or configuration, 69 no terminal to "
        "draw on,\n"
        "128 and the number of the signal that ended it.");
}

/* On a terminal that cannot move its cursor `status --watch` shows the same, line by line. */
static int without_screen(const struct app_options *options)
{
    struct error err = {0};
    const struct server_options *servers = &options->servers;
    for (const struct command *command = commands; command->name; command++) {
        if (!text_equal(command->name, "status"))
            continue;
        struct arena *arena = arena_new();
        char **words = arena_array(arena, (size_t)servers->only.n + 6, sizeof *words);
        int n = 0;
        words[n++] = arena_strdup(arena, "status");
        words[n++] = arena_strdup(arena, "--watch");
        words[n++] = arena_printf(arena, "--interval=%" PRId64 "ms", options->interval_us / 1000);
        if (servers->config_file)
            words[n++] = arena_printf(arena, "--config=%s", servers->config_file);
        for (int i = 0; i < servers->only.n; i++)
            words[n++] = arena_printf(arena, "--server=%s", servers->only.items[i]);
        if (servers->conninfo)
            words[n++] = servers->conninfo; /* itself: a password is taken out of it there */
        words[n] = NULL;
        int status = command->run(n, words);
        arena_free(arena);
        return status;
    }
    (void)error_set(&err, ERROR_SYSTEM,
                    "could not draw: standard input and output are no terminal that can move its "
                    "cursor");
    error_hint(&err, "run it on a terminal, with TERM as that is named.");
    return command_fail("top", &err, STATUS_UNAVAILABLE);
}

static bool check(const struct app_options *options, int n_operands, struct error *err)
{
    if (n_operands > 1)
        return error_set(err, ERROR_USAGE,
                         "could not read the command line: more than one CONNINFO; quote it");
    if (options->yielding.grace_us > HOUR_US)
        return error_set(err, ERROR_USAGE, "could not read --grace: it is at most 1h");
    if (options->yielding.wait_us > DAY_US)
        return error_set(err, ERROR_USAGE, "could not read --wait: it is at most 24h");
    if (options->interval_us < LEAST_INTERVAL_US)
        return error_set(err, ERROR_USAGE, "could not read --interval: less than 500ms");
    return true;
}

static int run(struct app_options *options, int argc, char **argv, int rest)
{
    struct config *config = NULL;
    options->servers.conninfo = rest < argc ? argv[rest] : NULL;
    if (!term_usable())
        return without_screen(options);
    if (!servers_read(&options->servers, "top", &config))
        return STATUS_USAGE;
    return app_run(options, config);
}

int top_run(int argc, char **argv)
{
    struct app_options options = {
        .interval_us = INTERVAL_US,
        .yielding = {.grace_us = 10 * SECOND_US, .wait_us = 30 * SECOND_US}};
    bool help = false;
    const struct option_row table[] = {
        SERVER_OPTIONS(&options.servers),
        {"interval", "DURATION", "How often to look, at least 500ms.", "2s", OPTION_DURATION,
         &options.interval_us},
        {"allow-yield", NULL, "Let Y, in the detail of a duty, ask whether to yield it.", NULL,
         OPTION_FLAG, &options.allow_yield},
        {"grace", "TIME", "Then, how long a leader that listens may take to yield by itself.",
         "10s", OPTION_DURATION, &options.yielding.grace_us},
        {"wait", "TIME", "And how long to watch for a successor.", "30s", OPTION_DURATION,
         &options.yielding.wait_us},
        {"help", NULL, "Print this and exit.", NULL, OPTION_FLAG, &help},
        {0},
    };
    struct error err = {0};
    int rest = argc;
    charset_take();
    int status = EXIT_SUCCESS;
    if (!option_parse(table, argc, argv, &rest, &err) ||
        (!help && !check(&options, argc - rest, &err)))
        status = command_fail("top", &err, STATUS_USAGE);
    else if (help)
        print_help(table);
    else
        status = run(&options, argc, argv, rest);
    free(options.servers.only.items);
    return status;
}
