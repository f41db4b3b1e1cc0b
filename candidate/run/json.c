/* SPDX-License-Identifier: PostgreSQL */
/* Pairs of a JSON object. */
#include "candidate/run/json.h"

#include <inttypes.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"

struct json json_begin(FILE *out)
{
    (void)putc('{', out);
    return (struct json){.out = out};
}

static void begin_pair(struct json *json, const char *name)
{
    (void)fprintf(json->out, "%s\"%s\": ", json->more ? ", " : "", name);
    json->more = true;
}

void json_text(struct json *json, const char *name, const char *text)
{
    if (!text || !*text)
        return;
    begin_pair(json, name);
    (void)putc('"', json->out);
    text_json_escape(json->out, text);
    (void)putc('"', json->out);
}

void json_number(struct json *json, const char *name, int64_t number)
{
    begin_pair(json, name);
    (void)fprintf(json->out, "%" PRId64, number);
}

void json_time(struct json *json, const char *name, int64_t realtime_us)
{
    char text[TIME_TEXT_SIZE];
    if (realtime_us == 0)
        return;
    time_format(realtime_us, text);
    json_text(json, name, text);
}

void json_end(struct json *json)
{
    (void)fputs("}\n", json->out);
}

void time_format(int64_t realtime_us, char out[TIME_TEXT_SIZE])
{
    time_t seconds = (time_t)(realtime_us / SECOND_US);
    struct tm parts;
    (void)gmtime_r(&seconds, &parts);
    size_t used = strftime(out, TIME_TEXT_SIZE, "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(out + used, TIME_TEXT_SIZE - used, ".%03dZ",
                   (int)(realtime_us % SECOND_US / 1000));
}
