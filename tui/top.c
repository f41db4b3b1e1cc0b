/* SPDX-License-Identifier: PostgreSQL */
/* pgleader top: options, and what is done where a screen cannot be drawn. */
#include "tui/top.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "pg/conninfo.h"
#include "tui/app.h"
#include "tui/command.h"
#include "tui/term.h"

#define INTERVAL_US (2 * SECOND_US)
#define LEAST_INTERVAL_US (SECOND_US / 2)

static void print_help(const struct option_row *table)
{
    (void)puts("Usage: pgleader top [OPTION]... [CONNINFO]\n"
               "Shows who leads, live. It only reads.\n");
    option_print_help(table, stdout);
    (void)puts(
        "\nKeys: ? on the screen lists them. Colours are the terminal's own, and NO_COLOR is "
        "respected.\n"
        "Exit status: 0 after q, 64 bad command line or configuration, 69 no terminal to "
        "draw on,\n"
        "128 and the number of the signal that ended it.");
}

/* On a terminal that cannot move its cursor `status --watch` shows the same, line by line. */
static int without_screen(int argc, char **argv)
{
    struct error err = {0};
    for (const struct command *command = commands; command->name; command++) {
        if (!text_equal(command->name, "status"))
            continue;
        char **words = xcalloc((size_t)argc + 2, sizeof *words);
        words[0] = (char[]){"status"};
        words[1] = (char[]){"--watch"};
        for (int i = 1; i < argc; i++)
            words[i + 1] = argv[i];
        int status = command->run(argc + 1, words);
        free(words);
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
    if (n_operands == 1 && options->servers.config_file)
        return error_set(err, ERROR_USAGE,
                         "could not read the command line: CONNINFO and --config exclude each "
                         "other");
    if (options->interval_us < LEAST_INTERVAL_US)
        return error_set(err, ERROR_USAGE, "could not read --interval: less than 500ms");
    return true;
}

static int run(struct app_options *options, int argc, char **argv, int rest)
{
    struct config *config = NULL;
    if (!term_usable())
        return without_screen(argc, argv);
    CLEANUP(free_charp) char *conninfo = rest < argc ? xstrdup(argv[rest]) : NULL;
    if (conninfo)
        conninfo_hide_password(argv[rest]);
    options->servers.conninfo = conninfo;
    if (!servers_read(&options->servers, "top", &config))
        return STATUS_USAGE;
    return app_run(options, config);
}

int top_run(int argc, char **argv)
{
    struct app_options options = {.interval_us = INTERVAL_US};
    bool help = false;
    const struct option_row table[] = {
        SERVER_OPTIONS(&options.servers),
        {"interval", "DURATION", "How often to look, at least 500ms.", "2s", OPTION_DURATION,
         &options.interval_us},
        {"help", NULL, "Print this and exit.", NULL, OPTION_FLAG, &help},
        {0},
    };
    struct error err = {0};
    int rest = argc;
    (void)setlocale(LC_CTYPE, "");
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
