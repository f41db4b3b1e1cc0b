/* SPDX-License-Identifier: PostgreSQL */
/* What a right configuration means: the shipped example, the defaults, the environment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/memory.h"
#include "observe/config_schema.h"
#include "observe/file.h"

#define SERVER "servers: [{name: a, conninfo: \"\"}]\n"

static void print_problems(const struct problems *problems)
{
    for (size_t i = 0; i < problems->n; i++)
        print_error("  %s\n", problems->items[i]);
}

static struct config *parse(const char *yaml)
{
    struct config *config = NULL;
    CLEANUP(problems_done) struct problems problems = {0};
    bool ok = config_parse("/etc/pgleader/t.yml", yaml, strlen(yaml), &config, &problems);
    print_problems(&problems);
    assert_true(ok);
    return config;
}

static void the_example_is_read_as_it_says(void **state)
{
    (void)state;
    CLEANUP(config_freep) struct config *config = NULL;
    CLEANUP(problems_done) struct problems problems = {0};
    bool ok = config_load(SOURCE_DIR "/etc/pgleader.example.yml", &config, &problems);
    print_problems(&problems);
    assert_true(ok);
    assert_int_equal(config->n_servers, 2);
    const struct config_server *us = &config->servers[0], *eu = &config->servers[1];
    assert_string_equal(us->name, "prod-us");
    assert_string_equal(us->conninfo, "service=prod-us");
    assert_string_equal(us->password_file, "/run/secrets/prod-us.password");
    assert_null(us->password);
    assert_int_equal(us->expect, EXPECT_PRIMARY);
    assert_int_equal(us->n_duties, 5);
    assert_int_equal(eu->n_duties, 1);
    assert_string_equal(us->duties[4].name, "jobs/cache-warm");
    assert_string_equal(eu->duties[0].name, "jobs/cache-warm");
    assert_true(lock_key_equal(eu->duties[0].key, lock_key_from_int8(742119)));

    const struct config_duty *duty = &us->duties[0];
    assert_string_equal(duty->name, "jobs/invoice-reconcile");
    assert_int_equal(duty->mechanism, MECHANISM_LOCK);
    assert_true(lock_key_equal(duty->key, lock_key_from_int8(742118)));
    assert_string_equal(duty->candidates, "invoice-worker-%");
    assert_int_equal(duty->limits.min_candidates, 2);
    assert_int_equal(duty->limits.stall_after_us, 5 * MINUTE_US);
    assert_int_equal(duty->limits.run_every_us, HOUR_US);
    assert_int_equal(duty->limits.takeover_slow_after_us, 10 * SECOND_US);
    assert_int_equal(duty->limits.wait_slow_after_us, 30 * SECOND_US);
    assert_int_equal(duty->limits.alerts_paused_until_us, INT64_C(1768456800) * SECOND_US);
    assert_string_equal(duty->team, "billing");
    assert_string_equal(duty->progress.table, "public.reconcile_state");
    assert_string_equal(duty->progress.column, "last_id");
    assert_string_equal(duty->progress.where, "job = 'invoice'");
    assert_true(lock_key_equal(us->duties[1].key, lock_key_from_pair(12, -7)));
    struct lock_key derived;
    assert_true(lock_key_derive("prod", "jobs/search-index", 1, &derived, NULL));
    assert_true(lock_key_equal(us->duties[2].key, derived));
    assert_int_equal(us->duties[3].mechanism, MECHANISM_LEASE);
    assert_string_equal(us->duties[3].lease.table, "public.leader_lease");
    assert_string_equal(us->duties[3].lease.acquired_column, "acquired_at");
}

/* A key that is not in the example is a key that nobody knows of. */
static void the_example_has_every_key(void **state)
{
    (void)state;
    CLEANUP(free_charp) char *text = NULL;
    size_t size = 0;
    assert_true(file_read(SOURCE_DIR "/etc/pgleader.example.yml", 1 << 20, &text, &size, NULL));
    for (const struct yaml_table *const *table = config_tables; *table; table++) {
        for (const struct yaml_field *f = (*table)->fields; f->name; f++) {
            CLEANUP(free_charp) char *key = xasprintf("%s:", f->name);
            if (!strstr(text, key))
                fail_msg("%s of %s is not in the example", f->name, (*table)->what);
        }
    }
}

static void what_is_left_out_has_its_default(void **state)
{
    (void)state;
    CLEANUP(config_freep)
    struct config *config =
        parse("servers:\n- conninfo: host=db1 dbname=app\n  password_file: secret/pw\n"
              "  duties: [{duty: a/b, lock: 1}, {duty: a/c, lease: {table: t, row: r}}]\n");
    const struct config_server *server = &config->servers[0];
    assert_string_equal(config->path, "/etc/pgleader/t.yml");
    assert_true(config->discovery_enabled);
    assert_int_equal(config->discovery_after_us, 60 * SECOND_US);
    assert_int_equal(config->discovery_limit, 50);
    assert_int_equal(config->poll_interval_us, SECOND_US);
    assert_string_equal(server->name, "db1:5432/app");
    assert_string_equal(server->password_file, "/etc/pgleader/secret/pw");
    assert_int_equal(server->expect, EXPECT_PRIMARY);
    const struct config_duty *duty = &server->duties[0];
    assert_int_equal(duty->line, 4);
    assert_null(duty->candidates);
    assert_null(duty->team);
    assert_null(duty->progress.table);
    assert_int_equal(duty->limits.min_candidates, -1);
    assert_int_equal(duty->limits.stall_after_us, -1);
    assert_int_equal(duty->limits.run_every_us, -1);
    assert_int_equal(duty->limits.takeover_slow_after_us, -1);
    assert_int_equal(duty->limits.wait_slow_after_us, -1);
    assert_true(duty->limits.alerts_paused_until_us == TIME_UNKNOWN);
    const struct config_lease *lease = &server->duties[1].lease;
    assert_string_equal(lease->key_column, "job_name");
    assert_string_equal(lease->holder_column, "holder");
    assert_string_equal(lease->expires_column, "expires_at");
    assert_null(lease->acquired_column);
    assert_null(lease->generation_column);
}

static const struct {
    const char *text;
    int64_t seconds;
} time_rows[] = {
    {"1970-01-01T00:00:00Z", 0},
    {"2026-01-15T06:00:00Z", 1768456800},
    {"2026-01-15t06:00:00z", 1768456800},
    {"2026-01-15 06:00Z", 1768456800},
    {"2026-01-15T06:00:00.999Z", 1768456800},
    {"2026-01-15T07:00:00+01:00", 1768456800},
    {"2026-01-15T07:00:00 +01", 1768456800},
    {"2026-01-15T02:30:00-0330", 1768456800},
    {"2024-02-29T00:00:00Z", 1709164800},
};

static void a_pause_ends_at_the_instant_that_is_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof time_rows / sizeof *time_rows; i++) {
        CLEANUP(free_charp)
        char *yaml = xasprintf("%sduties:\n- {duty: a/b, lock: 1, alerts_paused_until: %s}\n",
                               SERVER, time_rows[i].text);
        CLEANUP(config_freep) struct config *config = parse(yaml);
        assert_int_equal(config->servers[0].duties[0].limits.alerts_paused_until_us,
                         time_rows[i].seconds * SECOND_US);
    }
}

static void five_thousand_duties_are_read_in_their_order(void **state)
{
    (void)state;
    CLEANUP(free_charp) char *yaml = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&yaml, &size);
    (void)fputs(SERVER "duties:\n", out);
    for (int i = 0; i < 5000; i++)
        (void)fprintf(out, "- duty: jobs/n%d\n  lock: %d\n  stall_after: 5m\n  team: t\n", i,
                      7 * i % 5000);
    assert_int_equal(fclose(out), 0);
    CLEANUP(config_freep) struct config *config = parse(yaml);
    assert_int_equal(config->servers[0].n_duties, 5000);
    for (int i = 0; i < 5000; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "jobs/n%d", i);
        assert_string_equal(config->servers[0].duties[i].name, name);
    }
}

/* The environment's variables that matter here, all unset before each test. */
static const char *const variables[] = {
    "PGHOST",
    "PGPORT",
    "PGDATABASE",
    "PGUSER",
    "PGSERVICE",
    "DATA_SOURCE_NAME",
    "DATA_SOURCE_NAME_FILE",
    "DATA_SOURCE_URI",
    "DATA_SOURCE_USER",
    "DATA_SOURCE_PASS",
    "DATA_SOURCE_URI_FILE",
    "DATA_SOURCE_USER_FILE",
    "DATA_SOURCE_PASS_FILE",
};

static int clear_environment(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        (void)unsetenv(variables[i]);
    return 0;
}

/* What the environment says, and the server that it means. A setting NAME_FILE has here what the
 * file holds. */
static const struct {
    const char *settings[4][2];
    const char *conninfo, *password, *name;
} environment_rows[] = {
    {{{"PGDATABASE", "app"}}, "", NULL, "local:5432/app"},
    {{{"PGHOST", "db1"}, {"PGDATABASE", "app"}}, "", NULL, "db1:5432/app"},
    {{{"DATA_SOURCE_NAME", "host=db1 dbname=app"}}, "host=db1 dbname=app", NULL, "db1:5432/app"},
    {{{"DATA_SOURCE_NAME", "postgresql://u:hunter2@db1/app"}},
     "postgresql://u:hunter2@db1/app",
     NULL,
     "db1:5432/app"},
    {{{"DATA_SOURCE_NAME_FILE", " host=db1 dbname=app\n"}, {"DATA_SOURCE_NAME", "host=db2"}},
     "host=db1 dbname=app",
     NULL,
     "db1:5432/app"},
    {{{"DATA_SOURCE_NAME", "host=db1 dbname=app"}, {"DATA_SOURCE_PASS", "hunter2"}},
     "host=db1 dbname=app",
     NULL,
     "db1:5432/app"},
    {{{"DATA_SOURCE_URI", "db1:5433/app?sslmode=disable"}},
     "postgresql://db1:5433/app?sslmode=disable",
     NULL,
     "db1:5433/app"},
    {{{"DATA_SOURCE_URI", "db1/app"}, {"DATA_SOURCE_USER", "me"}, {"DATA_SOURCE_PASS", "a b:@/%"}},
     "postgresql://me@db1/app",
     "a b:@/%",
     "db1:5432/app"},
    {{{"DATA_SOURCE_URI", "postgres://db1/app"}, {"DATA_SOURCE_USER", "me@x y/z:\xC3\xA9%"}},
     "postgresql://me%40x%20y%2Fz%3A%C3%A9%25@db1/app",
     NULL,
     "db1:5432/app"},
    {{{"DATA_SOURCE_URI", "me@db1/app"}, {"DATA_SOURCE_PASS", "hunter2"}},
     "postgresql://me@db1/app",
     "hunter2",
     "db1:5432/app"},
    {{{"DATA_SOURCE_URI", "db1/app?application_name=a@b"}, {"DATA_SOURCE_USER", "me"}},
     "postgresql://me@db1/app?application_name=a@b",
     NULL,
     "db1:5432/app"},
    {{{"DATA_SOURCE_URI_FILE", "db1/app\n"},
      {"DATA_SOURCE_USER_FILE", "me\n"},
      {"DATA_SOURCE_PASS_FILE", " two words \r\n"}},
     "postgresql://me@db1/app",
     " two words ",
     "db1:5432/app"},
    {{{"DATA_SOURCE_USER", "o'brien \\"}, {"DATA_SOURCE_PASS", "hunter2"}, {"PGHOST", "db1"}},
     "user='o\\'brien \\\\'",
     "hunter2",
     "db1:5432/o'brien \\"},
    {{{"DATA_SOURCE_URI", ""}, {"DATA_SOURCE_NAME", ""}, {"PGHOST", "db1"}, {"PGDATABASE", "app"}},
     "",
     NULL,
     "db1:5432/app"},
};

static char directory[] = "/tmp/pgleader-test-XXXXXX";

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

static void set_variable(const char *name, const char *value, char *made[static 1])
{
    *made = NULL;
    if (!strstr(name, "_FILE")) {
        assert_int_equal(setenv(name, value, 1), 0);
        return;
    }
    *made = xasprintf("%s/%s", directory, name);
    FILE *out = fopen(*made, "w");
    assert_true(out && fputs(value, out) >= 0 && fclose(out) == 0);
    assert_int_equal(setenv(name, *made, 1), 0);
}

static void the_environment_names_one_server(void **state)
{
    for (size_t i = 0; i < sizeof environment_rows / sizeof *environment_rows; i++) {
        (void)clear_environment(state);
        char *made[4] = {0};
        for (size_t j = 0; j < 4 && environment_rows[i].settings[j][0]; j++)
            set_variable(environment_rows[i].settings[j][0], environment_rows[i].settings[j][1],
                         &made[j]);
        CLEANUP(config_freep) struct config *config = NULL;
        CLEANUP(problems_done) struct problems problems = {0};
        bool ok = config_from_conninfo(NULL, &config, &problems);
        for (size_t j = 0; j < 4; j++) {
            assert_true(!made[j] || unlink(made[j]) == 0);
            free(made[j]);
        }
        print_problems(&problems);
        assert_true(ok);
        const struct config_server *server = config->servers;
        assert_int_equal(config->n_servers, 1);
        assert_string_equal(server->conninfo, environment_rows[i].conninfo);
        assert_string_equal(server->name, environment_rows[i].name);
        assert_string_equal(server->password ? server->password : "-",
                            environment_rows[i].password ? environment_rows[i].password : "-");
        assert_true(config->discovery_enabled);
        assert_int_equal(server->n_duties, 0);
    }
}

/* Mistakes in the environment: the variable and the path are named, the content never is. */
static const struct {
    const char *settings[3][2];
    const char *want;
} mistake_rows[] = {
    {{{"PGHOST", "db1"}, {"PGDATABASE", "postgresql://u:hunter2@x/d"}},
     "could not use the PG* variables: "},
    {{{"DATA_SOURCE_NAME", "host=x pass word=hunter2"}},
     "could not use DATA_SOURCE_NAME: libpq does not understand it. Write it as"},
    {{{"DATA_SOURCE_NAME", "postgresql://u:hunter2@[x/d"}},
     "could not use DATA_SOURCE_NAME: libpq"},
    {{{"DATA_SOURCE_NAME", "hunter2"}}, "could not use DATA_SOURCE_NAME: libpq"},
    {{{"DATA_SOURCE_URI", "u:hunter2@x/d?bad"}}, "could not use DATA_SOURCE_URI: libpq"},
    {{{"DATA_SOURCE_URI", "u:hunter2@x/d"}, {"DATA_SOURCE_USER", "me"}},
     "could not use DATA_SOURCE_USER: DATA_SOURCE_URI names a user too"},
    {{{"DATA_SOURCE_URI", "x/d"}, {"DATA_SOURCE_PASS_FILE", "/nowhere/pw"}},
     "could not read DATA_SOURCE_PASS_FILE \"/nowhere/pw\": No such file or directory"},
    {{{"DATA_SOURCE_NAME_FILE", "/"}},
     "could not read DATA_SOURCE_NAME_FILE \"/\": Is a directory"},
    {{{"DATA_SOURCE_USER_FILE", "/dev/null"}},
     "could not read DATA_SOURCE_USER_FILE \"/dev/null\": it is not a regular file"},
    {{{"DATA_SOURCE_URI_FILE", "/proc/self/cmdline"}},
     "could not read DATA_SOURCE_URI_FILE \"/proc/self/cmdline\": it holds a NUL byte"},
};

static void mistakes_of_the_environment_name_the_variable(void **state)
{
    for (size_t i = 0; i < sizeof mistake_rows / sizeof *mistake_rows; i++) {
        (void)clear_environment(state);
        for (size_t j = 0; j < 3 && mistake_rows[i].settings[j][0]; j++)
            assert_int_equal(
                setenv(mistake_rows[i].settings[j][0], mistake_rows[i].settings[j][1], 1), 0);
        CLEANUP(config_freep) struct config *config = NULL;
        CLEANUP(problems_done) struct problems problems = {0};
        assert_false(config_from_conninfo(NULL, &config, &problems));
        assert_null(config);
        assert_int_equal(problems.n, 1);
        assert_null(strstr(problems.items[0], "hunter2"));
        if (strncmp(problems.items[0], mistake_rows[i].want, strlen(mistake_rows[i].want)) != 0)
            fail_msg("row %zu: %s", i, problems.items[0]);
    }
}

static void an_argument_is_the_server(void **state)
{
    (void)state;
    CLEANUP(config_freep) struct config *config = NULL;
    CLEANUP(problems_done) struct problems problems = {0};
    assert_int_equal(setenv("DATA_SOURCE_NAME", "host=db2", 1), 0);
    assert_true(config_from_conninfo("host=db1 dbname=app", &config, &problems));
    assert_string_equal(config->servers[0].name, "db1:5432/app");
    assert_null(config->path);
    struct config *none = NULL;
    assert_false(config_from_conninfo("host=x pass word=hunter2", &none, &problems));
    assert_int_equal(problems.n, 1);
    assert_null(strstr(problems.items[0], "hunter2"));
}

static void a_file_without_servers_takes_that_of_the_environment(void **state)
{
    (void)state;
    static const char yaml[] = "duties:\n- {duty: a/b, lock: 1}\npoll: {interval: 2s}\n";
    assert_int_equal(setenv("DATA_SOURCE_URI", "db1/app", 1), 0);
    assert_int_equal(setenv("DATA_SOURCE_PASS", "hunter2", 1), 0);
    CLEANUP(config_freep) struct config *config = parse(yaml);
    assert_int_equal(config->n_servers, 1);
    assert_string_equal(config->servers[0].name, "db1:5432/app");
    assert_string_equal(config->servers[0].password, "hunter2");
    assert_int_equal(config->servers[0].n_duties, 1);
    assert_int_equal(config->poll_interval_us, 2 * SECOND_US);

    assert_int_equal(setenv("DATA_SOURCE_URI", "u:hunter2@db1/app?x", 1), 0);
    struct config *none = NULL;
    CLEANUP(problems_done) struct problems problems = {0};
    assert_false(config_parse("t.yml", yaml, strlen(yaml), &none, &problems));
    assert_int_equal(problems.n, 1);
    assert_null(strstr(problems.items[0], "hunter2"));
    assert_non_null(strstr(problems.items[0], "t.yml:1: could not find a server: the file has no"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_example_is_read_as_it_says, clear_environment),
        cmocka_unit_test_setup(the_example_has_every_key, clear_environment),
        cmocka_unit_test_setup(what_is_left_out_has_its_default, clear_environment),
        cmocka_unit_test_setup(a_pause_ends_at_the_instant_that_is_written, clear_environment),
        cmocka_unit_test_setup(five_thousand_duties_are_read_in_their_order, clear_environment),
        cmocka_unit_test_setup(the_environment_names_one_server, clear_environment),
        cmocka_unit_test_setup(mistakes_of_the_environment_name_the_variable, clear_environment),
        cmocka_unit_test_setup(an_argument_is_the_server, clear_environment),
        cmocka_unit_test_setup(a_file_without_servers_takes_that_of_the_environment,
                               clear_environment),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
