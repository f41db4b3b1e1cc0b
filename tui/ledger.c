/* SPDX-License-Identifier: PostgreSQL */
/* pgleader ledger: what is installed of it, installing it, and its SQL. */
#include "tui/ledger.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/option.h"
#include "base/text.h"
#include "tui/command.h"
#include "tui/ledger_command.h"

static void print_help(const struct option_row *table)
{
    (void)puts(
        "Usage: pgleader ledger status|install|sql [OPTION]... [CONNINFO]\n"
        "The ledger is plain SQL in the schema pgleader of the duties' database.\n\n"
        "  status   what is installed, what is missing, and where registry and configuration "
        "differ\n"
        "  install  runs its files in order, each in a transaction of its own, then its roles; "
        "what is\n"
        "           there stays. Asks first on a terminal, and needs --yes elsewhere.\n"
        "  sql      prints its files as they are, for psql\n");
    option_print_help(table, stdout);
    (void)puts("\nExit status: 0 installed and complete (status), installed (install), printed "
               "(sql); 1 absent,\nincomplete, of another version or differing (status), not "
               "installed (install); 64 bad command\nline; 69 no server; 74 the result could not "
               "be written; 77 no permission. status of "
               "several\nservers: the worst of them.");
}

static int print_sql(void)
{
    for (const struct embedded_file *file = ledger_files; file->name; file++)
        (void)fputs(file->text, stdout);
    return EXIT_SUCCESS;
}

static bool check(const struct ledger_arguments *arguments, int n_operands, const char *verb,
                  struct error *err)
{
    if (!verb)
        (void)error_set(err, ERROR_USAGE,
                        "could not read the command line: status, install or sql?");
    else if (!text_equal(verb, "status") && !text_equal(verb, "install") &&
             !text_equal(verb, "sql"))
        (void)error_set(err, ERROR_USAGE, "could not run \"ledger %s\": no such command", verb);
    else if (n_operands > 2)
        (void)error_set(err, ERROR_USAGE,
                        "could not read the command line: more than one CONNINFO; quote it");
    else if (text_equal(verb, "sql") && (n_operands > 1 || arguments->json || arguments->yes))
        (void)error_set(err, ERROR_USAGE, "could not read the command line: sql takes nothing");
    else
        return true;
    error_hint(err, "`pgleader ledger --help` says how.");
    return false;
}

static int run(const char *verb, const struct ledger_arguments *arguments)
{
    CLEANUP(config_freep) struct config *config = NULL;
    if (text_equal(verb, "sql"))
        return print_sql();
    if (!servers_read(&arguments->servers, "ledger", &config))
        return STATUS_USAGE;
    return text_equal(verb, "status") ? ledger_status(config, arguments)
                                      : ledger_install(config, arguments);
}

int ledger_run(int argc, char **argv)
{
    struct ledger_arguments arguments = {0};
    const struct option_row table[] = {
        SERVER_OPTIONS(&arguments.servers),
        {"yes", NULL, "Installs without asking.", NULL, OPTION_FLAG, &arguments.yes},
        {"json", NULL, "status: prints one JSON object.", NULL, OPTION_FLAG, &arguments.json},
        {"help", NULL, "Prints this.", NULL, OPTION_FLAG, &arguments.help},
        {0},
    };
    struct error err = {0};
    int rest = 0;
    bool ok = option_parse(table, argc, argv, &rest, &err);
    if (ok && arguments.help) {
        print_help(table);
        return EXIT_SUCCESS;
    }
    const char *verb = ok && rest < argc ? argv[rest] : NULL;
    if (ok && argc - rest == 2)
        arguments.servers.conninfo = argv[rest + 1];
    ok = ok && check(&arguments, argc - rest, verb, &err);
    int status = ok ? run(verb, &arguments) : command_fail("ledger", &err, STATUS_USAGE);
    free(arguments.servers.only.items);
    return command_written("ledger", status, STATUS_UNWRITTEN);
}
