/* SPDX-License-Identifier: PostgreSQL */
/* Compares a key with what is registered, and prints it. */
#include <inttypes.h>

#include "base/text.h"
#include "tui/find_owner.h"
#include "tui/harmless.h"
#include "tui/json.h"
#include "tui/key.h"
#include "tui/known_keys.h"

static const struct config_duty *duty_at(const struct key_source *source, size_t i,
                                         const char **ret_from)
{
    bool registered = i < source->registry.n;
    *ret_from = registered ? "registry" : "config";
    return registered ? &source->registry.items[i].duty
                      : &source->server->duties[i - source->registry.n];
}

static size_t duties_of(const struct key_source *source)
{
    return source->registry.n + source->server->n_duties;
}

bool key_look_up(struct key_report *report)
{
    for (size_t s = 0; s < report->n_sources; s++) {
        for (size_t i = 0; i < duties_of(&report->sources[s]); i++) {
            const char *from = NULL;
            const struct config_duty *duty = duty_at(&report->sources[s], i, &from);
            if (duty->mechanism != MECHANISM_LOCK || !text_equal(duty->name, report->duty))
                continue;
            report->key = duty->key;
            return true;
        }
    }
    return false;
}

/* A key alone says nothing of whose it is: the first duty of a server that has it is the answer,
 * another is a collision. */
static bool is_answer(const struct key_report *report, const char *server, const char *duty)
{
    if (report->n_remarks == 0)
        return true;
    const struct key_collision last = report->remarks[report->n_remarks - 1];
    return !text_equal(last.server, server) || text_equal(last.with, duty);
}

static void compare_duty(struct key_report *report, const struct config_duty *duty,
                         const char *server, const char *from)
{
    char text[LOCK_KEY_TEXT_SIZE];
    bool now = lock_key_equal(duty->key, report->key);
    bool next = duty->next_key.objsubid && lock_key_equal(duty->next_key, report->key);
    bool same = text_equal(duty->name, report->duty);
    const struct key_collision found = {server, from, duty->name, !now};
    if (duty->mechanism == MECHANISM_LOCK && (now || next)) {
        if (same || (!report->duty && is_answer(report, server, duty->name)))
            report->remarks[report->n_remarks++] = found;
        else
            report->collisions[report->n_collisions++] = found;
    } else if (same && duty->mechanism == MECHANISM_LOCK) {
        lock_key_format(duty->key, text);
        report->others[report->n_others++] = arena_printf(
            report->arena, "%s has this duty in its %s with another key: %s", server, from, text);
    } else if (same) {
        report->others[report->n_others++] =
            arena_printf(report->arena, "%s has this duty in its %s as a lease: %s, row %s", server,
                         from, duty->lease.table, duty->lease.row);
    }
}

void key_compare(struct key_report *report)
{
    size_t most = 1;
    for (size_t s = 0; s < report->n_sources; s++)
        most += duties_of(&report->sources[s]);
    report->collisions = arena_array(report->arena, most, sizeof *report->collisions);
    report->remarks = arena_array(report->arena, most, sizeof *report->remarks);
    report->others = arena_array(report->arena, most, sizeof *report->others);
    for (size_t s = 0; s < report->n_sources; s++) {
        for (size_t i = 0; i < duties_of(&report->sources[s]); i++) {
            const char *from = NULL;
            const struct config_duty *duty = duty_at(&report->sources[s], i, &from);
            compare_duty(report, duty, report->sources[s].server->name, from);
        }
    }
    const char *system = known_key(report->key);
    if (system)
        report->remarks[report->n_remarks++] = (struct key_collision){NULL, "known", system, false};
}

static void print_psql(const struct key_report *report, FILE *out)
{
    find_owner_print(report->key, report->connect, out);
}

static void print_call(const struct key_report *report, FILE *out)
{
    char text[LOCK_KEY_TEXT_SIZE];
    lock_key_format(report->key, text);
    (void)fprintf(out, "pg_try_advisory_lock(%s)", text);
}

static void print_found(const struct key_collision *found, bool collides, FILE *out)
{
    if (!found->server)
        (void)fprintf(out, "known        %s is known to take this key\n", found->with);
    else
        (void)fprintf(out, "%-12s duty %s in the %s of %s %s\n", collides ? "collision" : "is",
                      found->with, found->source, found->server,
                      found->reserved ? "is to move to this key" : "has this key");
}

static void print_text(const struct key_report *report, FILE *out)
{
    char text[LOCK_KEY_TEXT_SIZE];
    lock_key_format(report->key, text);
    if (report->duty)
        (void)fprintf(out, "duty         %s\n", report->duty);
    if (report->environment)
        (void)fprintf(out, "environment  %s\n", report->environment);
    (void)fprintf(out,
                  "key          %s\n"
                  "pg_locks     classid %" PRIu32 ", objid %" PRIu32 ", objsubid %d\n"
                  "taken by     ",
                  text, report->key.classid, report->key.objid, report->key.objsubid);
    print_call(report, out);
    (void)fputs("\nowner        ", out);
    print_psql(report, out);
    (void)putc('\n', out);
    for (size_t i = 0; i < report->n_sources; i++)
        (void)fprintf(out, "compared     %s: %zu duties of its registry, %zu of the config\n",
                      report->sources[i].server->name, report->sources[i].registry.n,
                      report->sources[i].server->n_duties);
    for (size_t i = 0; i < report->n_collisions; i++)
        print_found(&report->collisions[i], true, out);
    for (size_t i = 0; i < report->n_remarks; i++)
        print_found(&report->remarks[i], false, out);
    for (size_t i = 0; i < report->n_others; i++) {
        (void)fputs("but          ", out);
        print_harmless(out, report->others[i]);
        (void)putc('\n', out);
    }
}

static void print_list(struct json *json, const char *name, const struct key_collision *items,
                       size_t n)
{
    json_open(json, name, '[');
    for (size_t i = 0; i < n; i++) {
        json_open(json, NULL, '{');
        json_text(json, "server", items[i].server);
        json_text(json, "source", items[i].source);
        json_text(json, "with", items[i].with);
        json_bool(json, "reserved", items[i].reserved);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static char *captured(const struct key_report *report,
                      void (*print)(const struct key_report *report, FILE *out))
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        abort();
    print(report, out);
    if (fclose(out) != 0)
        abort();
    return text;
}

/* The key is a string: few readers of JSON keep 64 bits of a number. */
static void print_json(const struct key_report *report, FILE *out)
{
    char text[LOCK_KEY_TEXT_SIZE];
    CLEANUP(free_charp) char *psql = captured(report, print_psql);
    CLEANUP(free_charp) char *call = captured(report, print_call);
    struct json json = {.out = out};
    lock_key_format(report->key, text);
    json_open(&json, NULL, '{');
    json_text(&json, "duty", report->duty);
    json_text(&json, "environment", report->environment);
    json_text(&json, "key", text);
    json_integer(&json, "classid", report->key.classid);
    json_integer(&json, "objid", report->key.objid);
    json_integer(&json, "objsubid", report->key.objsubid);
    json_text(&json, "lock_call", call);
    json_text(&json, "find_owner", psql);
    json_open(&json, "compared", '[');
    for (size_t i = 0; i < report->n_sources; i++) {
        const struct key_source *source = &report->sources[i];
        json_open(&json, NULL, '{');
        json_text(&json, "server", source->server->name);
        json_bool(&json, "ledger", source->registry.installed);
        json_integer(&json, "registry_duties", (int64_t)source->registry.n);
        json_integer(&json, "config_duties", (int64_t)source->server->n_duties);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    print_list(&json, "collisions", report->collisions, report->n_collisions);
    print_list(&json, "found", report->remarks, report->n_remarks);
    json_open(&json, "differs", '[');
    for (size_t i = 0; i < report->n_others; i++)
        json_text(&json, NULL, report->others[i]);
    json_close(&json, ']');
    json_close(&json, '}');
}

void key_print(const struct key_report *report, bool json, FILE *out)
{
    if (json)
        print_json(report, out);
    else
        print_text(report, out);
}
