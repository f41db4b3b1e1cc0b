/* SPDX-License-Identifier: PostgreSQL */
/* pgleader ledger install: the embedded files, in order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "pg/conninfo.h"
#include "pg/script.h"
#include "tui/command.h"
#include "tui/ledger.h"
#include "tui/ledger_command.h"
#include "tui/ledger_facts.h"
#include "tui/talk.h"

/* An installer may have to wait for another one. */
static const int64_t install_within_us = 2 * MINUTE_US;

static bool look(struct talk *talk, struct arena *arena, struct ledger_facts *ret_facts,
                 struct error *err)
{
    struct pg_section sections[LEDGER_SECTIONS];
    ledger_sections(sections);
    struct pg_batch *batch = talk_ask(talk, sections, LEDGER_SECTIONS, err);
    if (!batch)
        return false;
    ledger_take(batch, 0, arena, ret_facts);
    pg_batch_free(batch);
    if (ret_facts->version >= 0)
        return true;
    *err = ret_facts->error;
    return false;
}

/* True where the person, or --yes, says so. */
static bool agreed(const struct ledger_arguments *arguments, const char *where, int32_t version,
                   struct error *err)
{
    char answer[16] = "";
    if (arguments->yes)
        return true;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
        (void)error_set(err, ERROR_USAGE, "could not ask: there is no terminal");
        error_hint(err, "--yes installs without asking.");
        return false;
    }
    if (version == 0)
        (void)fprintf(stderr, "Install the ledger, version %d, in %s? [y/N] ",
                      ledger_program_version(), where);
    else
        (void)fprintf(stderr, "Install version %d of the ledger in %s, which has %d? [y/N] ",
                      ledger_program_version(), where, version);
    (void)fflush(stderr);
    if (fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
        return true;
    return error_set(err, ERROR_USAGE, "could not install: not agreed; nothing was done");
}

static void print_warnings(const struct pg_warnings *warnings)
{
    for (size_t i = 0; i < warnings->n; i++) {
        const struct pg_warning *warning = &warnings->items[i];
        (void)fprintf(stderr, "pgleader ledger: warning: %s\n", warning->message);
        if (*warning->detail)
            (void)fprintf(stderr, "detail: %s\n", warning->detail);
        if (*warning->hint)
            (void)fprintf(stderr, "hint: %s\n", warning->hint);
    }
}

static bool run_file(struct talk *talk, const struct embedded_file *file, bool there,
                     struct error *err)
{
    struct pg_warnings warnings = {0};
    struct error why = {0};
    bool ok = pg_script_run(talk->conn, file->text, talk->deadline_us, &warnings, &why);
    print_warnings(&warnings);
    pg_warnings_done(&warnings);
    if (ok) {
        (void)printf("%-20s %s\n", file->name, there ? "is there" : "done");
        (void)fflush(stdout);
        return true;
    }
    const char *reason = strstr(why.message, ": ");
    (void)error_set(err, why.kind, "could not install %s: %s", file->name,
                    reason ? reason + 2 : why.message);
    memcpy(err->sqlstate, why.sqlstate, sizeof err->sqlstate);
    error_hint(err, "%s", why.hint);
    return false;
}

static int install(struct talk *talk, const struct ledger_facts *facts)
{
    struct error err = {0};
    for (const struct embedded_file *file = ledger_files; file->name; file++) {
        bool there =
            strtol(file->name, NULL, 10) != 0 && strtol(file->name, NULL, 10) <= facts->version;
        if (run_file(talk, file, there, &err))
            continue;
        if (strcmp(err.sqlstate, "25006") == 0 && !*err.hint)
            error_hint(&err, "This is a standby: install on its primary.");
        else if (strcmp(err.sqlstate, "42501") == 0 && !*err.hint)
            error_hint(&err, "Install as a superuser, or as the owner of the database.");
        return command_fail("ledger", &err,
                            err.kind == ERROR_QUERY && strcmp(err.sqlstate, "42501") != 0
                                ? EXIT_FAILURE
                                : talk_status(&err));
    }
    return EXIT_SUCCESS;
}

static int install_at(const struct config_server *server, const char *where,
                      const struct ledger_arguments *arguments, struct arena *arena)
{
    struct talk talk = {0};
    struct ledger_facts facts = {0};
    struct error err = {0};
    int status = EXIT_FAILURE;
    if (!talk_open(server, install_within_us, &talk, &err))
        return command_fail("ledger", &err, talk_status(&err));
    if (!look(&talk, arena, &facts, &err)) {
        status = command_fail("ledger", &err, talk_status(&err));
    } else if (facts.version > ledger_program_version()) {
        (void)error_set(&err, ERROR_USAGE,
                        "could not install version %d of the ledger in %s: it has version %d",
                        ledger_program_version(), where, facts.version);
        error_hint(&err, "Use a newer pgleader: this one would take back rights that it does not "
                         "know.");
        status = command_fail("ledger", &err, EXIT_FAILURE);
    } else if (!agreed(arguments, where, facts.version, &err)) {
        status = command_fail("ledger", &err, STATUS_USAGE);
    } else {
        talk.deadline_us = clock_monotonic_us() + install_within_us;
        status = install(&talk, &facts);
    }
    talk_close(&talk);
    return status;
}

int ledger_install(const struct config *config, const struct ledger_arguments *arguments)
{
    struct error err = {0};
    if (config->n_servers != 1) {
        (void)error_set(&err, ERROR_USAGE, "could not choose a server: the configuration has %zu",
                        config->n_servers);
        error_hint(&err, "Name one by --server.");
        return command_fail("ledger", &err, STATUS_USAGE);
    }
    struct arena *arena = arena_new();
    CLEANUP(free_charp) char *where = conninfo_describe(config->servers[0].conninfo);
    int status = install_at(&config->servers[0], where, arguments, arena);
    arena_free(arena);
    return status;
}
