/* SPDX-License-Identifier: PostgreSQL */
/* The configuration file's tables, and the few values that a table cannot describe: lock, lease. */
#include "observe/config_schema.h"

#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "observe/table_rows.h"
#include "pg/conninfo.h"

static const char *check_text(const void *value, const char *forbidden)
{
    const char *text = *(const char *const *)value;
    for (const char *p = text; *p; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7F || strchr(forbidden, *p))
            return "holds a character that may not stand here";
    }
    if (!*text)
        return "is empty";
    return strlen(text) > 200 ? "is longer than 200 bytes" : NULL;
}

/* A name becomes a label, so what looks like a connection string, with its password, is refused. */
static const char *check_server_name(const void *value)
{
    const char *text = *(const char *const *)value;
    if (strstr(text, "://"))
        return "looks like a connection string";
    return check_text(value, "=");
}

const char *config_check_name(const char *name)
{
    return check_server_name(&name);
}

static const char *check_duty_name(const void *value)
{
    return duty_name_valid(*(const char *const *)value) ? NULL : "is not the name of a duty";
}

static const char *check_conninfo(const void *value)
{
    return conninfo_check(*(const char *const *)value, NULL) ? NULL
                                                             : "is not what libpq understands";
}

/* The end of one SQL identifier, quoted or not, at text; NULL if there is none. */
static const char *skip_identifier(const char *text)
{
    if (*text != '"') {
        const char *p = text;
        while (*p == '_' || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
               (unsigned char)*p >= 0x80 || (p > text && ((*p >= '0' && *p <= '9') || *p == '$')))
            p++;
        return p > text ? p : NULL;
    }
    const char *p = text + 1;
    while (*p && (*p != '"' || p[1] == '"'))
        p += *p == '"' ? 2 : 1;
    return *p && p > text + 1 ? p + 1 : NULL;
}

static const char *check_column(const void *value)
{
    const char *end = skip_identifier(*(const char *const *)value);
    return end && !*end ? NULL : "is not the name of a column";
}

static const char *check_table(const void *value)
{
    const char *end = skip_identifier(*(const char *const *)value);
    if (end && *end == '.')
        end = skip_identifier(end + 1);
    return end && !*end ? NULL : "is not the name of a table";
}

static const char *check_count(const void *value)
{
    int32_t n = *(const int32_t *)value;
    return n >= 1 && n <= 10000 ? NULL : "is out of range";
}

static const char *check_duration(const void *value)
{
    int64_t us = *(const int64_t *)value;
    return us > 0 && us <= 3650 * DAY_US ? NULL : "is out of range";
}

static const char *check_duration_or_zero(const void *value)
{
    return *(const int64_t *)value == 0 ? NULL : check_duration(value);
}

static const char *check_interval(const void *value)
{
    int64_t us = *(const int64_t *)value;
    return us >= 100000 && us <= 15 * SECOND_US ? NULL : "is out of range";
}

#define DURATION_HELP "a duration above 0, like 250ms, 5m or 1h30m"
#define LOCK_HELP "an int8 like 742118, two int4 like [12, -7], or {derive: v1, environment: prod}"
#define COLUMN_HELP "a column's name as in SQL"
#define TABLE_HELP "a table's name as in SQL, like public.leader_lease"

#define AT(member) offsetof(struct duty_entry, member)
static const struct yaml_table duty_table = {
    .what = "a duty",
    .fields =
        (const struct yaml_field[]){
            {"duty", YAML_TEXT, AT(duty.name), .required = true, .check = check_duty_name,
             .help = "namespace/name, each part of a-z 0-9 . _ - beginning with a letter or a "
                     "digit, at most 48 bytes in all, like jobs/invoice-reconcile"},
            {"servers", YAML_NODE, AT(servers), .help = "a list of servers' names, like [prod-us]"},
            {"lock", YAML_NODE, AT(lock), .help = LOCK_HELP},
            {"lease", YAML_NODE, AT(lease),
             .help = "{table: public.leader_lease, row: nightly_report}"},
            {"candidates", YAML_TEXT, AT(duty.candidates),
             .help = "a LIKE pattern on application_name, like \"invoice-worker-%\""},
            {"min_candidates", YAML_INT, AT(duty.limits.min_candidates), .check = check_count,
             .help = "a whole number from 1 to 10000"},
            {"stall_after", YAML_DURATION, AT(duty.limits.stall_after_us), .check = check_duration,
             .help = DURATION_HELP},
            {"run_every", YAML_DURATION, AT(duty.limits.run_every_us), .check = check_duration,
             .help = DURATION_HELP},
            {"takeover_slow_after", YAML_DURATION, AT(duty.limits.takeover_slow_after_us),
             .check = check_duration, .help = DURATION_HELP},
            {"wait_slow_after", YAML_DURATION, AT(duty.limits.wait_slow_after_us),
             .check = check_duration, .help = DURATION_HELP},
            {"alerts_paused_until", YAML_TIME, AT(duty.limits.alerts_paused_until_us),
             .help = "a date, a time and a zone, like 2026-12-24T18:00:00Z"},
            {"team", YAML_TEXT, AT(duty.team), .help = "the name of a team"},
            {"runbook", YAML_TEXT, AT(duty.runbook), .help = "the address of a page"},
            {"progress", YAML_NODE, AT(progress),
             .help = "{table: public.reconcile_state, column: last_id}"},
            {0},
        },
};
#undef AT

struct derived_key {
    const char *version;
    const char *environment;
};

static const struct yaml_table derive_table = {
    .what = "a derived lock",
    .fields =
        (const struct yaml_field[]){
            {"derive", YAML_TEXT, offsetof(struct derived_key, version), .required = true,
             .help = "v1"},
            {"environment", YAML_TEXT, offsetof(struct derived_key, environment), .required = true,
             .help = "the name that the workers derive it with, like prod"},
            {0},
        },
};

#define AT(member) offsetof(struct config_lease, member)
static const struct yaml_table lease_table = {
    .what = "a lease",
    .fields =
        (const struct yaml_field[]){
            {"table", YAML_TEXT, AT(table), .required = true, .check = check_table,
             .help = TABLE_HELP},
            {"row", YAML_TEXT, AT(row), .required = true,
             .help = "the value of the key column, like nightly_report"},
            {"key_column", YAML_TEXT, AT(key_column), .fallback = "job_name", .check = check_column,
             .help = COLUMN_HELP},
            {"holder_column", YAML_TEXT, AT(holder_column), .fallback = "holder",
             .check = check_column, .help = COLUMN_HELP},
            {"expires_column", YAML_TEXT, AT(expires_column), .fallback = "expires_at",
             .check = check_column, .help = COLUMN_HELP},
            {"acquired_column", YAML_TEXT, AT(acquired_column), .check = check_column,
             .help = COLUMN_HELP},
            {"generation_column", YAML_TEXT, AT(generation_column), .check = check_column,
             .help = COLUMN_HELP},
            {0},
        },
};
#undef AT

#define AT(member) offsetof(struct config_progress, member)
static const struct yaml_table progress_table = {
    .what = "progress",
    .fields =
        (const struct yaml_field[]){
            {"table", YAML_TEXT, AT(table), .required = true, .check = check_table,
             .help = TABLE_HELP},
            {"column", YAML_TEXT, AT(column), .required = true, .check = check_column,
             .help = COLUMN_HELP},
            {"where", YAML_TEXT, AT(where), .help = "an SQL condition, like \"job = 'invoice'\""},
            {0},
        },
};
#undef AT

#define AT(member) offsetof(struct server_entry, member)
static const char *const expect_words[] = {"primary", "standby", "any", NULL};
static const struct yaml_table server_table = {
    .what = "a server",
    .fields =
        (const struct yaml_field[]){
            {"name", YAML_TEXT, AT(server.name), .check = check_server_name,
             .help = "a short name of at most 200 bytes, like prod-us"},
            {"conninfo", YAML_TEXT, AT(server.conninfo), .required = true, .secret = true,
             .check = check_conninfo,
             .help = "host=... dbname=... or postgresql://...; values with blanks need single "
                     "quotes, special characters in a URI percent-encoding"},
            {"password_file", YAML_TEXT, AT(server.password_file),
             .help = "the path of a file that holds the password alone"},
            {"expect", YAML_CHOICE, AT(server.expect), .fallback = "primary",
             .choices = expect_words, .help = "primary, standby or any"},
            {"duties", YAML_NODE, AT(duties),
             .help = "a list of duties, each with - duty: namespace/name"},
            {0},
        },
};
#undef AT

#define AT(member) offsetof(struct config, member)
static const struct yaml_table discovery_table = {
    .what = "discovery",
    .fields =
        (const struct yaml_field[]){
            {"enabled", YAML_BOOL, AT(discovery_enabled), .fallback = "true",
             .help = "true or false"},
            {"after", YAML_DURATION, AT(discovery_after_us), .fallback = "60s",
             .check = check_duration_or_zero, .help = "a duration like 60s, or 0"},
            {"limit", YAML_INT, AT(discovery_limit), .fallback = "50", .check = check_count,
             .help = "a whole number from 1 to 10000"},
            {0},
        },
};

static const struct yaml_table poll_table = {
    .what = "poll",
    .fields =
        (const struct yaml_field[]){
            {"interval", YAML_DURATION, AT(poll_interval_us), .fallback = "1s",
             .check = check_interval, .help = "a duration from 100ms to 15s"},
            {0},
        },
};
#undef AT

#define AT(member) offsetof(struct file_entry, member)
static const struct yaml_table top_table = {
    .what = "the file",
    .fields =
        (const struct yaml_field[]){
            {"servers", YAML_NODE, AT(servers),
             .help = "a list of servers, each with - name: and conninfo:"},
            {"duties", YAML_NODE, AT(duties),
             .help = "a list of duties, each with - duty: namespace/name"},
            {"discovery", YAML_NODE, AT(discovery),
             .help = "{enabled: true, after: 60s, limit: 50}"},
            {"poll", YAML_NODE, AT(poll), .help = "{interval: 1s}"},
            {0},
        },
};
#undef AT
/* clang-format on */

const struct yaml_table *const config_tables[] = {
    &top_table,      &server_table,    &duty_table, &derive_table, &lease_table,
    &progress_table, &discovery_table, &poll_table, NULL,
};

static const struct yaml_node no_keys = {.kind = YAML_MAP};

struct config *config_new(const char *path)
{
    struct arena *arena = arena_new();
    struct config *config = arena_alloc(arena, sizeof *config);
    struct problems none = {0};
    struct yaml_reader reader = {.arena = arena, .keep = arena, .problems = &none};
    config->arena = arena;
    config->path = arena_strdup(arena, path);
    yaml_read_table(&reader, &no_keys, &discovery_table, config);
    yaml_read_table(&reader, &no_keys, &poll_table, config);
    return config;
}

void config_free(struct config *config)
{
    if (config)
        arena_free(config->arena);
}

void config_read_top(struct yaml_reader *reader, const struct yaml_node *root,
                     struct file_entry *entry, struct config *config)
{
    yaml_read_table(reader, root, &top_table, entry);
    if (entry->discovery)
        yaml_read_table(reader, entry->discovery, &discovery_table, config);
    if (entry->poll)
        yaml_read_table(reader, entry->poll, &poll_table, config);
}

void config_read_server(struct yaml_reader *reader, const struct yaml_node *node,
                        struct server_entry *entry)
{
    entry->line = node->line;
    yaml_read_table(reader, node, &server_table, entry);
}

static bool read_pair(struct yaml_reader *reader, const struct yaml_node *node,
                      struct lock_key *ret_key)
{
    static const char help[] = "two whole numbers of int4, like [12, -7]";
    int64_t a = 0, b = 0;
    if (node->n != 2) {
        yaml_problem(reader, node->line,
                     "could not read \"lock\": the list has %zu items; write %s", node->n, help);
        return false;
    }
    bool ok = yaml_read_int64(reader, node->first, "lock", INT32_MIN, INT32_MAX, help, &a);
    ok = yaml_read_int64(reader, node->first->next, "lock", INT32_MIN, INT32_MAX, help, &b) && ok;
    if (ok)
        *ret_key = lock_key_from_pair((int32_t)a, (int32_t)b);
    return ok;
}

static bool read_derived(struct yaml_reader *reader, const struct yaml_node *node, const char *duty,
                         struct lock_key *ret_key)
{
    struct derived_key derived = {0};
    yaml_read_table(reader, node, &derive_table, &derived);
    if (!derived.version || !derived.environment || !duty)
        return false;
    struct error err;
    if (strcmp(derived.version, "v1") != 0)
        yaml_problem(reader, node->line,
                     "could not derive the lock: version %s is not known; "
                     "write derive: v1",
                     yaml_show(reader, derived.version, "it"));
    else if (!lock_key_derive(derived.environment, duty, 1, ret_key, &err))
        yaml_problem(reader, node->line, "%s", err.message);
    else
        return true;
    return false;
}

static bool read_lock(struct yaml_reader *reader, const struct yaml_node *node, const char *duty,
                      struct lock_key *ret_key)
{
    int64_t key = 0;
    switch (node->kind) {
    case YAML_BROKEN:
        return false;
    case YAML_LIST:
        return read_pair(reader, node, ret_key);
    case YAML_MAP:
        return read_derived(reader, node, duty, ret_key);
    case YAML_SCALAR:
        break;
    }
    if (!yaml_read_int64(reader, node, "lock", INT64_MIN, INT64_MAX, LOCK_HELP, &key))
        return false;
    *ret_key = lock_key_from_int8(key);
    return true;
}

static void read_mechanism(struct yaml_reader *reader, struct duty_entry *entry)
{
    struct config_duty *duty = &entry->duty;
    if (entry->lock && entry->lease)
        yaml_problem(reader, entry->lease->line,
                     "could not use \"lease\" beside \"lock\" (line %d): a duty is elected by one "
                     "of them; remove the other",
                     entry->lock->line);
    if (entry->lock) {
        duty->mechanism = MECHANISM_LOCK;
        entry->identified = read_lock(reader, entry->lock, duty->name, &duty->key);
    }
    if (entry->lease) {
        duty->mechanism = MECHANISM_LEASE;
        yaml_read_table(reader, entry->lease, &lease_table, &duty->lease);
        if (duty->lease.table)
            duty->lease.table = table_canonical(duty->lease.table, reader->keep);
        entry->identified = duty->lease.table && duty->lease.row && !entry->lock;
    }
}

void config_read_duty(struct yaml_reader *reader, const struct yaml_node *node, bool top,
                      struct duty_entry *entry)
{
    entry->duty.line = node->line;
    entry->duty.limits = (struct thresholds){-1, -1, -1, -1, -1, TIME_UNKNOWN};
    yaml_read_table(reader, node, &duty_table, entry);
    if (entry->servers && !top)
        yaml_problem(reader, entry->servers->line,
                     "could not use \"servers\": the duty stands below its server already; remove "
                     "it, or move the duty to the top level");
    if (node->kind == YAML_MAP && !yaml_member(node, "lock") && !yaml_member(node, "lease"))
        yaml_problem(reader, node->line,
                     "could not read a duty: it has neither \"lock\" nor \"lease\"; write lock: %s",
                     LOCK_HELP);
    read_mechanism(reader, entry);
    if (entry->progress)
        yaml_read_table(reader, entry->progress, &progress_table, &entry->duty.progress);
}
