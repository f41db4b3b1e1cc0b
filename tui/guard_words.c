/* SPDX-License-Identifier: PostgreSQL */
/* What becomes of the worker, and times and addresses in words. */
#include <inttypes.h>
#include <time.h>

#include "base/text.h"
#include "tui/guard.h"

const char *yield_time(int64_t us, struct arena *arena)
{
    char text[32] = "";
    struct tm parts = {0};
    if (us == TIME_UNKNOWN)
        return "unknown";
    int64_t second = us / SECOND_US - (us % SECOND_US < 0);
    time_t seconds = (time_t)second;
    if (!gmtime_r(&seconds, &parts) ||
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts) == 0)
        return "unknown";
    return arena_printf(arena, "%s.%06" PRId64 "Z", text, us - second * SECOND_US);
}

const char *yield_address(const struct yield_facts *facts, struct arena *arena)
{
    const struct yield_server *server = &facts->server;
    if (server->client_addr && server->client_port > 0)
        return arena_printf(arena, "%s:%d", server->client_addr, server->client_port);
    if (server->client_addr)
        return server->client_addr;
    if (server->backend_start_us != TIME_UNKNOWN)
        return "the server's own host (by its socket)";
    return "an address that you may not read";
}

enum yield_fate yield_fate(const struct yield_target *target, const struct yield_facts *facts)
{
    const struct yield_ledger *ledger = facts->ledger;
    if (!yield_term_is_targets(target, facts))
        return FATE_UNPROTECTED;
    if (ledger->term_listens)
        return FATE_KIT;
    bool claimed = ledger->run_key && ledger->run_generation == target->generation;
    return claimed ? FATE_FENCED : FATE_UNPROTECTED;
}

const char *yield_fate_name(enum yield_fate fate)
{
    static const char *const names[] = {
        [FATE_KIT] = "kit", [FATE_FENCED] = "fenced", [FATE_UNPROTECTED] = "UNPROTECTED"};
    return names[fate];
}

static const char *where(const struct yield_target *target, const struct yield_facts *facts,
                         struct arena *arena)
{
    if (target->mechanism == MECHANISM_LEASE)
        return arena_printf(arena, "of \"%s\"", target->holder ? target->holder : "");
    return arena_printf(arena, "at %s", yield_address(facts, arena));
}

const char *yield_fate_sentence(const struct yield_target *target, const struct yield_facts *facts,
                                struct arena *arena)
{
    if (target->owners <= 0)
        return "UNPROTECTED: nobody leads; who may go on working nevertheless is not known.";
    switch (yield_fate(target, facts)) {
    case FATE_KIT:
        return arena_printf(arena,
                            "kit: the leader listens; it aborts its work first, at the latest "
                            "%.1f s after its session has ended.",
                            (double)facts->ledger->stop_within_us / SECOND_US);
    case FATE_FENCED:
        return arena_printf(arena,
                            "fenced by the ledger: what the worker %s writes by its run is refused "
                            "from the next term on; what it does elsewhere may go on.",
                            where(target, facts, arena));
    case FATE_UNPROTECTED:
        break;
    }
    return arena_printf(arena,
                        "UNPROTECTED: the process %s may go on working beside its successor; stop "
                        "it too.",
                        where(target, facts, arena));
}
