/* SPDX-License-Identifier: PostgreSQL */
/* The list of a server's sections. */
#include "observe/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sql.h"

/* A section that failed this often in a row, and then how long until it is asked again: a locked
 * table must not cost every poll its lock timeout. */
enum { FAILURES_TOLERATED = 3 };
static const int64_t failing_pause_us = 5 * SECOND_US;

static struct probe *add_probe(struct probes *probes, enum probe_kind kind, char *name,
                               const char *query)
{
    size_t n = probes->n + 1;
    probes->items = xreallocarray(probes->items, n, sizeof *probes->items);
    probes->status = xreallocarray(probes->status, n, sizeof *probes->status);
    probes->items[probes->n] = (struct probe){.kind = kind, .name = name, .query = xstrdup(query)};
    probes->status[probes->n] = (struct section){.name = name};
    return &probes->items[probes->n++];
}

void probes_init(struct probes *probes)
{
    *probes = (struct probes){0};
    (void)add_probe(probes, PROBE_SERVER, xstrdup("server"), sql_server);
    (void)add_probe(probes, PROBE_LOCKS, xstrdup("locks"), sql_locks);
    (void)add_probe(probes, PROBE_IDENTITY, xstrdup("identity"), sql_identity);
    (void)add_probe(probes, PROBE_CONTROL, xstrdup("control"), sql_control);
    (void)add_probe(probes, PROBE_ROLES, xstrdup("roles"), sql_roles);
    (void)add_probe(probes, PROBE_LEDGER_VERSION, xstrdup("ledger_version"), sql_ledger_version);
    (void)add_probe(probes, PROBE_LEDGER, xstrdup("ledger"), sql_ledger);
}

void probes_done(struct probes *probes)
{
    for (size_t i = 0; i < probes->n; i++) {
        free(probes->items[i].name);
        free(probes->items[i].query);
        free(probes->items[i].subject);
        free(probes->items[i].rows);
        free((char *)probes->status[i].message);
    }
    free(probes->items);
    free(probes->status);
    *probes = (struct probes){0};
}

void probes_forget_session(struct probes *probes)
{
    for (size_t i = 0; i < probes->n; i++) {
        probes->items[i].prepared = (struct pg_prepared){0};
        if (probes->items[i].failures == 0)
            probes->items[i].next_us = 0;
    }
}

/* Names are labels, and so each is given once: a table that is read by other columns too gets a
 * number. */
struct probe *probes_lease(struct probes *probes, const char *table, const char *query)
{
    int readers = 1;
    for (size_t i = PROBE_FIXED; i < probes->n; i++) {
        struct probe *probe = &probes->items[i];
        if (probe->kind != PROBE_LEASE)
            continue;
        if (strcmp(probe->query, query) == 0)
            return probe;
        readers += strcmp(probe->subject, table) == 0;
    }
    char *name =
        readers == 1 ? xasprintf("lease:%s", table) : xasprintf("lease:%s#%d", table, readers);
    struct probe *probe = add_probe(probes, PROBE_LEASE, name, query);
    probe->subject = xstrdup(table);
    return probe;
}

struct probe *probes_progress(struct probes *probes, const char *duty, const char *query)
{
    for (size_t i = PROBE_FIXED; i < probes->n; i++) {
        struct probe *probe = &probes->items[i];
        if (probe->kind == PROBE_PROGRESS && strcmp(probe->subject, duty) == 0 &&
            strcmp(probe->query, query) == 0)
            return probe;
    }
    struct probe *probe = add_probe(probes, PROBE_PROGRESS, xasprintf("progress:%s", duty), query);
    probe->subject = xstrdup(duty);
    return probe;
}

void probe_ask(struct probe *probe, char *query)
{
    free(probe->query);
    probe->query = query;
}

void probes_clear_wanted(struct probes *probes)
{
    for (size_t i = PROBE_FIXED; i < probes->n; i++) {
        probes->items[i].wanted = false;
        probes->items[i].n_rows = 0;
    }
}

void probe_add_row(struct probe *probe, const char *row)
{
    if ((probe->n_rows & (probe->n_rows - 1)) == 0)
        probe->rows =
            xreallocarray(probe->rows, probe->n_rows ? 2 * probe->n_rows : 1, sizeof *probe->rows);
    probe->rows[probe->n_rows++] = row;
}

static void set_status(struct section *status, const struct error *err)
{
    bool same = err && status->message && strcmp(status->message, err->message) == 0;
    status->known = true;
    status->up = !err;
    if (same)
        return;
    free((char *)status->message);
    status->message = err ? xstrdup(err->message) : NULL;
    (void)snprintf(status->sqlstate, sizeof status->sqlstate, "%s", err ? err->sqlstate : "");
}

/* query_canceled, lock_not_available, or the end of the poll while others were waited for. */
static int64_t blocked_us(const struct error *err)
{
    if (strcmp(err->sqlstate, "57014") == 0)
        return SECTION_STATEMENT_TIMEOUT_US;
    bool waited = strcmp(err->sqlstate, "55P03") == 0 || err->kind == ERROR_TIMEOUT;
    return waited ? SECTION_LOCK_TIMEOUT_US : 0;
}

/* The two without which there is no picture are asked at every poll. */
static bool may_pause(const struct probe *probe)
{
    return probe->kind != PROBE_SERVER && probe->kind != PROBE_LOCKS;
}

void probes_note(struct probes *probes, size_t index, const struct error *err, int64_t now_us)
{
    struct probe *probe = &probes->items[index];
    set_status(&probes->status[index], err);
    probe->failures = err ? probe->failures + 1 : 0;
    probe->blocked_us = err ? blocked_us(err) : 0;
    if (probe->failures >= FAILURES_TOLERATED && may_pause(probe))
        probe->next_us = now_us + failing_pause_us;
}

void probes_note_lost(struct probes *probes, const struct error *err)
{
    for (size_t i = 0; i < probes->n; i++) {
        if (!may_pause(&probes->items[i]) || probes->status[i].known)
            set_status(&probes->status[i], err);
    }
}
