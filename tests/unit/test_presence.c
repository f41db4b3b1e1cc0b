/* SPDX-License-Identifier: PostgreSQL */
/* When a family is absent, for a duty in every condition. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "exporter/sample.h"
#include "tests/support/exposition_syntax.h"
#include "tests/support/own.h"
#include "tests/support/picture_builder.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

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
    duty_past(duty, snapshot->arena)->lost_upper_us = snapshot->read_upper_us - 1500000;
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
    own_run(snapshot->arena, &duty->run)->present = false;
    duty->generation = -1;
    own_yields(snapshot->arena, duty)[YIELD_MOVED] = -1;
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
}

static void unbegun(struct snapshot *snapshot, struct duty *duty)
{
    struct run *run = own_run(snapshot->arena, &duty->run);
    duty->term_begun = false;
    run->finished_us = run->advanced_us;
    run->position = NAN;
}

static void discovered(struct snapshot *snapshot, struct duty *duty)
{
    (void)snapshot;
    duty->source = SOURCE_DISCOVERY;
}

/* Absent is better than false: each row changes one led duty and looks at one family. */
static const struct row {
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
    {endless, "lease_remaining_seconds", "+Inf"},
    {endless, "lease_expires_timestamp_seconds", "+Inf"},
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

/* A row with a misspelt family would be absent for ever. */
static bool known(const char *family)
{
    for (const struct metric *m = metrics; m->name; m++) {
        if (strcmp(m->name + strlen("pgleader_"), family) == 0)
            return true;
    }
    return false;
}

static void test_presence(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct picture picture;
        assert_true(known(rows[i].family));
        build_many(&picture, 1);
        struct snapshot *snapshot = picture.servers[0]->snapshot;
        if (rows[i].change)
            rows[i].change(snapshot, &snapshot->duties[0]);
        char *head = xasprintf("pgleader_%s{server=\"prod-us\",duty=\"%s\"} ", rows[i].family,
                               snapshot->duties[0].name);
        char *text = exposition_render(&picture, FORMAT_TEXT);
        const char *value = exposition_sample(text, head);
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_presence)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
