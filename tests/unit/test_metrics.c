/* SPDX-License-Identifier: PostgreSQL */
/* What is rendered from a picture: the families, their labels, and what hostile text does to them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "exporter/metrics.h"
#include "exporter/sample.h"
#include "tests/support/exposition_syntax.h"
#include "tests/support/golden.h"
#include "tests/support/picture_builder.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

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
        char *text = exposition_render(&picture, (enum exposition_format)format);
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
    char *text = exposition_render(&picture, FORMAT_TEXT);
    check_lines(text, "server=\"prod-eu\"", observer, COUNT(observer));
    check_lines(text, "duty=\"advisory/12,-7\"", discovery, COUNT(discovery));
    const char *up = exposition_sample(text, "pgleader_up{server=\"never-reached\"} ");
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
    char *text = exposition_render(&picture, FORMAT_TEXT);
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
            char *text = exposition_render(&picture, (enum exposition_format)format);
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
        const char *value = exposition_sample(text, rows[i].head);
        assert_non_null(value);
        assert_true(strtod(value, NULL) >= rows[i].least && strtod(value, NULL) <= rows[i].most);
    }
    assert_non_null(
        exposition_sample(text, "pgleader_build_info{version=\"" PGLEADER_VERSION "\",libpq=\""));
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
    assert_non_null(exposition_sample(text, "pgleader_up{server=\"prod-us-standby\"} 1"));
    assert_null(strstr(text, "\"prod-us\""));
    assert_null(strstr(text, "\"prod-eu\""));
    free(text);
    picture_done(&picture);
}

int main(int argc, char **argv)
{
    golden_begin(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),     cmocka_unit_test(test_list),
        cmocka_unit_test(test_names),      cmocka_unit_test(test_labels),
        cmocka_unit_test(test_withdrawal), cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_live),       cmocka_unit_test(test_one_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
