/* SPDX-License-Identifier: PostgreSQL */
/* Writes samples in both text formats; the heads of families are written with their first sample.
 */
#include "exporter/sample.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "exporter/emit.h"

struct value value_integer(int64_t value)
{
    return (struct value){.kind = VALUE_INTEGER, .integer = value};
}

struct value value_flag(bool value)
{
    return value_integer(value);
}

struct value value_count(int64_t value)
{
    return value_if(value >= 0, value_integer(value));
}

/* PostgreSQL's infinity and -infinity, as pg/batch.h reads them. */
static bool is_endless(int64_t us)
{
    return us == INT64_MAX || us == INT64_MIN + 1;
}

struct value value_time(int64_t us)
{
    if (is_endless(us))
        return value_real(us > 0 ? INFINITY : -INFINITY);
    return value_if(us != TIME_UNKNOWN, (struct value){.kind = VALUE_SECONDS, .integer = us});
}

struct value value_span(int64_t us)
{
    return value_if(us >= 0, value_time(us));
}

struct value value_real(double value)
{
    return value_if(!isnan(value), (struct value){.kind = VALUE_REAL, .real = value});
}

struct value value_if(bool known, struct value value)
{
    return known ? value : (struct value){.kind = VALUE_ABSENT};
}

struct value value_between(int64_t earlier_us, int64_t later_us)
{
    int64_t difference = 0;
    if (earlier_us != TIME_UNKNOWN && is_endless(later_us))
        return value_time(later_us);
    if (earlier_us == TIME_UNKNOWN || later_us == TIME_UNKNOWN ||
        __builtin_sub_overflow(later_us, earlier_us, &difference))
        return (struct value){.kind = VALUE_ABSENT};
    return value_time(difference);
}

const char *metric_type_name(enum metric_type type)
{
    static const char *const names[] = {
        [METRIC_GAUGE] = "gauge",
        [METRIC_COUNTER] = "counter",
        [METRIC_HISTOGRAM] = "histogram",
        [METRIC_INFO] = "info",
    };
    return names[type];
}

static bool ends_in(const char *text, size_t size, const char *end)
{
    size_t length = strlen(end);
    return size >= length && memcmp(text + size - length, end, length) == 0;
}

/* OpenMetrics names a family without the suffix that its type gives to the samples, and wants TYPE,
 * UNIT, HELP in this order. */
static void head_openmetrics(struct writer *writer)
{
    static const char *const units[] = {"_seconds", "_bytes"};
    const struct metric *metric = writer->metric;
    size_t size = writer->name_size;
    if (metric->type == METRIC_COUNTER)
        size -= strlen("_total");
    if (metric->type == METRIC_INFO)
        size -= strlen("_info");
    (void)fprintf(writer->out, "# TYPE %.*s %s\n", (int)size, metric->name,
                  metric_type_name(metric->type));
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (ends_in(metric->name, size, units[i]))
            (void)fprintf(writer->out, "# UNIT %.*s %s\n", (int)size, metric->name, units[i] + 1);
    }
    (void)fprintf(writer->out, "# HELP %.*s %s\n", (int)size, metric->name, metric->help);
}

static void head(struct writer *writer)
{
    const struct metric *metric = writer->metric;
    writer->headed = true;
    if (writer->format == FORMAT_OPENMETRICS) {
        head_openmetrics(writer);
        return;
    }
    enum metric_type type = metric->type == METRIC_INFO ? METRIC_GAUGE : metric->type;
    (void)fprintf(writer->out, "# HELP %s %s\n# TYPE %s %s\n", metric->name, metric->help,
                  metric->name, metric_type_name(type));
}

void writer_turn(struct writer *writer, const struct metric *metric)
{
    writer->metric = metric;
    writer->name_size = strlen(metric->name);
    writer->headed = false;
}

static size_t number(char out[EMIT_NUMBER_SIZE], struct value value)
{
    if (value.kind == VALUE_SECONDS)
        return emit_seconds(out, value.integer);
    if (value.kind == VALUE_REAL)
        return emit_real(out, value.real);
    return emit_integer(out, value.integer);
}

/* `} 12\n`, or ` 12\n` for a sample without labels. */
static void finish(FILE *out, bool labelled, struct value value)
{
    char line[EMIT_NUMBER_SIZE + 3];
    size_t n = 0;
    if (labelled)
        line[n++] = '}';
    line[n++] = ' ';
    n += number(line + n, value);
    line[n++] = '\n';
    (void)fwrite_unlocked(line, 1, n, out);
}

void writer_sample(struct writer *writer, const struct subject *subject, struct value value)
{
    if (value.kind == VALUE_ABSENT)
        return;
    if (!writer->headed)
        head(writer);
    (void)fwrite_unlocked(writer->metric->name, 1, writer->name_size, writer->out);
    (void)fwrite_unlocked(subject->labels, 1, subject->labels_size, writer->out);
    finish(writer->out, subject->labels_size > 0, value);
}

void writer_open(struct writer *writer, const struct subject *subject, const char *suffix)
{
    if (!writer->headed)
        head(writer);
    (void)fwrite_unlocked(writer->metric->name, 1, writer->name_size, writer->out);
    (void)fputs_unlocked(suffix, writer->out);
    (void)fwrite_unlocked(subject->labels, 1, subject->labels_size, writer->out);
    writer->labelled = subject->labels_size > 0;
}

void writer_label(struct writer *writer, const char *name, const char *text)
{
    (void)putc_unlocked(writer->labelled ? ',' : '{', writer->out);
    (void)fputs_unlocked(name, writer->out);
    (void)fwrite_unlocked("=\"", 1, 2, writer->out);
    emit_label_value(writer->out, text);
    (void)putc_unlocked('"', writer->out);
    writer->labelled = true;
}

void writer_close(struct writer *writer, struct value value)
{
    finish(writer->out, writer->labelled, value);
}
