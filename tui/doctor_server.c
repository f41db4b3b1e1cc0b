/* SPDX-License-Identifier: PostgreSQL */
/* Checks of the server itself, of what our role may, and of servers beside each other. */
#include <inttypes.h>
#include <math.h>

#include "base/text.h"
#include "tui/doctor_checks.h"

enum { OLDEST_VERSION = 120000, WAITSTART_VERSION = 140000 };
enum { CONNECTIONS_PERCENT = 80, LOCKS_PERCENT = 70 };
static const double deadlock_timeout_least_ms = 250;

DOCTOR_CHECK(server_version)
{
    (void)server;
    if (facts->version_num < OLDEST_VERSION)
        doctor_find(doctor, "version %s: the ledger needs 12", facts->version);
    else if (facts->version_num < WAITSTART_VERSION)
        doctor_find(doctor,
                    "version %s: it does not tell since when a session waits, and has no "
                    "client_connection_check_interval",
                    facts->version);
}

DOCTOR_CHECK(role_unexpected)
{
    if (server->expect == EXPECT_PRIMARY && facts->in_recovery)
        doctor_find(doctor, "in recovery (timeline %" PRId32 "), and expected to be a primary",
                    facts->timeline);
    else if (server->expect == EXPECT_STANDBY && !facts->in_recovery)
        doctor_find(doctor, "a primary (timeline %" PRId32 "), and expected to be a standby",
                    facts->timeline);
}

DOCTOR_CHECK(sessions_hidden)
{
    (void)server;
    if (facts->reads_stats)
        return;
    doctor_find(doctor, "role %s has no pg_read_all_stats", facts->role);
    doctor_mend(doctor, "GRANT pg_read_all_stats TO %s;", doctor_quote(doctor, facts->role));
}

DOCTOR_CHECK(cannot_signal)
{
    (void)server;
    bool ledger = facts->ledger.version > 0 || facts->ledger.error.kind != ERROR_NONE;
    if (facts->signals || facts->operates)
        return;
    doctor_find(doctor,
                "role %s has neither pg_signal_backend nor the ledger's "
                "terminate_owner",
                facts->role);
    doctor_mend(doctor, "GRANT %s TO %s;", ledger ? "pgleader_operator" : "pg_signal_backend",
                doctor_quote(doctor, facts->role));
}

DOCTOR_CHECK(pooler_between)
{
    (void)server;
    if (facts->protocol_pid != facts->pid || facts->pid != facts->pid_again)
        doctor_find(doctor,
                    "the connection is said to be process %" PRId32 ", and %" PRId32
                    " then %" PRId32 " answered",
                    facts->protocol_pid, facts->pid, facts->pid_again);
}

static int64_t percent(int64_t used, int64_t room)
{
    return room > 0 ? used * 100 / room : 0;
}

DOCTOR_CHECK(connections_used_up)
{
    (void)server;
    if (percent(facts->connections, facts->connections_room) >= CONNECTIONS_PERCENT)
        doctor_find(doctor, "%" PRId64 " of %" PRId64 " connections are used", facts->connections,
                    facts->connections_room);
}

DOCTOR_CHECK(lock_table_full)
{
    (void)server;
    if (percent(facts->locks, facts->locks_room) >= LOCKS_PERCENT)
        doctor_find(doctor,
                    "%" PRId64 " locks are held or waited for, and %" PRId64 " are sure to fit",
                    facts->locks, facts->locks_room);
}

DOCTOR_CHECK(deadlock_timeout_short)
{
    (void)server;
    double ms = doctor_setting(facts, facts->role, "deadlock_timeout");
    if (!isnan(ms) && ms < deadlock_timeout_least_ms)
        doctor_find(doctor, "deadlock_timeout is %g ms", ms);
}

DOCTOR_CHECK(commit_asynchronous)
{
    (void)server;
    if (facts->ledger.version > 0 && !facts->in_recovery &&
        text_equal(facts->synchronous_commit, "off"))
        doctor_find(doctor, "synchronous_commit is off");
}

DOCTOR_CHECK(standby_asynchronous)
{
    (void)server;
    if (facts->ledger.version > 0 && facts->standbys > 0 && facts->synchronous == 0)
        doctor_find(doctor, "%" PRId64 " standby(s), and commits wait for none of them",
                    facts->standbys);
}

/* Calls `pair` for each two servers that were looked at and are of one cluster, as far as the
 * system identifier tells. */
static void each_pair(struct doctor *doctor,
                      void (*pair)(struct doctor *doctor, const struct doctor_server *a,
                                   const struct doctor_server *b))
{
    for (size_t i = 0; i < doctor->n_servers; i++) {
        for (size_t j = i + 1; j < doctor->n_servers; j++) {
            const struct doctor_server *a = &doctor->servers[i], *b = &doctor->servers[j];
            if (!a->looked || !b->looked || !a->facts.system_identifier ||
                !text_equal(a->facts.system_identifier, b->facts.system_identifier))
                continue;
            doctor->server = b->config->name;
            pair(doctor, a, b);
        }
    }
}

static bool same_postmaster(const struct doctor_facts *a, const struct doctor_facts *b)
{
    return a->postmaster_start_us == b->postmaster_start_us && a->in_recovery == b->in_recovery;
}

static void find_two_primaries(struct doctor *doctor, const struct doctor_server *a,
                               const struct doctor_server *b)
{
    if (!a->facts.in_recovery && !b->facts.in_recovery && !same_postmaster(&a->facts, &b->facts))
        doctor_find(doctor,
                    "%s (timeline %" PRId32 ") and %s (timeline %" PRId32
                    ") have the system identifier %s, and neither is in recovery",
                    a->config->name, a->facts.timeline, b->config->name, b->facts.timeline,
                    a->facts.system_identifier);
}

void check_two_primaries(struct doctor *doctor)
{
    each_pair(doctor, find_two_primaries);
}

static void find_same_database(struct doctor *doctor, const struct doctor_server *a,
                               const struct doctor_server *b)
{
    if (same_postmaster(&a->facts, &b->facts) && a->facts.database_oid == b->facts.database_oid)
        doctor_find(doctor, "%s and %s are both database %s of the server with identifier %s",
                    a->config->name, b->config->name, a->facts.database,
                    a->facts.system_identifier);
}

void check_same_database_twice(struct doctor *doctor)
{
    each_pair(doctor, find_same_database);
}
