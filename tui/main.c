/* SPDX-License-Identifier: PostgreSQL */
/* pgleader: for the person on call. Each subcommand is a room of its own. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/standard.h"
#include "base/text.h"
#include "tui/command.h"
#include "tui/harmless.h"
#include "tui/term.h"
#include "tui/top.h"

static void print_help(void)
{
    (void)puts(
        "Usage: pgleader COMMAND [OPTION]... [OPERAND]...\n"
        "       pgleader                 on a terminal: pgleader top\n"
        "Shows who leads each duty of PostgreSQL servers, and moves leadership when asked.\n");
    for (const struct command *command = commands; command->name; command++)
        (void)printf("  %-8s %s\n", command->name, command->summary);
    (void)puts("\n`pgleader COMMAND --help` says more. Which servers: a CONNINFO, --config FILE or "
               "PGLEADER_CONFIG (the\nexporter's configuration), else the PG* variables as psql "
               "reads them.");
}

int command_fail(const char *name, const struct error *err, int status)
{
    (void)fprintf(stderr, "pgleader %s: ", name);
    print_harmless(stderr, err->message);
    if (*err->detail)
        (void)fprintf(stderr, "\ndetail: %s", err->detail);
    if (*err->hint)
        (void)fprintf(stderr, "\nhint: %s", err->hint);
    (void)putc('\n', stderr);
    return status;
}

int command_written(const char *name, int status, int unwritten)
{
    bool failed = ferror(stdout) != 0;
    if (fflush(stdout) == 0 && !failed)
        return status;
    (void)fprintf(stderr, "pgleader %s: could not write the result to standard output\n", name);
    return unwritten;
}

int main(int argc, char **argv)
{
    standard_files_open(O_RDONLY);
    (void)signal(SIGXFSZ, SIG_IGN); /* an error of writing, and no end in the middle of a yield */
    if (argc > 1 && text_equal(argv[1], "--version")) {
        (void)puts("pgleader " PGLEADER_VERSION);
        return EXIT_SUCCESS;
    }
    if (argc < 2 && term_usable())
        return top_run(1, (char *[]){(char[]){"top"}, NULL});
    if (argc < 2 || text_equal(argv[1], "--help")) {
        print_help();
        return argc < 2 ? STATUS_USAGE : EXIT_SUCCESS;
    }
    for (const struct command *command = commands; command->name; command++) {
        if (text_equal(command->name, argv[1]))
            return command->run(argc - 1, argv + 1);
    }
    (void)fprintf(stderr,
                  "pgleader: could not run \"%s\": no such command\n"
                  "hint: `pgleader --help` lists them.\n",
                  argv[1]);
    return STATUS_USAGE;
}
