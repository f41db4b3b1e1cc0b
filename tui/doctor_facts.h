/* SPDX-License-Identifier: PostgreSQL */
/* What doctor reads of one server, at one look. Plain data; the checks ask nothing themselves. */
#pragma once

#include "base/arena.h"
#include "observe/config.h"
#include "observe/sessions.h"
#include "tui/ledger_facts.h"

/* What a session does, beside what struct lock_row says of it. */
struct doctor_session {
    int32_t pid;
    const char *role, *state; /* NULL: not known */
    int64_t state_since_us;
};

/* A setting as a new session of a role would have it: milliseconds, or a count. */
struct doctor_setting {
    const char *role, *name;
    double value; /* NAN: not known */
};

/* A duty of the registry or of the configuration, each name once; the registry first. */
struct doctor_duty {
    const struct config_duty *duty;
    bool registered;
    bool lease_unlogged;
};

struct doctor_facts {
    int64_t now_us; /* the server's clock at the sessions' reading */
    int32_t version_num, protocol_pid;
    const char *version;
    int32_t pid, pid_again; /* as the server says, in two transactions */
    int64_t database_oid;
    const char *database, *role, *synchronous_commit;
    bool in_recovery, reads_stats, signals, operates;
    int64_t postmaster_start_us;
    int64_t connections, connections_room, locks, locks_room;
    const char *system_identifier; /* NULL: not readable */
    int32_t timeline;              /* -1 */
    int64_t standbys, synchronous; /* -1 */
    struct sessions sessions;
    struct doctor_session *details; /* by pid */
    size_t n_details;
    struct doctor_setting *settings;
    size_t n_settings;
    struct ledger_facts ledger;
    struct doctor_duty *duties;
    size_t n_duties;
};

/* Connects and reads. False where the server could not be looked at. */
bool doctor_read(const struct config_server *server, struct arena *arena,
                 struct doctor_facts *ret_facts, struct error *err) MUSTCHECK;

/* NAN where this version has no such setting, or the role is not known. */
double doctor_setting(const struct doctor_facts *facts, const char *role, const char *name);

/* NULL where it is not known. */
const struct doctor_session *doctor_session(const struct doctor_facts *facts, int32_t pid);
