/* SPDX-License-Identifier: PostgreSQL */
/* Which format and encoding each Accept and Accept-Encoding gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/memory.h"
#include "exporter/negotiate.h"

#define PROMETHEUS_2_42                                                                            \
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;"       \
    "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
#define PROMETHEUS_2_20                                                                            \
    "application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
#define PROMETHEUS_3                                                                               \
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"                       \
    "application/openmetrics-text;version=0.0.1;q=0.4,"                                            \
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
#define PROMETHEUS_3_PROTOBUF                                                                      \
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;"  \
    "q=0.6," PROMETHEUS_3
#define PROMETHEUS_1                                                                               \
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;"  \
    "q=0.7,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"
#define FIREFOX                                                                                    \
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
#define OM "application/openmetrics-text"

static const struct {
    const char *accept;
    enum exposition_format want;
} format_rows[] = {
    {NULL, FORMAT_TEXT},
    {"", FORMAT_TEXT},
    {"  ", FORMAT_TEXT},
    {",,,", FORMAT_TEXT},
    {"*/*", FORMAT_TEXT},
    {"text/plain", FORMAT_TEXT},
    {"application/json", FORMAT_TEXT},
    {FIREFOX, FORMAT_TEXT},
    {PROMETHEUS_1, FORMAT_TEXT},
    {PROMETHEUS_2_20, FORMAT_TEXT},
    {PROMETHEUS_2_42, FORMAT_OPENMETRICS},
    {PROMETHEUS_3, FORMAT_OPENMETRICS},
    {PROMETHEUS_3_PROTOBUF, FORMAT_OPENMETRICS},
    /* versions */
    {OM, FORMAT_OPENMETRICS},
    {OM ";version=1.0.0", FORMAT_OPENMETRICS},
    {OM "; version=\"1.0.0\"", FORMAT_OPENMETRICS},
    {OM ";version=1.0.0;charset=utf-8", FORMAT_OPENMETRICS},
    {OM ";VERSION=1.0.0", FORMAT_OPENMETRICS},
    {"Application/OpenMetrics-Text", FORMAT_OPENMETRICS},
    {OM ";version=0.0.1", FORMAT_TEXT},
    {OM ";version=2.0.0", FORMAT_TEXT},
    {OM ";version=1.0", FORMAT_TEXT},
    {OM ";version=0.0.1," OM ";version=1.0.0", FORMAT_OPENMETRICS},
    /* weights */
    {OM ";q=0", FORMAT_TEXT},
    {OM ";q=0.001", FORMAT_OPENMETRICS},
    {OM ";q=0.4,text/plain;q=0.5", FORMAT_TEXT},
    {OM ";q=0.5,text/plain;q=0.4", FORMAT_OPENMETRICS},
    {"text/plain;q=0.4," OM ";q=0.5", FORMAT_OPENMETRICS},
    {OM " ; q=1.000 , text/plain ; q=0.999", FORMAT_OPENMETRICS},
    {OM ";q=0.5000,text/plain;q=0.4999", FORMAT_OPENMETRICS},
    {"*/*;q=0.1," OM ";version=0.0.1", FORMAT_TEXT},
    {"text/plain;q=0," OM, FORMAT_OPENMETRICS},
    {"text/plain;q=0,*/*;q=0.1", FORMAT_OPENMETRICS},
    {"text/plain;q=0", FORMAT_TEXT},
    /* the more specific member speaks for the format, in whatever order */
    {"*/*;q=1," OM ";q=0.1,text/plain;q=0.2", FORMAT_TEXT},
    {OM ";q=0.9,*/*;q=1", FORMAT_TEXT},
    {"application/*;q=0.9,text/*;q=0.8", FORMAT_OPENMETRICS},
    {"application/*;q=0.8,text/*;q=0.9", FORMAT_TEXT},
    {"application/*", FORMAT_OPENMETRICS},
    {"application/*;q=1," OM ";q=0", FORMAT_TEXT},
    {OM ";version=1.0.0;q=0.2," OM ";q=0.9,text/plain;q=0.5", FORMAT_TEXT},
    /* equal weights: who is named more exactly, then who comes first */
    {"*/*," OM, FORMAT_OPENMETRICS},
    {OM ",*/*", FORMAT_OPENMETRICS},
    {OM ",text/plain", FORMAT_OPENMETRICS},
    {"text/plain," OM, FORMAT_TEXT},
    {"text/*," OM ";version=1.0.0", FORMAT_OPENMETRICS},
    /* odd, but well formed */
    {"," OM ",", FORMAT_OPENMETRICS},
    {OM ";;q=0.5;", FORMAT_OPENMETRICS},
    {OM ";a=\"x,y;q=0\"", FORMAT_OPENMETRICS},
    {OM ";a=\"\\\"\";q=0", FORMAT_TEXT},
    {"\t" OM "\t", FORMAT_OPENMETRICS},
    /* malformed: as if there were none */
    {OM ";q=2", FORMAT_TEXT},
    {OM ";q=1.001", FORMAT_TEXT},
    {OM ";q=-1", FORMAT_TEXT},
    {OM ";q=abc", FORMAT_TEXT},
    {OM ";q=0.5x", FORMAT_TEXT},
    {OM ";q=.5", FORMAT_TEXT},
    {OM ";q=", FORMAT_TEXT},
    {OM ";q", FORMAT_TEXT},
    {OM ";q=\"", FORMAT_TEXT},
    {OM ";a=\"x", FORMAT_TEXT},
    {OM ";a=\"x\\", FORMAT_TEXT},
    {OM " " OM, FORMAT_TEXT},
    {OM ";=1", FORMAT_TEXT},
    {OM ",\x01", FORMAT_TEXT},
    {OM ",\xc3\xa4", FORMAT_TEXT},
    {";" OM, FORMAT_TEXT},
    {"=", FORMAT_TEXT},
};

static const struct {
    const char *accept_encoding;
    bool want;
} gzip_rows[] = {
    {NULL, false},
    {"", false},
    {"gzip", true},
    {"GZIP", true},
    {"x-gzip", true},
    {"gzip, deflate, br", true},
    {"deflate, gzip;q=1.0, *;q=0.5", true},
    {"br;q=1.0, gzip;q=0.001", true},
    {"gzip;q=0", false},
    {"gzip;q=0.000", false},
    {"gzip;q=0, *", false},
    {"*;q=0, gzip", true},
    {"*", true},
    {"*;q=0", false},
    {"identity", false},
    {"identity, gzip", true},
    {"identity;q=1, gzip;q=0.5", false},
    {"identity;q=0, *;q=0.1", true},
    {"deflate", false},
    {"gzipped", false},
    {"gzip;q=1;q=", false},
    {"gzip;q=x", false},
    {"gzip/", false},
    {"gzip gzip", false},
};

static void test_format(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof format_rows / sizeof *format_rows; i++) {
        if (negotiate_format(format_rows[i].accept) != format_rows[i].want)
            fail_msg("Accept: %s", format_rows[i].accept ? format_rows[i].accept : "(none)");
    }
}

static void test_gzip(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof gzip_rows / sizeof *gzip_rows; i++) {
        if (negotiate_gzip(gzip_rows[i].accept_encoding) != gzip_rows[i].want)
            fail_msg("Accept-Encoding: %s",
                     gzip_rows[i].accept_encoding ? gzip_rows[i].accept_encoding : "(none)");
    }
}

/* What is announced must be what the same module reads as that format. */
static void test_content_type(void **state)
{
    (void)state;
    for (int i = 0; i < FORMAT_COUNT; i++)
        assert_int_equal(negotiate_format(exposition_content_type(i)), i);
    assert_string_equal(exposition_content_type(FORMAT_TEXT),
                        "text/plain; version=0.0.4; charset=utf-8");
}

/* A megabyte of each nasty piece; quadratic work would take hours. */
static void test_linear(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        ",", "a/b,", "a;", "a;b=\"\\\"\",", ";", "text/plain;q=0.1,", "a", " ", "\""};
    size_t size = 1 << 20;
    char *header = xmalloc(size + 1);
    int64_t start = clock_monotonic_us();
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        size_t n = strlen(pieces[i]);
        for (size_t at = 0; at < size; at++)
            header[at] = pieces[i][at % n];
        header[size] = '\0';
        assert_int_equal(negotiate_format(header), FORMAT_TEXT);
        assert_false(negotiate_gzip(header));
    }
    free(header);
    assert_true(clock_monotonic_us() - start < 20 * SECOND_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_gzip),
        cmocka_unit_test(test_content_type),
        cmocka_unit_test(test_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
