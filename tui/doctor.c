/* SPDX-License-Identifier: PostgreSQL */
/* pgleader doctor: is this database, role and fleet fit to lead by advisory lock? */
#include "tui/doctor.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/option.h"
#include "tui/at_once.h"
#include "tui/command.h"
#include "tui/servers.h"

struct arguments {
    struct server_options servers;
    bool json, list, help;
};

static void print_help(const struct option_row *table)
{
    (void)puts("Usage: pgleader doctor [OPTION]... [CONNINFO]\n"
               "Looks whether databases, roles and workers are fit for duties, and says what to "
               "do. It only reads.\n");
    option_print_help(table, stdout);
    (void)puts("\nExit status: 0 fit (notes may be shown), 1 problems or warnings, 2 a server "
               "could not be looked\nat, or the result not be written, 64 bad command line.");
}

static void add(struct doctor *doctor, enum severity severity, const char *format, va_list args)
{
    CLEANUP(free_charp) char *evidence = xvasprintf(format, args);
    doctor->findings =
        xreallocarray(doctor->findings, doctor->n_findings + 1, sizeof *doctor->findings);
    doctor->findings[doctor->n_findings++] = (struct finding){
        doctor->check, severity, doctor->server, arena_strdup(doctor->arena, evidence), NULL};
}

void doctor_find(struct doctor *doctor, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(doctor, doctor->check->severity, format, args);
    va_end(args);
}

void doctor_note(struct doctor *doctor, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(doctor, SEVERITY_NOTE, format, args);
    va_end(args);
}

void doctor_mend(struct doctor *doctor, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    CLEANUP(free_charp) char *statement = xvasprintf(format, args);
    va_end(args);
    doctor->findings[doctor->n_findings - 1].statement = arena_strdup(doctor->arena, statement);
}

const char *doctor_quote(struct doctor *doctor, const char *name)
{
    char *quoted = arena_array(doctor->arena, 2 * strlen(name) + 3, 1), *to = quoted;
    *to++ = '"';
    for (; *name; *to++ = *name++) {
        if (*name == '"')
            *to++ = '"';
    }
    *to++ = '"';
    *to = '\0';
    return quoted;
}

/* The worst first, then in the order of the table; findings of one check stay as they came. */
static void sort_findings(struct doctor *doctor)
{
    struct finding *sorted = xcalloc(doctor->n_findings + 1, sizeof *sorted);
    size_t n = 0;
    for (int severity = SEVERITY_PROBLEM; severity >= SEVERITY_NOTE; severity--) {
        for (size_t i = 0; i < doctor->n_findings; i++) {
            if (doctor->findings[i].severity == (enum severity)severity)
                sorted[n++] = doctor->findings[i];
        }
    }
    free(doctor->findings);
    doctor->findings = sorted;
}

void doctor_examine(struct doctor *doctor)
{
    for (const struct doctor_check *check = doctor_checks; check->id; check++) {
        doctor->check = check;
        doctor->server = NULL;
        if (check->look_at_all)
            check->look_at_all(doctor);
        for (size_t i = 0; i < doctor->n_servers && check->look; i++) {
            const struct doctor_server *server = &doctor->servers[i];
            doctor->server = server->config->name;
            if (server->looked)
                check->look(doctor, &server->facts, server->config);
        }
    }
    sort_findings(doctor);
}

int doctor_status(const struct doctor *doctor)
{
    int status = DOCTOR_FIT;
    for (size_t i = 0; i < doctor->n_findings; i++) {
        if (doctor->findings[i].severity > SEVERITY_NOTE)
            status = DOCTOR_FINDINGS;
    }
    for (size_t i = 0; i < doctor->n_servers; i++) {
        if (!doctor->servers[i].looked)
            status = DOCTOR_BLIND;
    }
    return status;
}

static void look(void *item)
{
    struct doctor_server *server = item;
    server->looked = doctor_read(server->config, server->arena, &server->facts, &server->error);
}

static int examine(const struct config *config, bool json)
{
    struct doctor doctor = {.arena = arena_new()};
    doctor.servers = arena_array(doctor.arena, config->n_servers + 1, sizeof *doctor.servers);
    doctor.n_servers = config->n_servers;
    for (size_t i = 0; i < config->n_servers; i++)
        doctor.servers[i] =
            (struct doctor_server){.config = &config->servers[i], .arena = arena_new()};
    at_once(doctor.servers, doctor.n_servers, sizeof *doctor.servers, look);
    for (size_t i = 0; i < doctor.n_servers; i++) {
        const struct doctor_server *server = &doctor.servers[i];
        struct error told = {0};
        if (server->looked)
            continue;
        (void)error_set(&told, server->error.kind, "could not look at %s: %s", server->config->name,
                        server->error.message);
        error_hint(&told, "%s", server->error.hint);
        (void)command_fail("doctor", &told, DOCTOR_BLIND);
    }
    doctor_examine(&doctor);
    if (json)
        doctor_print_json(&doctor, stdout);
    else
        doctor_print(&doctor, stdout);
    int status = doctor_status(&doctor);
    free(doctor.findings);
    for (size_t i = 0; i < doctor.n_servers; i++)
        arena_free(doctor.servers[i].arena);
    arena_free(doctor.arena);
    return status;
}

int doctor_run(int argc, char **argv)
{
    struct arguments arguments = {0};
    const struct option_row table[] = {
        SERVER_OPTIONS(&arguments.servers),
        {"json", NULL, "Prints one JSON object.", NULL, OPTION_FLAG, &arguments.json},
        {"list", NULL, "Prints the checks: id, severity, what it finds, remedy, with tabs between.",
         NULL, OPTION_FLAG, &arguments.list},
        {"help", NULL, "Prints this.", NULL, OPTION_FLAG, &arguments.help},
        {0},
    };
    struct error err = {0};
    CLEANUP(config_freep) struct config *config = NULL;
    int rest = 0, status = DOCTOR_FIT;
    bool ok = option_parse(table, argc, argv, &rest, &err);
    if (ok && argc - rest > 1)
        ok = error_set(&err, ERROR_USAGE,
                       "could not read the command line: more than one CONNINFO; quote it");
    if (ok && rest < argc)
        arguments.servers.conninfo = argv[rest];
    if (!ok)
        status = command_fail("doctor", &err, STATUS_USAGE);
    else if (arguments.help)
        print_help(table);
    else if (arguments.list)
        doctor_print_list(stdout);
    else if (!servers_read(&arguments.servers, "doctor", &config))
        status = STATUS_USAGE;
    else
        status = examine(config, arguments.json);
    free(arguments.servers.only.items);
    return command_written("doctor", status, DOCTOR_BLIND);
}
