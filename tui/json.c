/* SPDX-License-Identifier: PostgreSQL */
/* JSON: an object that stands in an array has a line of its own, so that diff and grep help too. */
#include "tui/json.h"

#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/memory.h"
#include "base/text.h"
#include "tui/plain.h"

static void begin(struct json *json, const char *name)
{
    if (json->more)
        (void)fputs(name ? ", " : ",", json->out);
    if (name)
        (void)fprintf(json->out, "\"%s\": ", name);
    json->more = true;
}

void json_open(struct json *json, const char *name, char bracket)
{
    begin(json, name);
    if (!name && json->depth > 0)
        (void)putc('\n', json->out);
    (void)putc(bracket, json->out);
    json->more = false;
    json->depth++;
}

void json_close(struct json *json, char bracket)
{
    (void)putc(bracket, json->out);
    json->more = true;
    if (--json->depth == 0)
        (void)putc('\n', json->out);
}

/* The control characters of U+0080 to U+009F: some terminals obey them. */
static bool is_c1(const char *text)
{
    return (unsigned char)text[0] == 0xC2 && (unsigned char)text[1] >= 0x80 &&
           (unsigned char)text[1] <= 0x9F;
}

void json_text(struct json *json, const char *name, const char *text)
{
    if (!text) {
        json_null(json, name);
        return;
    }
    begin(json, name);
    (void)putc('"', json->out);
    while (*text) {
        size_t size = 0;
        while (text[size] && !is_c1(text + size))
            size++;
        CLEANUP(free_charp) char *part = xasprintf("%.*s", (int)size, text);
        text_json_escape(json->out, part);
        text += size;
        if (*text) {
            (void)fprintf(json->out, "\\u00%02x", (unsigned char)text[1]);
            text += 2;
        }
    }
    (void)putc('"', json->out);
}

void json_bool(struct json *json, const char *name, bool value)
{
    begin(json, name);
    (void)fputs(value ? "true" : "false", json->out);
}

void json_null(struct json *json, const char *name)
{
    begin(json, name);
    (void)fputs("null", json->out);
}

void json_integer(struct json *json, const char *name, int64_t value)
{
    begin(json, name);
    (void)fprintf(json->out, "%" PRId64, value);
}

void json_count(struct json *json, const char *name, int64_t value)
{
    if (value < 0)
        json_null(json, name);
    else
        json_integer(json, name, value);
}

/* A number as it was formatted; none is null. */
static void plain(struct json *json, const char *name, const char *text)
{
    begin(json, name);
    (void)fputs(*text ? text : "null", json->out);
}

void json_number(struct json *json, const char *name, double value)
{
    char text[PLAIN_SIZE];
    plain_number(text, value);
    plain(json, name, text);
}

void json_seconds(struct json *json, const char *name, int64_t us)
{
    char text[PLAIN_SIZE];
    plain_seconds(text, us);
    plain(json, name, text);
}

void json_time(struct json *json, const char *name, int64_t time_us)
{
    char text[PLAIN_SIZE];
    plain_time(text, time_us);
    json_text(json, name, *text ? text : NULL);
}
