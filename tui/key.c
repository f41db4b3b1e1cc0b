/* SPDX-License-Identifier: PostgreSQL */
/* pgleader key: which lock a duty's name derives, or a number is, and whether it is taken. */
#include "pg/key.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/option.h"
#include "base/text.h"
#include "pg/conninfo.h"
#include "tui/at_once.h"
#include "tui/command.h"
#include "tui/key.h"
#include "tui/servers.h"
#include "tui/talk.h"

static const int64_t look_within_us = 10 * SECOND_US;

struct arguments {
    const char *environment, *subject;
    struct server_options servers;
    bool json, help;
};

static void print_help(const struct option_row *table)
{
    (void)puts(
        "Usage: pgleader key NAMESPACE/NAME|KEY [OPTION]... [CONNINFO]\n"
        "Shows the advisory lock of a duty: its key, how pg_locks shows it, and how to find who "
        "has it.\n"
        "KEY is what the lock functions take: 742118, or 12,-7 for a pair. The key of a name is\n"
        "derived from it and --environment; without that it is looked up.\n\n"
        "With a CONNINFO or a configuration it is compared with every duty of the registries and "
        "the\nconfiguration, and with keys that other software is known to take. Without them "
        "nothing is\nconnected to.\n");
    option_print_help(table, stdout);
    (void)puts("\nExit status: 0 shown, and no collision found; 1 another duty has the key; 64 bad "
               "command line;\n69 a server could not be asked; 74 the result could not be written; "
               "77 a server denies it.");
}

/* A negative number is an operand, though it looks like options. Takes it out of argv. */
static const char *take_negative(int *argc, char **argv)
{
    for (int i = 1; i < *argc; i++) {
        if (text_equal(argv[i], "--"))
            break;
        if (argv[i][0] != '-' || !isdigit((unsigned char)argv[i][1]))
            continue;
        const char *found = argv[i];
        memmove(argv + i, argv + i + 1, (size_t)(*argc - i) * sizeof *argv);
        (*argc)--;
        return found;
    }
    return NULL;
}

static bool read_arguments(const struct option_row *table, int argc, char **argv,
                           struct arguments *arguments, struct error *err)
{
    int rest = 0;
    arguments->subject = take_negative(&argc, argv);
    if (!option_parse(table, argc, argv, &rest, err))
        return false;
    if (!arguments->subject && rest < argc)
        arguments->subject = argv[rest++];
    if (rest < argc)
        arguments->servers.conninfo = argv[rest++];
    if (arguments->help)
        return true;
    if (!arguments->subject || rest < argc) {
        (void)error_set(err, ERROR_USAGE, "could not read the command line: %s",
                        arguments->subject ? "more than a key and a CONNINFO"
                                           : "no NAMESPACE/NAME and no KEY");
        error_hint(err, "A CONNINFO is one word: quote it.");
        return false;
    }
    return true;
}

/* What the command line says alone. A name without an environment stays without a key. */
static bool begin(const struct arguments *arguments, struct key_report *report, struct error *err)
{
    const char *subject = arguments->subject;
    if (lock_key_parse(subject, &report->key))
        return true;
    if (!strchr(subject, '/') || !duty_name_valid(subject)) {
        (void)error_set(err, ERROR_USAGE, "could not read \"%s\": neither a duty nor a key",
                        subject);
        error_hint(err, "A duty is namespace/name of [a-z0-9._-], at most 48 bytes; a key is a "
                        "number of 64 bits, or two of 32 as in 12,-7.");
        return false;
    }
    report->duty = subject;
    report->environment = arguments->environment;
    return !arguments->environment ||
           lock_key_derive(arguments->environment, subject, 1, &report->key, err);
}

/* One server's registry, on its way into the report. */
struct question {
    struct key_source source;
    struct error error; /* why it could not be asked; ERROR_NONE: it was */
};

static void ask_server(void *item)
{
    struct question *question = item;
    struct talk talk = {0};
    const struct pg_section section = registry_section();
    struct registry *registry = &question->source.registry;
    if (!talk_open(question->source.server, look_within_us, &talk, &question->error))
        return;
    struct pg_batch *batch = talk_ask(&talk, &section, 1, &question->error);
    if (batch)
        registry_take(pg_batch_outcome(batch, 0), question->source.arena, registry);
    pg_batch_free(batch);
    talk_close(&talk);
    if (batch && registry->installed && !registry->read)
        question->error = registry->error;
}

/* Asks every server; each failure is said. The status is that of the last one, or 0. */
static int ask_servers(const struct config *config, struct key_report *report)
{
    int status = EXIT_SUCCESS;
    report->sources = arena_array(report->arena, config->n_servers + 1, sizeof *report->sources);
    struct question *questions =
        arena_array(report->arena, config->n_servers + 1, sizeof *questions);
    for (size_t i = 0; i < config->n_servers; i++)
        questions[i] =
            (struct question){.source = {.server = &config->servers[i], .arena = arena_new()}};
    at_once(questions, config->n_servers, sizeof *questions, ask_server);
    for (size_t i = 0; i < config->n_servers; i++) {
        const struct error *err = &questions[i].error;
        struct error told = {0};
        if (err->kind == ERROR_NONE) {
            report->sources[report->n_sources++] = questions[i].source;
            continue;
        }
        (void)error_set(&told, err->kind, "could not look at %s: %s", config->servers[i].name,
                        err->message);
        error_hint(&told, "%s", err->hint);
        arena_free(questions[i].source.arena);
        status = command_fail("key", &told, talk_status(err));
    }
    return status;
}

static bool has_servers(const struct arguments *arguments)
{
    const char *file = getenv("PGLEADER_CONFIG");
    return arguments->servers.conninfo || arguments->servers.config_file || (file && *file);
}

static int report_key(const struct arguments *arguments, struct config *config,
                      struct key_report *report)
{
    struct error err = {0};
    int status = EXIT_SUCCESS;
    if (!begin(arguments, report, &err))
        return command_fail("key", &err, STATUS_USAGE);
    if (config) {
        status = ask_servers(config, report);
        if (config->n_servers == 1)
            report->connect = conninfo_public(config->servers[0].conninfo);
    }
    if (report->key.objsubid == 0 && !key_look_up(report)) {
        if (status != EXIT_SUCCESS)
            return status;
        (void)error_set(&err, ERROR_USAGE, "could not tell the key of \"%s\": %s", report->duty,
                        config
                            ? "neither the registry nor the configuration has this duty as a lock"
                            : "it is derived from the environment, too");
        error_hint(&err, "--environment=prod, or whatever its workers are registered with.");
        return command_fail("key", &err, STATUS_USAGE);
    }
    key_compare(report);
    key_print(report, arguments->json, stdout);
    if (report->n_collisions)
        return KEY_COLLISION;
    return status;
}

int key_run(int argc, char **argv)
{
    struct arguments arguments = {0};
    const struct option_row table[] = {
        {"environment", "NAME", "The environment that the key is derived from, with the name.",
         NULL, OPTION_STRING, &arguments.environment},
        SERVER_OPTIONS(&arguments.servers),
        {"json", NULL, "Prints one JSON object.", NULL, OPTION_FLAG, &arguments.json},
        {"help", NULL, "Prints this.", NULL, OPTION_FLAG, &arguments.help},
        {0},
    };
    struct error err = {0};
    CLEANUP(config_freep) struct config *config = NULL;
    if (!read_arguments(table, argc, argv, &arguments, &err))
        return command_fail("key", &err, STATUS_USAGE);
    if (arguments.help) {
        print_help(table);
        return EXIT_SUCCESS;
    }
    if (has_servers(&arguments) && !servers_read(&arguments.servers, "key", &config))
        return STATUS_USAGE;
    struct key_report report = {.arena = arena_new()};
    int status = report_key(&arguments, config, &report);
    free(report.connect);
    for (size_t i = 0; i < report.n_sources; i++)
        arena_free(report.sources[i].arena);
    arena_free(report.arena);
    free(arguments.servers.only.items);
    return command_written("key", status, STATUS_UNWRITTEN);
}
