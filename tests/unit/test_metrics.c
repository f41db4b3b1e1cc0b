/* SPDX-License-Identifier: PostgreSQL */
/* What is rendered from a picture: which families, when they are absent, and how numbers and text
 * are spelled. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/memory.h"
#include "exporter/emit.h"
#include "exporter/metrics.h"
#include "exporter/sample.h"
#include "tests/support/exposition_syntax.h"
#include "tests/support/golden.h"
#include "tests/support/picture_builder.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        enum { INTEGER, SECONDS, REAL } kind;
        int64_t integer;
        double real;
        const char *expected;
    } rows[] = {
        {INTEGER, 0, 0, "0"},
        {INTEGER, -7, 0, "-7"},
        {INTEGER, INT64_MAX, 0, "9223372036854775807"},
        {INTEGER, INT64_MIN, 0, "-9223372036854775808"},
        {SECONDS, 0, 0, "0"},
        {SECONDS, 1764437312123456, 0, "1764437312.123456"},
        {SECONDS, 1764437312100000, 0, "1764437312.1"},
        {SECONDS, 3000000, 0, "3"},
        {SECONDS, 1, 0, "0.000001"},
        {SECONDS, -1, 0, "-0.000001"},
        {SECONDS, -1500000, 0, "-1.5"},
        {SECONDS, INT64_MAX, 0, "9223372036854.775807"},
        {SECONDS, INT64_MIN + 1, 0, "-9223372036854.775807"},
        {REAL, 0, 48210, "48210"},
        {REAL, 0, -3, "-3"},
        {REAL, 0, 0.1, "0.1"},
        {REAL, 0, 1.0 / 3, "0.33333333333333331"},
        {REAL, 0, 1e18, "1e+18"},
        {REAL, 0, 9007199254740993.5, "9007199254740994"},
        {REAL, 0, 5e-324, "4.94065645841247e-324"},
        {REAL, 0, 1.7976931348623157e308, "1.7976931348623157e+308"},
        {REAL, 0, NAN, "NaN"},
        {REAL, 0, INFINITY, "+Inf"},
        {REAL, 0, -INFINITY, "-Inf"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[EMIT_NUMBER_SIZE + 1];
        size_t n = rows[i].kind == INTEGER   ? emit_integer(text, rows[i].integer)
                   : rows[i].kind == SECONDS ? emit_seconds(text, rows[i].integer)
                                             : emit_real(text, rows[i].real);
        text[n] = '\0';
        assert_string_equal(text, rows[i].expected);
        if (rows[i].kind == REAL && !isnan(rows[i].real))
            assert_true(strtod(text, NULL) == rows[i].real);
    }
}

static void test_label_values(void **state)
{
    (void)state;
    static const struct {
        const char *text, *expected;
    } rows[] = {
        {NULL, ""},
        {"", ""},
        {"jobs/a", "jobs/a"},
        {"a\\b", "a\\\\b"},
        {"say \"x\"", "say \\\"x\\\""},
        {"two\nlines", "two\\nlines"},
        {"\\", "\\\\"},
        {"\n", "\\n"},
        {"tab\tand\rreturn", "tab\tand\rreturn"},
        {"f\xC3\xBCr \xE2\x82\xAC \xF0\x9F\x90\x98", "f\xC3\xBCr \xE2\x82\xAC \xF0\x9F\x90\x98"},
        {"cut \xE2\x82", "cut \xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xFF\"", "\xEF\xBF\xBD\\\""},
        {"\xC3\"", "\xEF\xBF\xBD\\\""}, /* a cut character must not swallow the quote */
        {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        emit_label_value(out, rows[i].text);
        (void)fclose(out);
        assert_string_equal(text, rows[i].expected);
        free(text);
    }
}

/* The whole exposition without what changes from run to run. */
static char *render(const struct picture *picture, enum exposition_format format)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    metrics_render(picture, -1, format, out);
    if (format == FORMAT_OPENMETRICS)
        (void)fputs("# EOF\n", out);
    (void)fclose(out);
    return text;
}

static void check_golden(const char *name, const char *text, size_t size)
{
    CLEANUP(free_charp) char *wrong = golden_difference(name, text, size);
    if (wrong)
        fail_msg("%s", wrong);
}

static void test_golden(void **state)
{
    (void)state;
    static const char *const names[FORMAT_COUNT] = {"example.prom", "example.openmetrics"};
    struct picture picture;
    build_example(&picture);
    for (int format = 0; format < FORMAT_COUNT; format++) {
        char *text = render(&picture, (enum exposition_format)format);
        check_golden(names[format], text, strlen(text));
        free(text);
    }
    picture_done(&picture);
}

static void test_list(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    metrics_list(out);
    (void)fclose(out);
    check_golden("metrics.list", text, size);
    free(text);
}

static bool ends_in(const char *text, const char *end)
{
    size_t size = strlen(text), length = strlen(end);
    return size >= length && strcmp(text + size - length, end) == 0;
}

/* Names that every reader of either format takes without a complaint. */
static void test_names(void **state)
{
    (void)state;
    static const char *const reserved[] = {"_sum", "_count", "_bucket", "_created"};
    static const char *const taken[] = {"job", "instance", "namespace", "pid"};
    for (const struct metric *m = metrics; m->name; m++) {
        assert_true(strncmp(m->name, "pgleader_", 9) == 0 || strncmp(m->name, "process_", 8) == 0);
        assert_int_equal(ends_in(m->name, "_total"), m->type == METRIC_COUNTER);
        assert_int_equal(ends_in(m->name, "_info"), m->type == METRIC_INFO);
        for (size_t i = 0; i < COUNT(reserved); i++)
            assert_false(ends_in(m->name, reserved[i]));
        for (size_t i = 0; i < COUNT(taken); i++)
            assert_null(strstr(m->labels, taken[i]));
        assert_true(*m->help && !strpbrk(m->help, "\\\"\n\t"));
        assert_true((m->get == NULL) != (m->write == NULL));
        for (const struct metric *other = m + 1; other->name; other++)
            assert_string_not_equal(m->name, other->name);
    }
}

/* The value of the first sample that begins with `head`, or NULL; ends at a newline. */
static const char *sample(const char *text, const char *head)
{
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        if (strncmp(line, head, strlen(head)) == 0)
            return line + strlen(head);
    }
    return NULL;
}

static void unread(struct snapshot *snapshot, struct duty *duty)
{
    (void)snapshot;
    duty->read = false;
}

static void standby(struct snapshot *snapshot, struct duty *duty)
{
    (void)duty;
    snapshot->facts.in_recovery = true;
}

static void vacant(struct snapshot *snapshot, struct duty *duty)
{
    duty->owners = 0;
    duty->trail.lost_upper_us = snapshot->read_upper_us - 1500000;
}

static void never_owned(struct snapshot *snapshot, struct duty *duty)
{
    (void)snapshot;
    duty->owners = 0;
    duty->trail.ever_owned = false;
}

static void no_ledger(struct snapshot *snapshot, struct duty *duty)
{
    snapshot->facts.ledger_version = -1;
    duty->in_ledger = false;
    duty->run.present = false;
    duty->generation = -1;
    duty->yields[YIELD_MOVED] = -1;
}

static void prepared(struct snapshot *snapshot, struct duty *duty)
{
    (void)snapshot;
    duty->owner.pid = 0;
    duty->owner.backend_start_us = TIME_UNKNOWN;
    duty->age_us = duty->age_uncertainty_us = -1;
}

static void expired(struct snapshot *snapshot, struct duty *duty)
{
    duty->mechanism = MECHANISM_LEASE;
    duty->lease_expires_us = snapshot->read_upper_us - 2500000;
}

static void endless(struct snapshot *snapshot, struct duty *duty)
{
    (void)snapshot;
    duty->lease_expires_us = INT64_MAX;
    snapshot->read_upper_us = -1;
}

static void unbegun(struct snapshot *snapshot, struct duty *duty)
{
    (void)snapshot;
    duty->term_begun = false;
    duty->run.finished_us = duty->run.advanced_us;
    duty->run.position = NAN;
}

static void discovered(struct snapshot *snapshot, struct duty *duty)
{
    (void)snapshot;
    duty->source = SOURCE_DISCOVERY;
}

/* Absent is better than false: each row changes one led duty and looks at one family. */
static void test_presence(void **state)
{
    (void)state;
    static const struct {
        void (*change)(struct snapshot *snapshot, struct duty *duty);
        const char *family, *expected; /* NULL: no sample */
    } rows[] = {
        {NULL, "leader_held", "1"},
        {NULL, "owner_pid", "4000"},
        {NULL, "acquisition_uncertainty_seconds", "0"},
        {NULL, "vacant_since_timestamp_seconds", NULL},
        {NULL, "lease_remaining_seconds", NULL},
        {NULL, "owner_xact_age_seconds", NULL},
        {NULL, "duty_run_every_seconds", NULL},
        {NULL, "duty_alerts_paused", "0"},
        {NULL, "run_active", "1"},
        {NULL, "progress_age_seconds", "2.5"},
        {NULL, "term_begun", "1"},
        {unread, "leader_held", NULL},
        {unread, "owners", NULL},
        {unread, "waiters", NULL},
        {unread, "owner_pid", NULL},
        {unread, "acquisition_age_seconds", NULL},
        {unread, "duty_state", "1"},
        {standby, "leader_held", NULL},
        {standby, "owner_pid", NULL},
        {standby, "generation", "28834112"},
        {vacant, "leader_held", "0"},
        {vacant, "vacant_since_timestamp_seconds", "1764437310.623456"},
        {vacant, "owner_pid", NULL},
        {vacant, "owner_pooled", NULL},
        {vacant, "acquired_timestamp_seconds", NULL},
        {vacant, "term_begun", NULL},
        {vacant, "ledger_mismatch", "0"},
        {never_owned, "leader_held", "0"},
        {never_owned, "vacant_since_timestamp_seconds", NULL},
        {no_ledger, "generation", NULL},
        {no_ledger, "ledger_mismatch", NULL},
        {no_ledger, "run_active", NULL},
        {no_ledger, "run_cursor", NULL},
        {prepared, "owners", "1"},
        {prepared, "owner_pid", NULL},
        {prepared, "owner_backend_start_timestamp_seconds", NULL},
        {prepared, "acquisition_age_seconds", NULL},
        {expired, "lease_remaining_seconds", "-2.5"},
        {expired, "waiters", NULL},
        {expired, "shared_owners", NULL},
        {endless, "lease_remaining_seconds", NULL},
        {endless, "lease_expires_timestamp_seconds", "9223372036854.775807"},
        {unbegun, "term_begun", "0"},
        {unbegun, "run_active", "0"},
        {unbegun, "run_cursor", NULL},
        {unbegun, "run_target", "120000"},
        {discovered, "leader_held", "1"},
        {discovered, "waiters", "1"},
        {discovered, "duty_state", NULL},
        {discovered, "generation", NULL},
        {discovered, "candidates", NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct picture picture;
        build_many(&picture, 1);
        struct snapshot *snapshot = picture.servers[0]->snapshot;
        if (rows[i].change)
            rows[i].change(snapshot, &snapshot->duties[0]);
        char *head = xasprintf("pgleader_%s{server=\"prod-us\",duty=\"%s\"} ", rows[i].family,
                               snapshot->duties[0].name);
        char *text = render(&picture, FORMAT_TEXT);
        const char *value = sample(text, head);
        if (!rows[i].expected && value)
            fail_msg("row %zu: %s should be absent", i, rows[i].family);
        if (rows[i].expected) {
            if (!value)
                fail_msg("row %zu: no %s", i, rows[i].family);
            assert_memory_equal(value, rows[i].expected, strlen(rows[i].expected));
            assert_int_equal(value[strlen(rows[i].expected)], '\n');
        }
        free(text);
        free(head);
        picture_done(&picture);
    }
}

/* Every sample of a scope that `allowed` accepts, or that has not the label at all. */
static void check_lines(const char *text, const char *label, const char *const *allowed, size_t n)
{
    size_t seen = 0;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        CLEANUP(free_charp) char *copy = strndup(line, strcspn(line, "\n"));
        if (*line == '#' || !strstr(copy, label))
            continue;
        bool found = false;
        for (size_t i = 0; i < n && !found; i++)
            found = strncmp(copy, allowed[i], strlen(allowed[i])) == 0;
        if (!found)
            fail_msg("not expected: %s", copy);
        seen++;
    }
    assert_true(seen >= n);
}

static void test_withdrawal(void **state)
{
    (void)state;
    static const char *const observer[] = {
        "pgleader_up{server=\"prod-eu\"} 0",
        "pgleader_section_up{",
        "pgleader_poll_seconds_",
        "pgleader_poll_interval_seconds{",
        "pgleader_last_poll_timestamp_seconds{",
        "pgleader_last_success_timestamp_seconds{",
        "pgleader_connects_total{",
    };
    static const char *const discovery[] = {
        "pgleader_duty_info{",  "pgleader_leader_held{", "pgleader_owners{",
        "pgleader_owner_info{", "pgleader_owner_pid{",   "pgleader_waiters{",
    };
    struct picture picture;
    build_example(&picture);
    char *text = render(&picture, FORMAT_TEXT);
    check_lines(text, "server=\"prod-eu\"", observer, COUNT(observer));
    check_lines(text, "duty=\"advisory/12,-7\"", discovery, COUNT(discovery));
    const char *up = sample(text, "pgleader_up{server=\"never-reached\"} ");
    assert_non_null(up);
    assert_int_equal(*up, '0');
    free(text);
    picture_done(&picture);
}

/* The labels column of the table is what the samples carry, in that order. */
static void test_labels(void **state)
{
    (void)state;
    struct picture picture;
    build_many(&picture, 1);
    char *text = render(&picture, FORMAT_TEXT);
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        size_t length = strcspn(line, "{ ");
        char labels[256] = "";
        for (const char *at = line + length; *at == '{' || *at == ',';) {
            size_t n = strcspn(++at, "=");
            (void)snprintf(labels + strlen(labels), sizeof labels - strlen(labels), "%s%.*s",
                           *labels ? "," : "", (int)n, at);
            at = strchr(at + n + 2, '"') + 1;
        }
        for (const struct metric *m = metrics; m->name && *line != '#'; m++) {
            if (strlen(m->name) == length && strncmp(m->name, line, length) == 0)
                assert_string_equal(labels, m->labels);
        }
    }
    free(text);
    picture_done(&picture);
}

static void test_hostile(void **state)
{
    (void)state;
    char *long_text = xcalloc(10001, 1);
    memset(long_text, '"', 10000);
    const char *const texts[] = {
        "",     "\"} 1\npgleader_up 7\n",
        "\\",   "\\\"",
        "\xC3", "\xFF\xFE",
        "a\nb", "{}=,\"",
        "\r\n", long_text,
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct picture picture;
        build_hostile(&picture, texts[i]);
        for (int format = 0; format < FORMAT_COUNT; format++) {
            char *text = render(&picture, (enum exposition_format)format);
            const char *bad = exposition_bad_line(text, strlen(text));
            if (bad)
                fail_msg("text %zu: %.100s", i, bad);
            free(text);
        }
        picture_done(&picture);
    }
    free(long_text);
}

/* What is judged at the scrape is there, and plausible for this process. */
static void test_live(void **state)
{
    (void)state;
    static const struct {
        const char *head;
        double least, most;
    } rows[] = {
        {"pgleader_config_last_reload_successful ", 1, 1},
        {"pgleader_config_last_reload_timestamp_seconds ", 1764433712, 1764433713},
        {"process_cpu_seconds_total ", 0.000001, 1000},
        {"process_resident_memory_bytes ", 100000, 1e10},
        {"process_virtual_memory_bytes ", 100000, 1e15},
        {"process_open_fds ", 3, 1000},
        {"process_max_fds ", 16, 1e10},
        {"process_start_time_seconds ", 1.7e9, 1e10},
    };
    struct picture picture;
    char *text = NULL;
    size_t size = 0;
    build_example(&picture);
    FILE *out = open_memstream(&text, &size);
    metrics_render_live(&picture, FORMAT_OPENMETRICS, out);
    (void)fclose(out);
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *value = sample(text, rows[i].head);
        assert_non_null(value);
        assert_true(strtod(value, NULL) >= rows[i].least && strtod(value, NULL) <= rows[i].most);
    }
    assert_non_null(sample(text, "pgleader_build_info{version=\"" PGLEADER_VERSION "\",libpq=\""));
    assert_true(ends_in(text, "\n# EOF\n"));
    assert_null(exposition_bad_line(text, size));
    free(text);
    picture_done(&picture);
}

static void test_one_server(void **state)
{
    (void)state;
    struct picture picture;
    char *text = NULL;
    size_t size = 0;
    build_example(&picture);
    FILE *out = open_memstream(&text, &size);
    metrics_render(&picture, picture_find(&picture, "prod-us-standby"), FORMAT_TEXT, out);
    (void)fclose(out);
    assert_non_null(sample(text, "pgleader_up{server=\"prod-us-standby\"} 1"));
    assert_null(strstr(text, "\"prod-us\""));
    assert_null(strstr(text, "\"prod-eu\""));
    free(text);
    picture_done(&picture);
}

int main(int argc, char **argv)
{
    golden_begin(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),    cmocka_unit_test(test_label_values),
        cmocka_unit_test(test_golden),     cmocka_unit_test(test_list),
        cmocka_unit_test(test_names),      cmocka_unit_test(test_presence),
        cmocka_unit_test(test_labels),     cmocka_unit_test(test_withdrawal),
        cmocka_unit_test(test_hostile),    cmocka_unit_test(test_live),
        cmocka_unit_test(test_one_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
