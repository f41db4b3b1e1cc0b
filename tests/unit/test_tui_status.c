/* SPDX-License-Identifier: PostgreSQL */
/* The faces of `pgleader status`, from pictures made by hand: golden text at each width, and what
 * nobody can know. */
#include <locale.h>
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
#include "tests/support/golden.h"
#include "tests/support/picture_builder.h"
#include "tui/json.h"
#include "tui/plain.h"
#include "tui/status_render.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct config no_config = {0};
static const struct option_list no_duties = {0};

typedef void render_function(const struct status_view *view, const struct status_paper *paper,
                             FILE *out);

static void as_json(const struct status_view *view, const struct status_paper *paper, FILE *out)
{
    (void)paper;
    status_json_render(view, out);
}

static void as_csv(const struct status_view *view, const struct status_paper *paper, FILE *out)
{
    (void)paper;
    status_csv_render(view, out);
}

static char *render(const struct picture *picture, const struct option_list *duties,
                    render_function *function, struct status_paper paper)
{
    char *text = NULL;
    size_t size = 0;
    struct status_view view;
    FILE *out = open_memstream(&text, &size);
    status_view_init(&view, picture, &no_config, duties);
    function(&view, &paper, out);
    status_view_done(&view);
    (void)fclose(out);
    return text;
}

static void test_golden(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        render_function *function;
        struct status_paper paper;
    } faces[] = {
        {"status.txt", status_text_render, {.unicode = true}},
        {"status-60.txt", status_text_render, {.width = 60, .unicode = true}},
        {"status-80.txt", status_text_render, {.width = 80, .unicode = true}},
        {"status-100.txt", status_text_render, {.width = 100, .unicode = true}},
        {"status-140.txt", status_text_render, {.width = 140, .unicode = true}},
        {"status-80-c.txt", status_text_render, {.width = 80}},
        {"status-colour.txt", status_text_render, {.width = 80, .unicode = true, .colour = true}},
        {"status.json", as_json, {0}},
        {"status.csv", as_csv, {0}},
    };
    struct picture picture;
    build_example(&picture);
    for (size_t i = 0; i < COUNT(faces); i++) {
        char *text = render(&picture, &no_duties, faces[i].function, faces[i].paper);
        CLEANUP(free_charp) char *wrong = golden_difference(faces[i].name, text, strlen(text));
        if (wrong)
            fail_msg("%s", wrong);
        free(text);
    }
    picture_done(&picture);
}

/* The verdict of one duty in each state, on each kind of server. */
static void test_verdicts(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        enum duty_state duty;
        enum duty_source source;
        bool fresh, standby;
        enum expect expect;
        const char *named;
        enum status_verdict verdict;
    } cases[] = {
        {"led", DUTY_LED, SOURCE_CONFIG, true, false, EXPECT_PRIMARY, NULL, VERDICT_LED},
        {"yielding", DUTY_YIELDING, SOURCE_LEDGER, true, false, EXPECT_PRIMARY, NULL, VERDICT_LED},
        {"vacant", DUTY_VACANT, SOURCE_CONFIG, true, false, EXPECT_PRIMARY, NULL, VERDICT_NOT_LED},
        {"stalled", DUTY_STALLED, SOURCE_CONFIG, true, false, EXPECT_ANY, NULL, VERDICT_NOT_LED},
        {"contested", DUTY_CONTESTED, SOURCE_LEDGER, true, false, EXPECT_PRIMARY, NULL,
         VERDICT_NOT_LED},
        {"unread", DUTY_UNKNOWN, SOURCE_CONFIG, true, false, EXPECT_PRIMARY, NULL, VERDICT_UNKNOWN},
        {"old", DUTY_LED, SOURCE_CONFIG, false, false, EXPECT_PRIMARY, NULL, VERDICT_UNKNOWN},
        {"discovered and free", DUTY_VACANT, SOURCE_DISCOVERY, true, false, EXPECT_PRIMARY, NULL,
         VERDICT_LED},
        {"discovered, free and named", DUTY_VACANT, SOURCE_DISCOVERY, true, false, EXPECT_PRIMARY,
         "jobs/one", VERDICT_NOT_LED},
        {"standby by surprise", DUTY_LED, SOURCE_CONFIG, true, true, EXPECT_PRIMARY, NULL,
         VERDICT_UNKNOWN},
        {"standby as expected", DUTY_LED, SOURCE_CONFIG, true, true, EXPECT_STANDBY, NULL,
         VERDICT_LED},
        {"standby, either is fine", DUTY_LED, SOURCE_CONFIG, true, true, EXPECT_ANY, NULL,
         VERDICT_LED},
        {"standby, and the duty is named", DUTY_LED, SOURCE_CONFIG, true, true, EXPECT_STANDBY,
         "jobs/one", VERDICT_UNKNOWN},
        {"primary by surprise", DUTY_LED, SOURCE_CONFIG, true, false, EXPECT_STANDBY, NULL,
         VERDICT_LED},
        {"another is named", DUTY_LED, SOURCE_CONFIG, true, false, EXPECT_PRIMARY, "jobs/two",
         VERDICT_UNKNOWN},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct snapshot *snapshot = build_snapshot(1);
        struct duty *duty = &snapshot->duties[0];
        struct published *server = build_published("one", snapshot);
        struct option_list named = {.items = (const char **)&cases[i].named,
                                    .n = cases[i].named ? 1 : 0};
        struct picture picture;
        struct status_view view;
        build_duty(duty, "jobs/one", 1);
        duty->state = cases[i].duty;
        duty->read = duty->state != DUTY_UNKNOWN;
        duty->source = cases[i].source;
        snapshot->facts.in_recovery = cases[i].standby;
        server->expect = cases[i].expect;
        for (size_t s = 0; s < server->n_sections; s++)
            server->sections[s].up = true;
        build_picture(&picture, &server, 1);
        picture.fresh[0] = cases[i].fresh;
        status_view_init(&view, &picture, &no_config, &named);
        if (view.verdict != cases[i].verdict)
            fail_msg("%s: %d, not %d", cases[i].what, view.verdict, cases[i].verdict);
        status_view_done(&view);
        picture_done(&picture);
    }
}

/* Nothing of an old picture but names is shown, in no format. */
static void test_old_is_unknown(void **state)
{
    (void)state;
    static const char *const shown[] = {"28834112", "invoice-worker-7c9f", "pid\": 4"};
    static render_function *const functions[] = {status_text_render, as_json, as_csv};
    struct picture picture;
    build_many(&picture, 1);
    for (size_t f = 0; f < COUNT(functions); f++) {
        for (int old = 0; old < 2; old++) {
            picture.fresh[0] = !old;
            char *text =
                render(&picture, &no_duties, functions[f], (struct status_paper){.unicode = true});
            assert_non_null(strstr(text, "jobs/invoice-reconcile-00000"));
            for (size_t i = 0; i < COUNT(shown); i++) {
                if (old && strstr(text, shown[i]))
                    fail_msg("%s is shown of an old picture:\n%s", shown[i], text);
            }
            assert_true((strstr(text, "unknown") != NULL) == old);
            free(text);
        }
    }
    picture_done(&picture);
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        int64_t us;
        const char *seconds, *time;
    } cases[] = {
        {0, "0", "1970-01-01T00:00:00.000000Z"},
        {1, "0.000001", "1970-01-01T00:00:00.000001Z"},
        {-1, "-0.000001", "1969-12-31T23:59:59.999999Z"},
        {2500000, "2.5", "1970-01-01T00:00:02.500000Z"},
        {BUILT_NOW_US, "1764437312.123456", "2025-11-29T17:28:32.123456Z"},
        {INT64_C(253402300800000000), "253402300800", "10000-01-01T00:00:00.000000Z"},
        {TIME_UNKNOWN, "", ""},
    };
    static const struct {
        double value;
        const char *text;
    } numbers[] = {
        {0, "0"},          {-1.5, "-1.5"},  {0.1, "0.1"}, {9007199254740993.0, "9007199254740992"},
        {1e300, "1e+300"}, {0.0 / 0.0, ""}, {1 / 0.0, ""}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[PLAIN_SIZE];
        plain_seconds(text, cases[i].us);
        assert_string_equal(text, cases[i].seconds);
        plain_time(text, cases[i].us);
        assert_string_equal(text, cases[i].time);
    }
    for (size_t i = 0; i < COUNT(numbers); i++) {
        char text[PLAIN_SIZE];
        plain_number(text, numbers[i].value);
        assert_string_equal(text, numbers[i].text);
    }
}

static void test_json(void **state)
{
    (void)state;
    CLEANUP(free_charp) char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    struct json json = {.out = out};
    json_open(&json, NULL, '{');
    json_text(&json, "a", "\"\\\n\x1b\xC2\x9B\xC2\xA0\xFF");
    json_text(&json, "b", NULL);
    json_open(&json, "c", '[');
    json_open(&json, NULL, '{');
    json_count(&json, "d", -1);
    json_integer(&json, "e", -1);
    json_close(&json, '}');
    json_open(&json, NULL, '{');
    json_bool(&json, "f", false);
    json_close(&json, '}');
    json_close(&json, ']');
    json_open(&json, "g", '[');
    json_close(&json, ']');
    json_close(&json, '}');
    (void)fclose(out);
    assert_string_equal(text,
                        "{\"a\": \"\\\"\\\\\\n\\u001b\\u009b\xC2\xA0\xEF\xBF\xBD\", \"b\": null, "
                        "\"c\": [\n{\"d\": null, \"e\": -1},\n{\"f\": false}], \"g\": []}\n");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),         cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_old_is_unknown), cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_json),
    };
    golden_begin(argc, argv);
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
