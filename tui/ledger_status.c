/* SPDX-License-Identifier: PostgreSQL */
/* pgleader ledger status: what is there, what is missing, what differs. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"
#include "tui/command.h"
#include "tui/ledger_command.h"
#include "tui/ledger_facts.h"
#include "tui/talk.h"

static const int64_t look_within_us = 10 * SECOND_US;

struct view {
    const char *server;
    struct ledger_facts facts;
    struct drift *drift;
    size_t n_drift;
};

static void format_time(int64_t us, char *out, size_t size)
{
    time_t seconds = (time_t)(us / SECOND_US);
    struct tm tm;
    if (us == TIME_UNKNOWN || !gmtime_r(&seconds, &tm) ||
        strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        (void)snprintf(out, size, "unknown");
}

static const char *state_of(const struct ledger_facts *facts)
{
    int32_t ours = ledger_program_version();
    if (facts->version == 0)
        return "absent";
    return facts->version < ours ? "older" : facts->version > ours ? "newer" : "current";
}

static bool is_well(const struct view *view)
{
    return view->facts.version == ledger_program_version() && view->facts.n_missing == 0 &&
           view->n_drift == 0;
}

static void print_view(const struct view *view, FILE *out)
{
    const struct ledger_facts *facts = &view->facts;
    (void)fprintf(out, "%s\n", view->server);
    if (facts->version == 0)
        (void)fprintf(out, "  version   none; this pgleader brings %d: `pgleader ledger install`\n",
                      ledger_program_version());
    else
        (void)fprintf(out, "  version   %d, this pgleader brings %d: %s\n", facts->version,
                      ledger_program_version(), state_of(facts));
    for (size_t i = 0; i < facts->n_files; i++) {
        char when[32];
        format_time(facts->files[i].installed_at_us, when, sizeof when);
        (void)fprintf(out, "  file      %-20s %s by %s\n", facts->files[i].file, when,
                      facts->files[i].installed_by);
    }
    if (facts->registry.read)
        (void)fprintf(out, "  registry  %zu duties\n", facts->registry.n);
    for (size_t i = 0; i < facts->n_missing; i++)
        (void)fprintf(out, "  missing   %s: %s\n            remedy: %s\n", facts->missing[i].what,
                      facts->missing[i].loss, facts->missing[i].statement);
    for (size_t i = 0; i < view->n_drift; i++)
        (void)fprintf(out, "  differs   %s\n", view->drift[i].sentence);
}

static void print_text(FILE *out, const char *name, const char *value)
{
    (void)fprintf(out, "\"%s\":\"", name);
    text_json_escape(out, value ? value : "");
    (void)putc('"', out);
}

static void print_view_json(const struct view *view, FILE *out)
{
    const struct ledger_facts *facts = &view->facts;
    (void)putc('{', out);
    print_text(out, "server", view->server);
    (void)fprintf(out, ",\"version\":%d,\"program_version\":%d,\"state\":\"%s\",\"files\":[",
                  facts->version, ledger_program_version(), state_of(facts));
    for (size_t i = 0; i < facts->n_files; i++) {
        char when[32];
        format_time(facts->files[i].installed_at_us, when, sizeof when);
        (void)fprintf(out, "%s{\"version\":%d,", i ? "," : "", facts->files[i].version);
        print_text(out, "file", facts->files[i].file);
        (void)putc(',', out);
        print_text(out, "installed_at", when);
        (void)putc(',', out);
        print_text(out, "installed_by", facts->files[i].installed_by);
        (void)putc('}', out);
    }
    (void)fprintf(out, "],\"registry_duties\":%zu,\"missing\":[", facts->registry.n);
    for (size_t i = 0; i < facts->n_missing; i++) {
        (void)fputs(i ? ",{" : "{", out);
        print_text(out, "what", facts->missing[i].what);
        (void)putc(',', out);
        print_text(out, "loss", facts->missing[i].loss);
        (void)putc(',', out);
        print_text(out, "remedy", facts->missing[i].statement);
        (void)putc('}', out);
    }
    (void)fputs("],\"differs\":[", out);
    for (size_t i = 0; i < view->n_drift; i++) {
        (void)fputs(i ? ",{" : "{", out);
        print_text(out, "duty", view->drift[i].duty);
        (void)putc(',', out);
        print_text(out, "sentence", view->drift[i].sentence);
        (void)putc('}', out);
    }
    (void)fputs("]}", out);
}

static bool look(const struct config_server *server, struct arena *arena, struct view *view,
                 struct error *err)
{
    struct talk talk = {0};
    struct pg_section sections[LEDGER_SECTIONS];
    ledger_sections(sections);
    if (!talk_open(server, look_within_us, &talk, err))
        return false;
    struct pg_batch *batch = talk_ask(&talk, sections, LEDGER_SECTIONS, err);
    if (batch)
        ledger_take(batch, 0, arena, &view->facts);
    pg_batch_free(batch);
    talk_close(&talk);
    if (!batch)
        return false;
    *err = view->facts.error;
    view->server = server->name;
    view->drift = registry_drift(&view->facts.registry, server, arena, &view->n_drift);
    return err->kind == ERROR_NONE;
}

int ledger_status(const struct config *config, const struct ledger_arguments *arguments)
{
    struct arena *arena = arena_new();
    int status = EXIT_SUCCESS;
    const char *between = "";
    if (arguments->json)
        (void)fputs("{\"servers\":[", stdout);
    for (size_t i = 0; i < config->n_servers; i++) {
        struct view view = {0};
        struct error err = {0}, told = {0};
        int worse = EXIT_FAILURE;
        if (!look(&config->servers[i], arena, &view, &err)) {
            (void)error_set(&told, err.kind, "could not look at %s: %s", config->servers[i].name,
                            err.message);
            error_hint(&told, "%s", err.hint);
            worse = command_fail("ledger", &told, talk_status(&err));
        } else {
            (void)fputs(between, stdout);
            between = arguments->json ? "," : "";
            if (arguments->json)
                print_view_json(&view, stdout);
            else
                print_view(&view, stdout);
            worse = is_well(&view) ? EXIT_SUCCESS : EXIT_FAILURE;
        }
        status = worse > status ? worse : status;
    }
    if (arguments->json)
        (void)puts("]}");
    arena_free(arena);
    return status;
}
