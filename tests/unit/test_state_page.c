/* SPDX-License-Identifier: PostgreSQL */
/* The diagram and the table of runbook/state-machine.md are the rules of the program. `--update`
 * writes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/memory.h"
#include "candidate/rules.h"

#define PAGE SOURCE_DIR "/runbook/state-machine.md"
#define BEGIN_MARK "<!-- rules: begin, written by test_state_page --update -->\n"
#define END_MARK "<!-- rules: end -->\n"

static bool updating;

static char *read_page(void)
{
    enum { SIZE = 1 << 16 };
    char *text = xcalloc(1, SIZE);
    CLEANUP(fclose_filep) FILE *file = fopen(PAGE, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, SIZE - 1, file) < SIZE - 1);
    return text;
}

static void render_rules(FILE *out)
{
    (void)fprintf(out, "```mermaid\nstateDiagram-v2\n    [*] --> %s\n",
                  lead_state_name(LEAD_FOLLOWER));
    for (const struct lead_rule *rule = lead_rules; rule->id; rule++)
        (void)fprintf(out, "    %s --> %s : %s\n", lead_state_name(rule->from),
                      lead_state_name(rule->to), rule->id);
    (void)fputs("```\n\n| rule | from | to | what has happened |\n|---|---|---|---|\n", out);
    for (const struct lead_rule *rule = lead_rules; rule->id; rule++)
        (void)fprintf(out, "| `%s` | %s | %s | %s |\n", rule->id, lead_state_name(rule->from),
                      lead_state_name(rule->to), rule->sentence);
}

/* The page with the rules as they are between its two marks. */
static char *render_page(const char *page)
{
    char *text = NULL;
    size_t size = 0;
    const char *begin = strstr(page, BEGIN_MARK), *end = strstr(page, END_MARK);
    assert_non_null(begin);
    assert_non_null(end);
    FILE *out = open_memstream(&text, &size);
    (void)fwrite(page, 1, (size_t)(begin - page), out);
    (void)fputs(BEGIN_MARK, out);
    render_rules(out);
    (void)fputs(end, out);
    (void)fclose(out);
    return text;
}

static void test_the_page_is_current(void **state)
{
    (void)state;
    CLEANUP(free_charp) char *page = read_page();
    CLEANUP(free_charp) char *expected = render_page(page);
    if (updating) {
        FILE *file = fopen(PAGE, "w");
        assert_non_null(file);
        assert_true(fputs(expected, file) >= 0 && fclose(file) == 0);
    } else if (strcmp(page, expected) != 0) {
        fail_msg("runbook/state-machine.md is not candidate/rules.c: run test_state_page --update");
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_page_is_current)};
    updating = argc > 1 && strcmp(argv[1], "--update") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
