/* SPDX-License-Identifier: PostgreSQL */
/* pgleader ledger status: what is there, what is missing, what differs. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "tui/at_once.h"
#include "tui/command.h"
#include "tui/harmless.h"
#include "tui/json.h"
#include "tui/ledger_command.h"
#include "tui/ledger_facts.h"
#include "tui/plain.h"
#include "tui/talk.h"

static const int64_t look_within_us = 10 * SECOND_US;

struct view {
    const struct config_server *config;
    const char *server;
    struct arena *arena;
    bool looked;
    struct error error; /* why not */
    struct ledger_facts facts;
    struct drift *drift;
    size_t n_drift;
};

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
        char when[PLAIN_SIZE];
        plain_time(when, facts->files[i].installed_at_us);
        (void)fprintf(out, "  file      %-20s %s by ", facts->files[i].file, when);
        print_harmless(out, facts->files[i].installed_by);
        (void)putc('\n', out);
    }
    if (facts->registry.read)
        (void)fprintf(out, "  registry  %zu duties\n", facts->registry.n);
    for (size_t i = 0; i < facts->n_missing; i++) {
        (void)fputs("  missing   ", out);
        print_harmless(out, facts->missing[i].what);
        (void)fprintf(out, ": %s\n            remedy: ", facts->missing[i].loss);
        print_harmless(out, facts->missing[i].statement);
        (void)putc('\n', out);
    }
    for (size_t i = 0; i < view->n_drift; i++) {
        (void)fputs("  differs   ", out);
        print_harmless(out, view->drift[i].sentence);
        (void)putc('\n', out);
    }
}

static void print_view_json(const struct view *view, struct json *json)
{
    const struct ledger_facts *facts = &view->facts;
    json_open(json, NULL, '{');
    json_text(json, "server", view->server);
    json_integer(json, "version", facts->version);
    json_integer(json, "program_version", ledger_program_version());
    json_text(json, "state", state_of(facts));
    json_open(json, "files", '[');
    for (size_t i = 0; i < facts->n_files; i++) {
        json_open(json, NULL, '{');
        json_integer(json, "version", facts->files[i].version);
        json_text(json, "file", facts->files[i].file);
        json_time(json, "installed_at", facts->files[i].installed_at_us);
        json_text(json, "installed_by", facts->files[i].installed_by);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_integer(json, "registry_duties", (int64_t)facts->registry.n);
    json_open(json, "missing", '[');
    for (size_t i = 0; i < facts->n_missing; i++) {
        json_open(json, NULL, '{');
        json_text(json, "what", facts->missing[i].what);
        json_text(json, "loss", facts->missing[i].loss);
        json_text(json, "remedy", facts->missing[i].statement);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_open(json, "differs", '[');
    for (size_t i = 0; i < view->n_drift; i++) {
        json_open(json, NULL, '{');
        json_text(json, "duty", view->drift[i].duty);
        json_text(json, "sentence", view->drift[i].sentence);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_close(json, '}');
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

static void look_at_one(void *item)
{
    struct view *view = item;
    view->looked = look(view->config, view->arena, view, &view->error);
}

/* Shows what was seen of one server; its exit status. */
static int show(const struct view *view, struct json *json)
{
    struct error told = {0};
    if (!view->looked) {
        (void)error_set(&told, view->error.kind, "could not look at %s: %s", view->config->name,
                        view->error.message);
        error_hint(&told, "%s", view->error.hint);
        return command_fail("ledger", &told, talk_status(&view->error));
    }
    if (json)
        print_view_json(view, json);
    else
        print_view(view, stdout);
    return is_well(view) ? EXIT_SUCCESS : EXIT_FAILURE;
}

int ledger_status(const struct config *config, const struct ledger_arguments *arguments)
{
    struct view *views = xcalloc(config->n_servers + 1, sizeof *views);
    struct json json = {.out = stdout};
    int status = EXIT_SUCCESS;
    for (size_t i = 0; i < config->n_servers; i++)
        views[i] = (struct view){.config = &config->servers[i], .arena = arena_new()};
    at_once(views, config->n_servers, sizeof *views, look_at_one);
    if (arguments->json) {
        json_open(&json, NULL, '{');
        json_open(&json, "servers", '[');
    }
    for (size_t i = 0; i < config->n_servers; i++) {
        int worse = show(&views[i], arguments->json ? &json : NULL);
        status = worse > status ? worse : status;
        arena_free(views[i].arena);
    }
    if (arguments->json) {
        json_close(&json, ']');
        json_close(&json, '}');
    }
    free(views);
    return status;
}
