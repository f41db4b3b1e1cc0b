/* SPDX-License-Identifier: PostgreSQL */
/* Connection strings: where they lead, in which order, what is refused, and what may be shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "pg/conninfo.h"
#include "pg/hosts.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void clear_environment(void)
{
    static const char *const names[] = {"PGHOST",     "PGHOSTADDR", "PGPORT",
                                        "PGDATABASE", "PGSERVICE",  "PGUSER"};
    for (size_t i = 0; i < COUNT(names); i++)
        (void)unsetenv(names[i]);
}

/* The lists that libpq is given, with a host's place in front that gave no answer `first` times. */
static void test_lists(void **state)
{
    static const struct {
        const char *conninfo;
        size_t first, n;
        const char *names, *addresses, *ports;
    } rows[] = {
        {"host=a", 0, 1, "a", "", "5432"},
        {"host=a", 7, 1, "a", "", "5432"},
        {"host=a,b,c port=1,2,3", 0, 3, "a,b,c", ",,", "1,2,3"},
        {"host=a,b,c port=1,2,3", 1, 3, "b,c,a", ",,", "2,3,1"},
        {"host=a,b,c port=1,2,3", 5, 3, "c,a,b", ",,", "3,1,2"},
        {"host=a,b port=7", 1, 2, "b,a", ",", "7,7"},
        {"host=a,b port=7,", 1, 2, "b,a", ",", ",7"},
        {"host=a,b hostaddr=10.0.0.1,10.0.0.2", 1, 2, "b,a", "10.0.0.2,10.0.0.1", "5432,5432"},
        {"host=a,b hostaddr=,10.0.0.2", 0, 2, "a,b", ",10.0.0.2", "5432,5432"},
        {"hostaddr=10.0.0.1,10.0.0.2 port=1,2", 1, 2, ",", "10.0.0.2,10.0.0.1", "2,1"},
        {"host=/run/pg,db", 1, 2, "db,/run/pg", ",", "5432,5432"},
        {"postgresql://a:1,b:2/db?target_session_attrs=any", 1, 2, "b,a", ",", "2,1"},
        {"host=a,b hostaddr=10.0.0.1", 0, 0, "", "", ""}, /* libpq says what is wrong */
        {"host=a port=1,2", 0, 0, "", "", ""},
        {"service=none-of-that-name", 0, 0, "", "", ""},
    };
    (void)state;
    clear_environment();
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct hosts hosts;
        hosts_read(rows[i].conninfo, &hosts);
        assert_int_equal(hosts.n, rows[i].n);
        if (hosts.n) {
            struct host lists = hosts_rotated(&hosts, rows[i].first);
            assert_string_equal(lists.name, rows[i].names);
            assert_string_equal(lists.address, rows[i].addresses);
            assert_string_equal(lists.port, rows[i].ports);
            host_done(&lists);
        }
        hosts_done(&hosts);
    }
}

static void test_environment(void **state)
{
    struct hosts hosts;
    (void)state;
    clear_environment();
    (void)setenv("PGHOST", "a,b", 1);
    (void)setenv("PGPORT", "1,2", 1);
    hosts_read("dbname=x", &hosts);
    assert_int_equal(hosts.n, 2);
    assert_string_equal(hosts.items[1].name, "b");
    assert_string_equal(hosts.items[1].port, "2");
    hosts_done(&hosts);
    clear_environment();
}

static void test_lookup(void **state)
{
    static const struct {
        const char *name, *address;
        bool needed;
    } rows[] = {
        {"db.example", "", true},
        {"localhost", "", true},
        {"db.example", "10.0.0.1", false},
        {"10.0.0.1", "", false},
        {"::1", "", false},
        {"fe80::1%eth0", "", false},
        {"/run/pg", "", false},
        {"@abstract", "", false},
        {"", "", false},
        {"", "10.0.0.1", false},
        {"10.0.0.1.example", "", true},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct hosts hosts = {0};
        hosts_add(&hosts, rows[i].name, rows[i].address, "");
        assert_int_equal(host_needs_lookup(&hosts.items[0]), rows[i].needed);
        hosts_done(&hosts);
    }
}

/* What libpq would misread is refused like what it cannot read, and nothing of it is repeated. */
static void test_check(void **state)
{
    static const struct {
        const char *conninfo;
        bool ok;
    } rows[] = {
        {"", true},
        {"host=h password='a b@c/d'", true},
        {"postgresql://u:p%40ss%2Fword@h/db", true},
        {"postgresql://u:pass?word@h/db", true},
        {"postgresql://u@h1:1,h2:2/db", true},
        {"postgresql://h/db?options=a@b/c", true},
        {"postgresql://%2Frun%2Fpg/db", true},
        {"postgres://u:pass@word@h/db", false},
        {"postgres://u:pass/word@h/db", false},
        {"postgresql://u:12/word@h/db", false},
        {"postgresql://u:word", false},
        {"host=h port=word", false},
        {"dbname=postgres://u:word@h/db", false},
        {"host=h word", false},
        {"word", false},
    };
    (void)state;
    clear_environment();
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct error err = {0};
        assert_int_equal(conninfo_check(rows[i].conninfo, &err), rows[i].ok);
        assert_int_equal(err.kind, rows[i].ok ? ERROR_NONE : ERROR_CONFIG);
        assert_null(strstr(err.message, "word"));
        assert_null(strstr(err.hint, "word"));
    }
}

static void test_hide(void **state)
{
    static const struct {
        const char *conninfo, *shown;
    } rows[] = {
        {"host=h dbname=d", "host=h dbname=d"}, {"host=h dbname=d password=word", "h:5432/d"},
        {"postgresql://u:word@h:7/d", "h:7/d"}, {"postgresql://h:7/d", "postgresql://h:7/d"},
        {"password=w", "local:5432"}, /* no longer than it was */
        {"host=h word", "host=h word"},
    };
    (void)state;
    clear_environment();
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *text = xstrdup(rows[i].conninfo);
        conninfo_hide_password(text);
        assert_string_equal(text, rows[i].shown);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),  cmocka_unit_test(test_environment),
        cmocka_unit_test(test_lookup), cmocka_unit_test(test_check),
        cmocka_unit_test(test_hide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
