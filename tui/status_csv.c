/* SPDX-License-Identifier: PostgreSQL */
/* The CSV of `pgleader status`. Unknown is empty. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "observe/bounds.h"
#include "tui/plain.h"
#include "tui/status_render.h"

static const char header[] =
    "server,up,duty,state,mechanism,source,key,owner_pid,owner_backend_start,"
    "owner_application_name,owner_usename,owner_client_addr,generation,acquired_at,"
    "acquired_source,acquisition_age_seconds,candidates,waiters,oldest_wait_seconds,run_key,"
    "run_status,run_cursor,run_position,run_target,run_advanced_at,lease_holder,lease_expires_at,"
    "last_takeover_at,last_takeover_at_least_seconds,last_takeover_at_most_seconds\r\n";

struct line {
    FILE *out;
    bool more;
};

/* Control characters but tabs and line ends would reach a terminal; they become U+FFFD. */
static void put_character(FILE *out, const char *text, size_t length)
{
    unsigned char c = (unsigned char)*text;
    bool control = (c < 0x20 && !strchr("\t\r\n", c)) || c == 0x7F ||
                   (c == 0xC2 && length == 2 && (unsigned char)text[1] < 0xA0);
    if (length == 0 || control)
        (void)fputs("\xEF\xBF\xBD", out);
    else if (c == '"')
        (void)fputs("\"\"", out);
    else
        (void)fwrite(text, 1, length, out);
}

static void text_field(struct line *line, const char *text)
{
    const char *value = text ? text : "";
    size_t size = strlen(value);
    bool quoted = strpbrk(value, ",\"\r\n") != NULL;
    if (line->more)
        (void)putc(',', line->out);
    line->more = true;
    if (quoted)
        (void)putc('"', line->out);
    for (size_t i = 0; i < size;) {
        size_t length = text_utf8_length(value + i, size - i);
        put_character(line->out, value + i, length);
        i += length ? length : 1;
    }
    if (quoted)
        (void)putc('"', line->out);
}

static void count_field(struct line *line, int64_t value)
{
    char text[PLAIN_SIZE] = "";
    if (value >= 0)
        (void)snprintf(text, sizeof text, "%" PRId64, value);
    text_field(line, text);
}

static void number_field(struct line *line, double value)
{
    char text[PLAIN_SIZE];
    plain_number(text, value);
    text_field(line, text);
}

static void time_field(struct line *line, bool known, int64_t us)
{
    char text[PLAIN_SIZE] = "";
    if (known)
        plain_time(text, us);
    text_field(line, text);
}

static void span_field(struct line *line, bool known, int64_t us)
{
    char text[PLAIN_SIZE] = "";
    if (known && us >= 0)
        plain_seconds(text, us);
    text_field(line, text);
}

static void owner_fields(struct line *line, const struct status_row *row)
{
    const struct owner *owner = &row->duty->owner;
    count_field(line, row->led && owner->pid > 0 ? owner->pid : -1);
    time_field(line, row->led, owner->backend_start_us);
    text_field(line, row->led ? owner->application_name : NULL);
    text_field(line, row->led ? owner->usename : NULL);
    text_field(line, row->led ? owner->client_addr : NULL);
    count_field(line, row->readable ? row->duty->generation : -1);
    time_field(line, row->led, row->duty->acquired_us);
    text_field(line, row->led ? row->duty->acquired_source : NULL);
    span_field(line, row->led, row->duty->age_us);
}

static void run_fields(struct line *line, const struct status_row *row)
{
    static const struct run none = {.position = __builtin_nan(""), .target = __builtin_nan("")};
    bool present = row->fresh && row->duty->run->present;
    const struct run *run = present ? row->duty->run : &none;
    text_field(line, run->key);
    text_field(line, run->status);
    text_field(line, run->cursor);
    number_field(line, run->position);
    number_field(line, run->target);
    time_field(line, present, run->advanced_us);
}

static void duty_line(const struct status_row *row, FILE *out)
{
    struct line line = {.out = out};
    const struct duty *duty = row->duty;
    const struct trail *trail = &duty->trail;
    bool lock = row->readable && duty->mechanism == MECHANISM_LOCK;
    bool took_over = row->fresh && bounds_is_time(trail->past->takeover_at_us);
    text_field(&line, row->server->server);
    text_field(&line, row->fresh ? "true" : "false");
    text_field(&line, duty->name);
    text_field(&line, duty_state_name(status_row_state(row)));
    text_field(&line, mechanism_name(duty->mechanism));
    text_field(&line, duty_source_name(duty->source));
    text_field(&line, duty->key_text);
    owner_fields(&line, row);
    count_field(&line, row->readable ? duty->candidates : -1);
    count_field(&line, lock ? duty->waiters : -1);
    span_field(&line, lock, duty->oldest_wait_us);
    run_fields(&line, row);
    text_field(&line, row->led && duty->mechanism == MECHANISM_LEASE ? duty->owner.holder : NULL);
    time_field(&line, row->readable, duty->lease_expires_us);
    time_field(&line, took_over, trail->past->takeover_at_us);
    span_field(&line, took_over, trail->past->takeover_lower_us);
    span_field(&line, took_over, trail->past->takeover_upper_us);
    (void)fputs("\r\n", out);
}

static bool has_rows(const struct status_view *view, const struct published *server)
{
    for (size_t i = 0; i < view->n; i++) {
        if (view->rows[i].server == server)
            return true;
    }
    return false;
}

/* As many fields as the header has. */
static void server_line(const struct status_view *view, size_t server, FILE *out)
{
    struct line line = {.out = out};
    text_field(&line, view->picture->servers[server]->server);
    text_field(&line, status_snapshot(view, server) ? "true" : "false");
    for (const char *comma = strchr(strchr(header, ',') + 1, ','); comma;
         comma = strchr(comma + 1, ','))
        text_field(&line, "");
    (void)fputs("\r\n", out);
}

void status_csv_render(const struct status_view *view, FILE *out)
{
    (void)fputs(header, out);
    for (size_t i = 0; i < view->n; i++)
        duty_line(&view->rows[i], out);
    for (size_t i = 0; i < view->picture->n; i++) {
        if (!has_rows(view, view->picture->servers[i]))
            server_line(view, i, out);
    }
}
