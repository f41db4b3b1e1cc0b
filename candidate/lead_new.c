/* SPDX-License-Identifier: PostgreSQL */
/* A candidate's beginning and end, and what it says of itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "candidate/lead_internal.h"
#include "pg/conninfo.h"
#include "pg/hosts.h"
#include "pg/statement.h"

enum { NAME_SIZE = 63 }; /* what application_name holds */

static uint32_t fnv1a(const char *text)
{
    uint32_t hash = 2166136261U;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619U;
    return hash;
}

/* Of an instance too long for application_name: as much of its tail as fits, and a hash of all of
 * it, so that two pods never look the same. */
static void make_name(struct lead *lead)
{
    const char *instance = lead->options.instance;
    int size = snprintf(lead->name, sizeof lead->name, "pgleader:%s:", lead->options.duty);
    size_t room = NAME_SIZE - (size_t)size, length = strlen(instance);
    char hash[12] = "";
    if (length > room) {
        int hash_size = snprintf(hash, sizeof hash, "~%08x", fnv1a(instance));
        if ((size_t)hash_size > room) /* the longest duties leave five bytes */
            hash_size =
                snprintf(hash, sizeof hash, "%0*x", (int)room, fnv1a(instance) >> (32 - 4 * room));
        instance += length - (room - (size_t)hash_size);
    }
    (void)snprintf(lead->name + size, sizeof lead->name - (size_t)size, "%s%s", instance, hash);
}

static bool check_options(const struct lead_options *options, struct error *err)
{
    if (!duty_name_valid(options->duty))
        return error_set(err, ERROR_USAGE,
                         "could not lead \"%s\": not namespace/name of [a-z0-9._-]", options->duty);
    if (!*options->instance)
        return error_set(err, ERROR_USAGE, "could not lead %s: the instance has no name",
                         options->duty);
    if (options->lease_table && options->lease_us <= 0)
        return error_set(err, ERROR_USAGE, "could not lead %s: the lease has no duration",
                         options->duty);
    struct timing timing = options->timing;
    if (options->lease_table)
        timing = timing_of_lease(&timing, options->lease_us);
    return conninfo_check(options->conninfo, err) && timing_check(&timing, err);
}

struct lead *lead_new(const struct lead_options *options, struct error *err)
{
    if (!check_options(options, err))
        return NULL;
    struct lead *lead = xcalloc(1, sizeof *lead);
    CLEANUP(hosts_done) struct hosts hosts = {0};
    hosts_read(options->conninfo, &hosts);
    lead->several_hosts = hosts.n > 1;
    lead->options = *options;
    lead->target.duty = options->duty;
    lead->arena = arena_new();
    lead->generation = lead->unreported = -1;
    lead->refused_at_us = TIME_UNKNOWN;
    lead->candidates = 2;
    lead->lot = lead_random();
    lead->queue = options->queue;
    lead->found = options->key != NULL;
    if (options->key)
        lead->target.key = *options->key;
    make_name(lead);
    lead->due_us = clock_boottime_us();
    return lead;
}

void lead_free(struct lead *lead)
{
    if (!lead)
        return;
    pg_conn_close(lead->conn);
    pg_answer_free(lead->answer);
    arena_free(lead->arena);
    free(lead->lease_table);
    free(lead->lease_row);
    free(lead->registered_table);
    free(lead->registered_row);
    free(lead);
}

enum lead_end lead_ended(const struct lead *lead)
{
    return lead->end;
}

enum lead_state lead_state(const struct lead *lead)
{
    return lead->state;
}

int64_t lead_generation(const struct lead *lead)
{
    return lead->generation;
}

bool lead_connected(const struct lead *lead)
{
    return lead->conn && lead->phase >= PHASE_ASKING;
}

const struct lock_key *lead_key(const struct lead *lead)
{
    return lead->found && !lead->target.lease_table ? &lead->target.key : NULL;
}

const char *lead_lease_table(const struct lead *lead)
{
    return lead->lease_table;
}

const char *lead_lease_row(const struct lead *lead)
{
    return lead->lease_row;
}
