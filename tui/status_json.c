/* SPDX-License-Identifier: PostgreSQL */
/* The JSON of `pgleader status`. */
#include "observe/bounds.h"
#include "tui/json.h"
#include "tui/status_render.h"

static void write_owner(struct json *json, const struct status_row *row)
{
    const struct owner *owner = &row->duty->owner;
    if (!row->led) {
        json_null(json, "owner");
        return;
    }
    json_open(json, "owner", '{');
    json_count(json, "pid", owner->pid > 0 ? owner->pid : -1);
    json_time(json, "backend_start", owner->backend_start_us);
    json_text(json, "application_name", owner->application_name);
    json_text(json, "usename", owner->usename);
    json_text(json, "client_addr", owner->client_addr);
    json_close(json, '}');
}

static void write_run(struct json *json, const struct status_row *row, int64_t now_us)
{
    const struct run *run = row->duty->run;
    bool moves = run->finished_us == TIME_UNKNOWN && run->advanced_us != TIME_UNKNOWN;
    if (!row->fresh || !run->present) {
        json_null(json, "run");
        return;
    }
    json_open(json, "run", '{');
    json_text(json, "key", run->key);
    json_text(json, "status", run->status);
    json_text(json, "cursor", run->cursor);
    json_number(json, "position", run->position);
    json_number(json, "target", run->target);
    json_time(json, "started_at", run->started_us);
    json_time(json, "advanced_at", run->advanced_us);
    json_time(json, "deadline_at", run->deadline_us);
    json_time(json, "finished_at", run->finished_us);
    json_seconds(json, "progress_age_seconds", moves ? now_us - run->advanced_us : TIME_UNKNOWN);
    json_close(json, '}');
}

static void write_lease(struct json *json, const struct status_row *row)
{
    const struct duty *duty = row->duty;
    bool finite = bounds_is_time(duty->lease_expires_us);
    if (!row->readable || duty->lease_expires_us == TIME_UNKNOWN) {
        json_null(json, "lease");
        return;
    }
    json_open(json, "lease", '{');
    json_text(json, "holder", row->led ? duty->owner.holder : NULL);
    json_time(json, "expires_at", duty->lease_expires_us);
    json_seconds(json, "remaining_seconds",
                 finite ? duty->lease_expires_us - duty->read_upper_us : TIME_UNKNOWN);
    json_seconds(json, "duration_seconds",
                 duty->lease_duration_us >= 0 ? duty->lease_duration_us : TIME_UNKNOWN);
    json_close(json, '}');
}

static int64_t known_span(int64_t us)
{
    return us >= 0 ? us : TIME_UNKNOWN;
}

static void write_takeover(struct json *json, const struct status_row *row)
{
    const struct trail *trail = &row->duty->trail;
    if (!row->fresh || !bounds_is_time(trail->past->takeover_at_us)) {
        json_null(json, "last_takeover");
        return;
    }
    json_open(json, "last_takeover", '{');
    json_time(json, "at", trail->past->takeover_at_us);
    json_seconds(json, "at_least_seconds", known_span(trail->past->takeover_lower_us));
    json_seconds(json, "at_most_seconds", known_span(trail->past->takeover_upper_us));
    json_close(json, '}');
}

static void write_duty(struct json *json, const struct status_row *row)
{
    const struct duty *duty = row->duty;
    bool lock = row->readable && duty->mechanism == MECHANISM_LOCK;
    json_open(json, NULL, '{');
    json_text(json, "duty", duty->name);
    json_text(json, "state", duty_state_name(status_row_state(row)));
    json_text(json, "mechanism", mechanism_name(duty->mechanism));
    json_text(json, "source", duty_source_name(duty->source));
    json_text(json, "key", duty->key_text);
    write_owner(json, row);
    json_count(json, "generation", row->readable ? duty->generation : -1);
    json_time(json, "acquired_at", row->led ? duty->acquired_us : TIME_UNKNOWN);
    json_text(json, "acquired_source", row->led ? duty->acquired_source : NULL);
    json_seconds(json, "acquisition_age_seconds",
                 row->led ? known_span(duty->age_us) : TIME_UNKNOWN);
    json_count(json, "candidates", row->readable ? duty->candidates : -1);
    json_count(json, "waiters", lock ? duty->waiters : -1);
    json_seconds(json, "oldest_wait_seconds",
                 lock ? known_span(duty->oldest_wait_us) : TIME_UNKNOWN);
    write_run(json, row, row->fresh ? row->server->snapshot->read_upper_us : TIME_UNKNOWN);
    write_lease(json, row);
    write_takeover(json, row);
    json_close(json, '}');
}

static void write_server(struct json *json, const struct status_view *view, size_t server)
{
    const struct published *published = view->picture->servers[server];
    const struct snapshot *snapshot = status_snapshot(view, server);
    json_open(json, NULL, '{');
    json_text(json, "server", published->server);
    json_bool(json, "up", snapshot != NULL);
    json_text(json, "system_identifier", snapshot ? snapshot->facts.system_identifier : NULL);
    if (snapshot) {
        json_bool(json, "in_recovery", snapshot->facts.in_recovery);
        json_bool(json, "privileged", snapshot->facts.privileged);
    } else {
        json_null(json, "in_recovery");
        json_null(json, "privileged");
    }
    json_time(json, "polled_at",
              published->snapshot ? published->snapshot->read_upper_us : TIME_UNKNOWN);
    json_open(json, "duties", '[');
    for (size_t i = 0; i < view->n; i++) {
        if (view->rows[i].server == published)
            write_duty(json, &view->rows[i]);
    }
    json_close(json, ']');
    json_close(json, '}');
}

void status_json_render(const struct status_view *view, FILE *out)
{
    struct json json = {.out = out};
    json_open(&json, NULL, '{');
    json_open(&json, "servers", '[');
    for (size_t i = 0; i < view->picture->n; i++)
        write_server(&json, view, i);
    json_close(&json, ']');
    json_close(&json, '}');
}
