/* SPDX-License-Identifier: PostgreSQL */
/* The families whose samples carry labels of their own. */
#include "exporter/families.h"

#include <stdint.h>
#include <string.h>

#include "exporter/emit.h"
#include "observe/publish.h"
#include "pg/version.h"

/* The longest number and ".0". */
enum { BOUND_SIZE = EMIT_NUMBER_SIZE + 3 };

/* The canonical form of OpenMetrics, used in both formats so that a series keeps its name whatever
 * was negotiated: 0.001, 1.0, +Inf. */
static void format_bound(int64_t bound_us, char out[BOUND_SIZE])
{
    if (bound_us == INT64_MAX) {
        memcpy(out, "+Inf", sizeof "+Inf");
        return;
    }
    size_t n = emit_seconds(out, bound_us);
    if (!memchr(out, '.', n)) {
        out[n++] = '.';
        out[n++] = '0';
    }
    out[n] = '\0';
}

static void write_plain(struct writer *writer, const struct subject *subject, const char *suffix,
                        struct value value)
{
    writer_open(writer, subject, suffix);
    writer_close(writer, value);
}

static void write_histogram(struct writer *writer, const struct subject *subject,
                            const int64_t *bounds_us, const uint64_t *counts, size_t n,
                            int64_t sum_us)
{
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++) {
        char bound[BOUND_SIZE];
        format_bound(bounds_us[i], bound);
        total += counts[i];
        writer_open(writer, subject, "_bucket");
        writer_label(writer, "le", bound);
        writer_close(writer, value_integer((int64_t)total));
    }
    write_plain(writer, subject, "_sum", value_time(sum_us));
    write_plain(writer, subject, "_count", value_integer((int64_t)total));
}

void write_build_info(struct writer *writer, const struct subject *subject)
{
    char libpq[PG_VERSION_TEXT_SIZE];
    pg_library_version(libpq);
    writer_open(writer, subject, "");
    writer_label(writer, "version", PGLEADER_VERSION);
    writer_label(writer, "libpq", libpq);
    writer_close(writer, value_integer(1));
}

void write_section_up(struct writer *writer, const struct subject *subject)
{
    const struct published *published = subject->published;
    for (size_t i = 0; i < published->n_sections; i++) {
        writer_open(writer, subject, "");
        writer_label(writer, "section", published->sections[i].name);
        writer_close(writer, value_flag(published->sections[i].up));
    }
}

void write_poll_seconds(struct writer *writer, const struct subject *subject)
{
    const struct poll_stats *stats = &subject->published->stats;
    write_histogram(writer, subject, poll_bucket_us, stats->polls, POLL_BUCKETS,
                    stats->poll_sum_us);
}

void write_server_info(struct writer *writer, const struct subject *subject)
{
    const struct server_facts *facts = &subject->snapshot->facts;
    char timeline[EMIT_NUMBER_SIZE + 1] = "";
    if (facts->timeline >= 0)
        timeline[emit_integer(timeline, facts->timeline)] = '\0';
    writer_open(writer, subject, "");
    writer_label(writer, "system_identifier", facts->system_identifier);
    writer_label(writer, "timeline", timeline);
    writer_label(writer, "database", facts->database);
    writer_label(writer, "version", facts->version);
    writer_close(writer, value_integer(1));
}

void write_takeover_seconds(struct writer *writer, const struct subject *subject)
{
    const struct snapshot *snapshot = subject->snapshot;
    write_histogram(writer, subject, takeover_bucket_us, snapshot->takeovers, TAKEOVER_BUCKETS,
                    snapshot->takeover_sum_us);
}

void write_duty_info(struct writer *writer, const struct subject *subject)
{
    const struct duty *duty = subject->duty;
    writer_open(writer, subject, "");
    writer_label(writer, "mechanism", mechanism_name(duty->mechanism));
    writer_label(writer, "source", duty_source_name(duty->source));
    writer_label(writer, "key", duty->key_text);
    writer_label(writer, "team", duty->team);
    writer_close(writer, value_integer(1));
}

bool subject_led(const struct subject *subject)
{
    return subject->duty->read && !subject->snapshot->facts.in_recovery &&
           subject->duty->owners > 0;
}

void write_owner_info(struct writer *writer, const struct subject *subject)
{
    const struct owner *owner = &subject->duty->owner;
    if (!subject_led(subject))
        return;
    writer_open(writer, subject, "");
    writer_label(writer, "holder", owner->holder);
    writer_label(writer, "application_name", owner->application_name);
    writer_label(writer, "usename", owner->usename);
    writer_label(writer, "client_addr", owner->client_addr);
    writer_close(writer, value_integer(1));
}

void write_transitions(struct writer *writer, const struct subject *subject)
{
    for (size_t i = 0; i < RULE_COUNT; i++) {
        writer_open(writer, subject, "");
        writer_label(writer, "rule", rules[i].id);
        writer_close(writer, value_integer((int64_t)subject->duty->trail.past->transitions[i]));
    }
}

void write_yields(struct writer *writer, const struct subject *subject)
{
    for (size_t i = 0; i < YIELD_OUTCOMES; i++) {
        if (subject->duty->yields[i] < 0)
            continue;
        writer_open(writer, subject, "");
        writer_label(writer, "outcome", yield_outcome_names[i]);
        writer_close(writer, value_integer(subject->duty->yields[i]));
    }
}
