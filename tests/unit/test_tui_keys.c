/* SPDX-License-Identifier: PostgreSQL */
/* The table of keys: one meaning a key and screen, and nothing that ends a session on a key that
 * fingers find by themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tui/keys.h"

static void a_key_means_one_thing(void **state)
{
    (void)state;
    for (int screen = 0; screen < SCREENS; screen++) {
        for (int code = 1; code < CODE_GONE; code = code == 0xFF ? CODE_UP : code + 1) {
            int rows = 0;
            for (const struct key_row *row = key_rows; row->keys; row++) {
                for (int i = 0; i < KEYS_A_ROW && row->codes[i]; i++)
                    rows += row->codes[i] == code && row->screens & 1U << screen;
            }
            assert_in_range(rows, 0, 1);
        }
    }
}

static void no_deed_where_fingers_go(void **state)
{
    (void)state;
    static const int unbound[] = {'K', 'd', 'D', 'x', 'y', CODE_BACKSPACE, CODE_CONTROL('K')};
    for (int screen = 0; screen < SCREENS; screen++) {
        for (size_t i = 0; i < sizeof unbound / sizeof *unbound; i++)
            assert_int_equal(keys_action((enum screen_id)screen, unbound[i]), ACTION_NONE);
    }
}

/* On each screen there is a way back or out, and it stands in the footer. */
static void every_screen_has_a_way_out(void **state)
{
    (void)state;
    for (int screen = 0; screen < SCREENS; screen++) {
        enum action action = keys_action((enum screen_id)screen, 'q');
        assert_true(action == ACTION_QUIT || action == ACTION_BACK);
        assert_int_equal(keys_action((enum screen_id)screen, 'Q'), ACTION_QUIT);
        int offered = 0;
        for (const struct key_row *row = key_rows; row->keys; row++)
            offered += row->action == action && row->footer && row->screens & 1U << screen;
        assert_int_equal(offered, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_means_one_thing),
        cmocka_unit_test(no_deed_where_fingers_go),
        cmocka_unit_test(every_screen_has_a_way_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
