/* SPDX-License-Identifier: PostgreSQL */
/* Text and JSON of a yield's view. */
#include "tui/yield_show.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "tui/harmless.h"
#include "tui/json.h"

static void show_line(FILE *out, const char *title, const char *text)
{
    (void)fprintf(out, "  %-11s ", title);
    print_harmless(out, text);
    (void)putc('\n', out);
}

static const char *audit_of(const struct yield_view *view)
{
    return view->guards.road == ROAD_OWN ? "log" : "ledger";
}

static void show_owner(const struct yield_view *view, struct arena *arena, FILE *out)
{
    const struct yield_target *target = view->target;
    if (target->mechanism == MECHANISM_LEASE) {
        show_line(out, "holder", target->holder ? target->holder : "nobody");
        return;
    }
    if (target->pid <= 0) {
        show_line(out, "owner", target->owners > 0 ? "a prepared transaction" : "nobody");
        return;
    }
    const char *user = view->asked->server.usename;
    show_line(out, "owner",
              arena_printf(arena, "pid %d %s, user %s, from %s, since %s", target->pid,
                           target->application_name, user ? user : "?",
                           yield_address(view->asked, arena),
                           yield_time(target->backend_start_us, arena)));
}

static void show_guards(const struct guard_list *guards, FILE *out)
{
    static const char *const marks[] = {
        [GUARD_PASSED] = "[ok]",
        [GUARD_NOTED] = "[note]",
        [GUARD_OVERRIDDEN] = "[OVERRIDDEN]",
        [GUARD_FAILED] = "[REFUSED]",
    };
    (void)fputs("Guards:\n", out);
    for (int i = 0; i < GUARDS; i++) {
        const struct guard *row = &guards->rows[i];
        (void)fprintf(out, "  %-12s %-13s ", marks[row->state], guard_code(row->id));
        print_harmless(out, row->sentence);
        if (*row->remedy && row->state != GUARD_PASSED) {
            (void)fprintf(out, "\n  %-12s %-13s -> ", "", "");
            print_harmless(out, row->remedy);
        }
        (void)putc('\n', out);
    }
}

void yield_show_question(const struct yield_view *view, FILE *out)
{
    const struct yield_target *target = view->target;
    struct arena *arena = arena_new();
    bool lease = target->mechanism == MECHANISM_LEASE;
    (void)fputs("YIELD ", out);
    print_harmless(out, target->duty);
    (void)fputs(lease ? ": the lease's holder is asked to release it\n"
                      : ": this ENDS a PostgreSQL session, unless the leader listens and yields by "
                        "itself\n",
                out);
    if (!view->asked) {
        show_guards(&view->guards, out);
        arena_free(arena);
        return;
    }
    show_line(out, "server",
              arena_printf(arena, "%s, database %s, system identifier %s, up since %s",
                           target->server, target->database,
                           target->system_identifier ? target->system_identifier : "not readable",
                           yield_time(target->postmaster_start_us, arena)));
    show_line(out, "key", target->key_text);
    show_owner(view, arena, out);
    show_line(out, "generation",
              target->generation < 0 && view->asked->ledger_denied
                  ? "none is known: the ledger may not be read"
              : target->generation < 0 ? "none: no term in a ledger"
                                       : arena_printf(arena, "%" PRId64, target->generation));
    show_line(out, "worker", yield_fate_sentence(target, view->asked, arena));
    show_line(out, "audit",
              text_equal(audit_of(view), "log") ? "the local log (standard error, syslog)"
                                                : "the ledger");
    show_guards(&view->guards, out);
    arena_free(arena);
}

static void write_owner(const struct yield_view *view, struct json *json)
{
    const struct yield_target *target = view->target;
    const struct yield_server *server = view->asked ? &view->asked->server : NULL;
    bool lease = target->mechanism == MECHANISM_LEASE;
    if (target->owners == 0) {
        json_null(json, "owner");
        return;
    }
    json_open(json, "owner", '{');
    json_count(json, "pid", target->pid > 0 ? target->pid : -1);
    json_time(json, "backend_start", target->backend_start_us);
    json_text(json, "application_name", lease ? NULL : target->application_name);
    json_text(json, "usename", server ? server->usename : NULL);
    json_text(json, "client_addr", target->client_addr);
    json_count(json, "client_port", server && server->client_port > 0 ? server->client_port : -1);
    json_text(json, "holder", lease ? target->holder : NULL);
    json_text(json, "instance", target->instance);
    json_close(json, '}');
}

static void write_guards(const struct guard_list *guards, struct json *json)
{
    json_open(json, "guards", '[');
    for (int i = 0; i < GUARDS; i++) {
        const struct guard *row = &guards->rows[i];
        json_open(json, NULL, '{');
        json_text(json, "code", guard_code(row->id));
        json_text(json, "state", guard_state_name(row->state));
        json_text(json, "sentence", row->sentence);
        json_text(json, "remedy", *row->remedy ? row->remedy : NULL);
        json_bool(json, "overridable", guard_overridable(row->id));
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_worker(const struct yield_view *view, struct arena *arena, struct json *json)
{
    if (!view->asked) {
        json_null(json, "worker");
        return;
    }
    json_open(json, "worker", '{');
    json_text(json, "fate", yield_fate_name(yield_fate(view->target, view->asked)));
    json_text(json, "sentence", yield_fate_sentence(view->target, view->asked, arena));
    json_close(json, '}');
}

/* What was seen afterwards; of a yield that sent nothing there is none. */
static void write_after(const struct yield_view *view, struct json *json)
{
    const struct yield_sight *sight = &view->sight;
    bool after = view->sent != SENT_NO && view->facts != view->asked;
    bool other = after && sight->led && !sight->held;
    if (other) {
        json_open(json, "successor", '{');
        json_text(json, "description", sight->successor);
        json_count(json, "pid", sight->pid > 0 ? sight->pid : -1);
        json_time(json, "backend_start", sight->backend_start_us);
        json_count(json, "generation", sight->generation);
        json_bool(json, "term_begun", sight->begun);
        json_close(json, '}');
    } else {
        json_null(json, "successor");
    }
    if (after)
        json_bool(json, "old_session_alive", sight->old_session);
    else
        json_null(json, "old_session_alive");
    if (after && sight->old_stopped)
        json_bool(json, "old_work_stopped", true);
    else
        json_null(json, "old_work_stopped");
}

static void write_end(const struct yield_view *view, bool dry, struct json *json)
{
    static const char *const sent[] = {
        [SENT_NO] = "no", [SENT_ASKED] = "asked", [SENT_MAYBE] = "maybe", [SENT_YES] = "yes"};
    static const char *const ends[] = {[END_OUTCOME] = "outcome",
                                       [END_REFUSED] = "refused",
                                       [END_UNAVAILABLE] = "unavailable",
                                       [END_NO_PERMISSION] = "no-permission",
                                       [END_CANCELLED] = "cancelled"};
    bool has_outcome = !dry && view->end != END_UNAVAILABLE && view->end != END_CANCELLED;
    json_text(json, "end", dry ? NULL : ends[view->end]);
    json_text(json, "outcome", has_outcome ? yield_outcome_names[view->outcome] : NULL);
    json_text(json, "sentence", dry ? NULL : view->sentence);
    json_text(json, "sent", sent[view->sent]);
    if (view->sent == SENT_YES)
        json_bool(json, "signalled", view->signalled);
    else
        json_null(json, "signalled");
    json_count(json, "intent", view->intent);
    json_bool(json, "recorded", view->recorded);
    write_after(view, json);
    json_open(json, "steps", '[');
    for (size_t i = 0; i < view->n_steps; i++) {
        json_open(json, NULL, '{');
        json_seconds(json, "after_seconds", view->steps[i].after_us);
        json_text(json, "sentence", view->steps[i].sentence);
        json_close(json, '}');
    }
    json_close(json, ']');
}

const char *yield_sent_words(const struct yield_view *view)
{
    static const char *const words[] = {
        [SENT_NO] = "nothing",
        [SENT_ASKED] = "a request to release; no session was signalled",
        [SENT_MAYBE] = "perhaps: nobody can tell whether the signal went out",
        [SENT_YES] = "the session was signalled",
    };
    bool yet = view->sent == SENT_NO && view->phase != PHASE_DONE;
    return yet ? "nothing yet" : words[view->sent];
}

void yield_show_json(const struct yield_view *view, bool dry, int status, FILE *out)
{
    const struct yield_target *target = view->target;
    struct arena *arena = arena_new();
    struct json json = {.out = out};
    const char *token = yield_token(target, arena);
    static const char *const roads[] = {[ROAD_LEDGER] = "ledger",
                                        [ROAD_OWN] = "own",
                                        [ROAD_RELEASE] = "release",
                                        [ROAD_NONE] = NULL};
    json_open(&json, NULL, '{');
    json_text(&json, "server", target->server);
    json_text(&json, "database", target->database);
    json_text(&json, "system_identifier", target->system_identifier);
    json_time(&json, "postmaster_start", target->postmaster_start_us);
    json_text(&json, "duty", target->duty);
    json_text(&json, "mechanism", mechanism_name(target->mechanism));
    json_text(&json, "key", target->key_text);
    json_count(&json, "generation", target->generation);
    write_owner(view, &json);
    json_text(&json, "confirm", token ? arena_printf(arena, "%s %s", target->duty, token) : NULL);
    json_text(&json, "road", roads[view->guards.road]);
    json_text(&json, "audit", view->asked ? audit_of(view) : NULL);
    write_worker(view, arena, &json);
    write_guards(&view->guards, &json);
    json_bool(&json, "dry_run", dry);
    write_end(view, dry, &json);
    json_integer(&json, "exit_status", status);
    json_close(&json, '}');
    arena_free(arena);
}
