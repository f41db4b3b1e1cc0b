/* SPDX-License-Identifier: PostgreSQL */
/* One batch of read-only sections, and what they say. */
#include "tui/doctor_facts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "sql.h"
#include "tui/talk.h"

static const int64_t look_within_us = 10 * SECOND_US;
static const int64_t section_timeout_us = 5 * SECOND_US;

enum {
    ASK_SERVER,
    ASK_SESSIONS,
    ASK_SETTINGS,
    ASK_CONTROL,
    ASK_STANDBYS,
    ASK_LEASES,
    ASK_AGAIN,
    ASK_LEDGER,
    ASKS = ASK_LEDGER + LEDGER_SECTIONS
};

#define FIELD(column, field, member)                                                               \
    {                                                                                              \
        column, field, offsetof(struct doctor_facts, member)                                       \
    }

static const struct pg_column server_columns[] = {
    FIELD("pid", PG_INT4, pid),
    FIELD("database_oid", PG_INT8, database_oid),
    FIELD("database", PG_TEXT, database),
    FIELD("role", PG_TEXT, role),
    FIELD("synchronous_commit", PG_TEXT, synchronous_commit),
    FIELD("in_recovery", PG_BOOL, in_recovery),
    FIELD("postmaster_start", PG_TIME, postmaster_start_us),
    FIELD("reads_stats", PG_BOOL, reads_stats),
    FIELD("signals", PG_BOOL, signals),
    FIELD("operates", PG_BOOL, operates),
    FIELD("connections", PG_INT8, connections),
    FIELD("connections_room", PG_INT8, connections_room),
    FIELD("locks", PG_INT8, locks),
    FIELD("locks_room", PG_INT8, locks_room),
    {0},
};
static const struct pg_column again_columns[] = {FIELD("pid", PG_INT4, pid_again), {0}};
static const struct pg_column control_columns[] = {
    FIELD("system_identifier", PG_TEXT, system_identifier),
    FIELD("timeline", PG_INT4, timeline),
    {0},
};
static const struct pg_column standby_columns[] = {
    FIELD("standbys", PG_INT8, standbys),
    FIELD("synchronous", PG_INT8, synchronous),
    {0},
};
static const struct pg_column detail_columns[] = {
    {"pid", PG_INT4, offsetof(struct doctor_session, pid)},
    {"role", PG_TEXT, offsetof(struct doctor_session, role)},
    {"state", PG_TEXT, offsetof(struct doctor_session, state)},
    {"state_since", PG_TIME, offsetof(struct doctor_session, state_since_us)},
    {0},
};
static const struct pg_column setting_columns[] = {
    {"role", PG_TEXT, offsetof(struct doctor_setting, role)},
    {"name", PG_TEXT, offsetof(struct doctor_setting, name)},
    {"value", PG_FLOAT8, offsetof(struct doctor_setting, value)},
    {0},
};
static const struct pg_column lease_columns[] = {{"name", PG_TEXT, 0}, {0}};

struct reading {
    const struct config_server *server;
    struct arena *arena;
    const struct pg_batch *batch;
    struct doctor_facts *facts;
};

static struct pg_section section(const char *name, const char *query)
{
    return (struct pg_section){
        .name = name,
        .query = query,
        .lock_timeout_us = SECOND_US,
        .statement_timeout_us = section_timeout_us,
    };
}

/* The configuration's lease tables as a text[]: '{"\"public\".\"leader_lease\""}'. */
static const char *lease_tables(const struct config_server *server, struct arena *arena)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    const char *between = "{";
    if (!out)
        abort();
    for (size_t i = 0; i < server->n_duties; i++) {
        const char *quoted = NULL;
        if (server->duties[i].mechanism != MECHANISM_LEASE ||
            !pg_quote_name(arena, server->duties[i].lease.table, &quoted))
            continue;
        (void)fprintf(out, "%s\"", between);
        for (; *quoted; quoted++)
            (void)fprintf(out, "%s%c", *quoted == '"' || *quoted == '\\' ? "\\" : "", *quoted);
        (void)putc('"', out);
        between = ",";
    }
    (void)fputs(*between == '{' ? "{}" : "}", out);
    if (fclose(out) != 0)
        abort();
    const char *kept = arena_strdup(arena, text);
    free(text);
    return kept;
}

/* Rows of a section into the arena; none where it failed. */
static bool take_rows(const struct reading *reading, int ask, const struct pg_column *columns,
                      size_t row_size, void **ret_rows, size_t *ret_n, struct error *err)
{
    const struct pg_outcome *outcome = pg_batch_outcome(reading->batch, (size_t)ask);
    if (outcome->rows)
        return pg_answer_decode(outcome->rows, columns, row_size, reading->arena, ret_rows, ret_n,
                                err);
    *err = outcome->error;
    return false;
}

/* The one row of a section, into the facts' own members. */
static bool take_row(const struct reading *reading, int ask, const struct pg_column *columns,
                     struct error *err)
{
    void *rows = NULL;
    size_t n = 0;
    if (!take_rows(reading, ask, columns, sizeof(struct doctor_facts), &rows, &n, err))
        return false;
    if (n != 1)
        return error_set(err, ERROR_QUERY, "could not read the answer: %zu rows", n);
    for (const struct pg_column *column = columns; column->name; column++) {
        static const size_t sizes[] = {
            [PG_BOOL] = sizeof(bool),     [PG_INT4] = sizeof(int32_t), [PG_INT8] = sizeof(int64_t),
            [PG_FLOAT8] = sizeof(double), [PG_TIME] = sizeof(int64_t), [PG_TEXT] = sizeof(char *),
            [PG_INET] = sizeof(char *)};
        const char *from = (const char *)rows + column->offset;
        char *to = (char *)reading->facts + column->offset;
        memcpy(to, from, sizes[column->field]);
    }
    return true;
}

static int compare_pids(const void *a, const void *b)
{
    int32_t x = ((const struct doctor_session *)a)->pid,
            y = ((const struct doctor_session *)b)->pid;
    return (x > y) - (x < y);
}

static bool take_sessions(const struct reading *reading, struct error *err)
{
    struct doctor_facts *facts = reading->facts;
    const struct pg_outcome *outcome = pg_batch_outcome(reading->batch, ASK_SESSIONS);
    void *rows = NULL;
    if (!take_rows(reading, ASK_SESSIONS, detail_columns, sizeof(struct doctor_session), &rows,
                   &facts->n_details, err))
        return false;
    facts->details = rows;
    if (facts->n_details)
        qsort(facts->details, facts->n_details, sizeof *facts->details, compare_pids);
    facts->now_us = outcome->clock_before_us;
    return sessions_decode(outcome->rows, facts->database_oid, reading->arena, &facts->sessions,
                           err);
}

static bool take_settings(const struct reading *reading, struct error *err)
{
    void *rows = NULL;
    if (!take_rows(reading, ASK_SETTINGS, setting_columns, sizeof(struct doctor_setting), &rows,
                   &reading->facts->n_settings, err))
        return false;
    reading->facts->settings = rows;
    return true;
}

static bool is_unlogged(const struct reading *reading, const struct config_duty *duty,
                        const char *const *unlogged, size_t n)
{
    const char *quoted = NULL;
    if (duty->mechanism != MECHANISM_LEASE ||
        !pg_quote_name(reading->arena, duty->lease.table, &quoted))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (text_equal(unlogged[i], quoted))
            return true;
    }
    return false;
}

static void list_duties(const struct reading *reading)
{
    struct doctor_facts *facts = reading->facts;
    const struct registry *registry = &facts->ledger.registry;
    const struct config_server *server = reading->server;
    struct error ignored = {0};
    void *unlogged = NULL;
    size_t n = 0;
    if (!take_rows(reading, ASK_LEASES, lease_columns, sizeof(char *), &unlogged, &n, &ignored))
        n = 0;
    facts->duties =
        arena_array(reading->arena, registry->n + server->n_duties + 1, sizeof *facts->duties);
    for (size_t i = 0; i < registry->n; i++)
        facts->duties[facts->n_duties++] =
            (struct doctor_duty){&registry->items[i].duty, true, registry->items[i].lease_unlogged};
    for (size_t i = 0; i < server->n_duties; i++) {
        const struct config_duty *duty = &server->duties[i];
        if (!registry_find(registry, duty->name))
            facts->duties[facts->n_duties++] =
                (struct doctor_duty){duty, false, is_unlogged(reading, duty, unlogged, n)};
    }
}

/* Without these there is nothing to judge; the rest may be denied, and is then not known. */
static bool take_all(const struct reading *reading, struct error *err)
{
    struct doctor_facts *facts = reading->facts;
    struct error ignored = {0};
    if (!take_row(reading, ASK_SERVER, server_columns, err) ||
        !take_row(reading, ASK_AGAIN, again_columns, err) || !take_sessions(reading, err) ||
        !take_settings(reading, err))
        return false;
    if (!take_row(reading, ASK_CONTROL, control_columns, &ignored))
        facts->timeline = -1;
    if (!take_row(reading, ASK_STANDBYS, standby_columns, &ignored))
        facts->standbys = facts->synchronous = -1;
    ledger_take(reading->batch, ASK_LEDGER, reading->arena, &facts->ledger);
    list_duties(reading);
    return true;
}

bool doctor_read(const struct config_server *server, struct arena *arena,
                 struct doctor_facts *ret_facts, struct error *err)
{
    struct talk talk = {0};
    struct doctor_facts facts = {0};
    struct pg_section sections[ASKS] = {
        [ASK_SERVER] = section("server", sql_doctor_server),
        [ASK_SESSIONS] = section("sessions", sql_doctor_sessions),
        [ASK_SETTINGS] = section("settings", sql_doctor_settings),
        [ASK_CONTROL] = section("control", sql_doctor_control),
        [ASK_STANDBYS] = section("standbys", sql_doctor_standbys),
        [ASK_LEASES] = section("leases", sql_doctor_leases),
        [ASK_AGAIN] = section("again", sql_doctor_again),
    };
    sections[ASK_LEASES].n_params = 1;
    sections[ASK_LEASES].params[0] = lease_tables(server, arena);
    ledger_sections(sections + ASK_LEDGER);
    if (!talk_open(server, look_within_us, &talk, err))
        return false;
    facts.version_num = pg_conn_version(talk.conn);
    facts.version = arena_strdup(arena, pg_conn_version_text(talk.conn));
    facts.protocol_pid = pg_conn_backend_pid(talk.conn);
    struct pg_batch *batch = talk_ask(&talk, sections, ASKS, err);
    const struct reading reading = {server, arena, batch, &facts};
    bool ok = batch && take_all(&reading, err);
    pg_batch_free(batch);
    talk_close(&talk);
    if (ok)
        *ret_facts = facts;
    return ok;
}

double doctor_setting(const struct doctor_facts *facts, const char *role, const char *name)
{
    for (size_t i = 0; i < facts->n_settings; i++) {
        if (text_equal(facts->settings[i].name, name) && text_equal(facts->settings[i].role, role))
            return facts->settings[i].value;
    }
    return NAN;
}

const struct doctor_session *doctor_session(const struct doctor_facts *facts, int32_t pid)
{
    const struct doctor_session wanted = {.pid = pid};
    if (pid <= 0 || facts->n_details == 0)
        return NULL;
    return bsearch(&wanted, facts->details, facts->n_details, sizeof wanted, compare_pids);
}
