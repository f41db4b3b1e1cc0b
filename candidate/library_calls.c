/* SPDX-License-Identifier: PostgreSQL */
/* The ledger's calls on the work's own connection. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "candidate/library_internal.h"
#include "pg/foreign.h"

/* What the caller shall do is decided by SQLSTATE alone. */
static const struct {
    const char *sqlstate;
    enum pgleader_code code;
} codes[] = {
    {"PL001", PGLEADER_ERROR_STALE},       {"40001", PGLEADER_ERROR_STALE},
    {"PL002", PGLEADER_ERROR_NOT_HELD},    {"PL003", PGLEADER_ERROR_UNKNOWN_DUTY},
    {"3F000", PGLEADER_ERROR_NO_LEDGER},   {"42883", PGLEADER_ERROR_NO_LEDGER},
    {"42501", PGLEADER_ERROR_PERMISSION},  {"57014", PGLEADER_ERROR_CANCELLED},
    {"40P01", PGLEADER_ERROR_BUSY},        {"55P03", PGLEADER_ERROR_BUSY},
    {"55000", PGLEADER_ERROR_NOT_CLAIMED}, {"22023", PGLEADER_ERROR_USAGE},
    {"22P02", PGLEADER_ERROR_USAGE},
};

static enum pgleader_code code_of(const struct error *err)
{
    static const enum pgleader_code kinds[] = {
        [ERROR_NONE] = PGLEADER_OK,
        [ERROR_USAGE] = PGLEADER_ERROR_USAGE,
        [ERROR_CONFIG] = PGLEADER_ERROR_CONFIG,
        [ERROR_SYSTEM] = PGLEADER_ERROR_SYSTEM,
        [ERROR_CONNECT] = PGLEADER_ERROR_CONNECT,
        [ERROR_QUERY] = PGLEADER_ERROR_QUERY,
        [ERROR_TIMEOUT] = PGLEADER_ERROR_CONNECT,
    };
    for (size_t i = 0; err->kind == ERROR_QUERY && i < sizeof codes / sizeof *codes; i++) {
        if (text_equal(codes[i].sqlstate, err->sqlstate))
            return codes[i].code;
    }
    return kinds[err->kind];
}

bool library_error(struct pgleader_error *ret, const struct error *err)
{
    if (!ret)
        return false;
    *ret = (struct pgleader_error){.code = code_of(err)};
    memcpy(ret->sqlstate, err->sqlstate, sizeof ret->sqlstate);
    memcpy(ret->message, err->message, sizeof ret->message);
    memcpy(ret->hint, err->hint, sizeof ret->hint);
    if (ret->code == PGLEADER_ERROR_STALE && !*ret->hint)
        (void)snprintf(ret->hint, sizeof ret->hint,
                       "Roll back, and stop this work: another leader may be at it.");
    if (ret->code == PGLEADER_ERROR_NO_LEDGER && !*ret->hint)
        (void)snprintf(ret->hint, sizeof ret->hint, "Install the ledger in this database.");
    return false;
}

bool library_refuse(struct pgleader_error *ret, enum pgleader_code code, const char *message)
{
    if (!ret)
        return false;
    *ret = (struct pgleader_error){.code = code};
    (void)snprintf(ret->message, sizeof ret->message, "%s", message);
    return false;
}

/* One call of the ledger; `values` begins with the duty, and has a place for the generation. */
struct call {
    const char *deed; /* "claim a run" */
    const char *text;
    const char *values[6];
    int n;
    int generation_at;
};

static bool run_call(PGconn *conn, struct call *call, int64_t generation,
                     char *ret_values[PG_FOREIGN_VALUES], struct pgleader_error *err)
{
    char number[32], what[64];
    struct error why = {0};
    if (!call->values[0])
        return library_refuse(err, PGLEADER_ERROR_USAGE,
                              "could not call the ledger: no duty is given");
    if (generation <= 0) {
        (void)error_set(&why, ERROR_USAGE,
                        "could not %s: generation %" PRId64 " is not the ledger's", call->deed,
                        generation);
        error_hint(&why, "Without a ledger there are no runs and no fences.");
        return library_error(err, &why);
    }
    (void)snprintf(number, sizeof number, "%" PRId64, generation);
    (void)snprintf(what, sizeof what, "%s", call->deed);
    call->values[call->generation_at] = number;
    return pg_foreign_call(conn, what, call->text, call->n, call->values, ret_values, &why) ||
           library_error(err, &why);
}

static int64_t read_generation(const char *text)
{
    int64_t generation = 0;
    return text && text_to_int64(text, &generation) ? generation : 0;
}

bool pgleader_claim_run(PGconn *conn, const char *duty, const char *run_key, int64_t generation,
                        int64_t deadline_us, struct pgleader_claim *ret_claim,
                        struct pgleader_error *err)
{
    char deadline[40];
    char *row[PG_FOREIGN_VALUES] = {0};
    struct call call = {
        .deed = "claim a run",
        .text = "SELECT c.outcome, c.cursor, c.\"position\", c.previous_generation "
                "FROM pgleader.claim_run($1, $2, $3::int8, $4::interval) c",
        .values = {duty, run_key, NULL, deadline_us > 0 ? deadline : NULL},
        .n = 4,
        .generation_at = 2,
    };
    (void)snprintf(deadline, sizeof deadline, "%" PRId64 " us", deadline_us);
    if (!run_call(conn, &call, generation, row, err))
        return false;
    *ret_claim = (struct pgleader_claim){
        .outcome = text_equal(row[0], "fresh")     ? PGLEADER_FRESH
                   : text_equal(row[0], "resumed") ? PGLEADER_RESUMED
                                                   : PGLEADER_ALREADY_COMPLETE,
        .previous_generation = read_generation(row[3]),
        .cursor = row[1],
        .position = row[2],
    };
    free(row[0]);
    free(row[3]);
    return true;
}

void pgleader_claim_clear(struct pgleader_claim *claim)
{
    free(claim->cursor);
    free(claim->position);
    *claim = (struct pgleader_claim){0};
}

bool pgleader_advance_run(PGconn *conn, const char *duty, const char *run_key, int64_t generation,
                          const char *cursor, const char *position, const char *target,
                          struct pgleader_error *err)
{
    struct call call = {
        .deed = "advance a run",
        .text = "SELECT pgleader.advance_run($1, $2, $3::int8, $4, $5::numeric, $6::numeric)",
        .values = {duty, run_key, NULL, cursor, position, target},
        .n = 6,
        .generation_at = 2,
    };
    return run_call(conn, &call, generation, NULL, err);
}

bool pgleader_finish_run(PGconn *conn, const char *duty, const char *run_key, int64_t generation,
                         enum pgleader_status status, const char *receipt_json,
                         struct pgleader_error *err)
{
    static const char *const names[] = {
        [PGLEADER_COMPLETE] = "complete",
        [PGLEADER_PARTIAL] = "partial",
        [PGLEADER_ABANDONED] = "abandoned",
    };
    if ((unsigned)status >= sizeof names / sizeof *names)
        return library_refuse(err, PGLEADER_ERROR_USAGE, "could not finish a run: no such status");
    struct call call = {
        .deed = "finish a run",
        .text = "SELECT pgleader.finish_run($1, $2, $3::int8, $4, $5::jsonb)",
        .values = {duty, run_key, NULL, names[status], receipt_json},
        .n = 5,
        .generation_at = 2,
    };
    return run_call(conn, &call, generation, NULL, err);
}

bool pgleader_fence(PGconn *conn, const char *duty, int64_t generation, struct pgleader_error *err)
{
    struct call call = {
        .deed = "hold a generation",
        .text = "SELECT pgleader.fence($1, $2::int8)",
        .values = {duty},
        .n = 2,
        .generation_at = 1,
    };
    if (conn && !pg_foreign_in_transaction(conn))
        return library_refuse(
            err, PGLEADER_ERROR_USAGE,
            "could not hold a generation: no transaction is open, and a fence ends with it");
    return run_call(conn, &call, generation, NULL, err);
}
