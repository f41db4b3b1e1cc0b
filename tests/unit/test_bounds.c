/* SPDX-License-Identifier: PostgreSQL */
/* Random histories of a duty, polled at random: what really happened lies within every bound that
 * is told. Sessions come back under used pids, terms begin late or not at all, owners end them or
 * die, the server restarts, readings and privileges fail. Each history is its seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/text.h"
#include "observe/history.h"
#include "tests/support/own.h"

enum { TENURES = 60, WORKERS = 4, HISTORIES = 1000, MS = 1000 };
static const int64_t origin_us = INT64_C(1700000000) * SECOND_US;
static const char *const names[WORKERS] = {"a", "b", "c", "d"};

/* One stretch of leadership, and the term that its owner began in it: term_at 0 is none. */
struct tenure {
    int64_t begin, end;
    int worker;
    int64_t pid, start; /* the session; for a lease its acquisition */
    int64_t term_at, refused, ended;
    int64_t expires; /* lease: what the row says at the end */
    bool released;
    int64_t boot; /* of the server then */
};

struct world {
    uint64_t random;
    bool lease, kit, hides, restarts, acquired_column;
    struct tenure tenures[TENURES];
};

/* What the observer could know of the truth: the tenures that a reading may have meant. */
struct observed {
    int owner;                 /* tenure, or -1: vacant */
    int lost_first, lost_last; /* candidates of the last loss; empty if first > last */
    int gained_first;          /* candidates of the acquisition: from here to `owner` */
    bool known;                /* there was a reading */
    int64_t last_us;           /* the clock before it */
};

static uint64_t random_below(struct world *world, uint64_t n)
{
    world->random ^= world->random << 13;
    world->random ^= world->random >> 7;
    world->random ^= world->random << 17;
    return (world->random >> 11) % n;
}

static bool chance(struct world *world, unsigned percent)
{
    return random_below(world, 100) < percent;
}

/* Mostly short, sometimes long. */
static int64_t some_time(struct world *world)
{
    static const int64_t scales[] = {2 * MS, 200 * MS, 2000 * MS, 20000 * MS};
    return 1 + (int64_t)random_below(world, (uint64_t)scales[random_below(world, 4)]);
}

static int64_t between(struct world *world, int64_t from, int64_t to)
{
    return to > from ? from + (int64_t)random_below(world, (uint64_t)(to - from)) : from;
}

/* The session of a new tenure: the worker's old one, or a new one, maybe under a used pid. */
static void choose_session(struct world *world, struct tenure *t, const struct tenure *before,
                           int64_t number)
{
    bool alive = before && before->worker == t->worker && before->boot == t->boot;
    if (alive && chance(world, 50)) {
        t->pid = before->pid;
        t->start = before->start;
        return;
    }
    t->pid = world->hides || chance(world, 50) ? 100 + number : 7;
    int64_t earliest = before && before->pid == t->pid ? before->end : t->begin - 30000 * MS;
    t->start = between(world, earliest > t->boot ? earliest : t->boot, t->begin);
}

/* Refusals are of the owner before, which is known to the ledger only if it has the kit. */
static void write_term(struct world *world, struct tenure *t, const struct tenure *before)
{
    if (!world->kit || (!world->lease && chance(world, 20)))
        return;
    t->term_at = t->begin + (chance(world, 80) ? between(world, 0, 3 * MS) : some_time(world));
    if (t->term_at >= t->end && !world->lease) {
        t->term_at = 0;
        return;
    }
    if (before && before->term_at && chance(world, 60))
        t->refused = between(world, before->begin, before->end);
    if (chance(world, 50))
        t->ended = between(world, t->term_at, t->end);
}

/* A lease is renewed until it is not, and then released or left to run out. A release after that is
 * possible too. Its term opens and ends in the transactions that write the row. */
static void write_lease(struct world *world, struct tenure *t, const struct tenure *before)
{
    int64_t free_since = before && before->end > before->ended ? before->end
                         : before                              ? before->ended
                                                               : 0;
    int64_t asked = t->begin - 3 * MS > free_since ? t->begin - 3 * MS : free_since;
    bool late = chance(world, 20);
    t->released = chance(world, 50);
    t->expires = t->released ? t->end - between(world, 0, 2 * MS) : t->end;
    t->start = between(world, asked, t->begin);
    t->term_at = world->kit ? between(world, asked, t->start) : 0;
    if (!world->kit)
        t->refused = 0;
    t->ended = t->term_at && t->released ? between(world, t->expires, t->end)
               : t->term_at && late      ? t->end + between(world, 0, 500 * MS)
                                         : 0;
}

static void make_history(struct world *world)
{
    int64_t now = origin_us, boot = origin_us - 100000 * MS;
    for (int i = 0; i < TENURES; i++) {
        struct tenure *t = &world->tenures[i];
        const struct tenure *before = i ? t - 1 : NULL;
        *t = (struct tenure){.worker = (int)random_below(world, WORKERS)};
        if (world->restarts && chance(world, 15))
            boot = now += 1 + some_time(world);
        t->boot = boot;
        t->begin = now + (chance(world, 30) ? 1 : some_time(world));
        t->end = t->begin + 1 + some_time(world);
        choose_session(world, t, before, i);
        write_term(world, t, before);
        if (world->lease)
            write_lease(world, t, before);
        now = t->end > t->ended ? t->end : t->ended;
    }
}

/* The tenure that holds at that instant, or -1. */
static int tenure_at(const struct world *world, int64_t us)
{
    for (int i = 0; i < TENURES; i++) {
        if (world->tenures[i].begin <= us && us < world->tenures[i].end)
            return i;
    }
    return -1;
}

static int last_begun(const struct world *world, int64_t us)
{
    int last = -1;
    while (last + 1 < TENURES && world->tenures[last + 1].begin <= us)
        last++;
    return last;
}

static int64_t generation_of(int tenure)
{
    return 10 + 3 * tenure;
}

static struct term term_from(const struct world *world, int i, int64_t us, int64_t superseded)
{
    const struct tenure *t = &world->tenures[i];
    bool own = t->ended && t->ended <= us;
    return (struct term){
        .generation = generation_of(i),
        .pid = world->lease ? -1 : (int32_t)t->pid,
        .backend_start_us = world->lease ? TIME_UNKNOWN : t->start,
        .acquired_us = t->term_at,
        .last_refused_us = t->refused ? t->refused : TIME_UNKNOWN,
        .ended_us = own ? t->ended : superseded,
        .end_reason = own ? "shutdown" : "superseded",
        .instance = names[t->worker],
    };
}

/* The ledger as it was at that instant. */
static void read_ledger(const struct world *world, struct duty *duty, int64_t us,
                        struct arena *arena)
{
    int newest = -1, before = -1;
    for (int i = 0; i < TENURES; i++) {
        if (!world->tenures[i].term_at || world->tenures[i].term_at > us)
            continue;
        before = newest;
        newest = i;
    }
    if (newest >= 0)
        *own_term(arena, &duty->term) = term_from(world, newest, us, TIME_UNKNOWN);
    if (before >= 0)
        *own_term(arena, &duty->previous) =
            term_from(world, before, us, world->tenures[newest].term_at);
}

/* The row as it was at us: renewed every third of a second for one, and never past the tenure's own
 * last expiry. */
static int64_t expiry_at(const struct tenure *t, int64_t us)
{
    if (us >= t->end)
        return t->expires;
    int64_t renewed = t->begin + (us - t->begin) / (SECOND_US / 3) * (SECOND_US / 3);
    bool last = !t->released && renewed + SECOND_US > t->end;
    return last ? t->end : renewed + SECOND_US;
}

static void read_lease(const struct world *world, struct duty *duty, int64_t us)
{
    int i = last_begun(world, us);
    if (i < 0)
        return;
    const struct tenure *t = &world->tenures[i];
    duty->lease_expires_us = expiry_at(t, us);
    duty->owners = duty->lease_expires_us > duty->read_lower_us;
    duty->generation = world->kit ? generation_of(i) : -1;
    duty->owner = (struct owner){
        .backend_start_us = TIME_UNKNOWN,
        .acquired_us = world->acquired_column ? t->start : TIME_UNKNOWN,
        .holder = names[t->worker],
    };
}

static void read_lock(const struct world *world, struct duty *duty, int64_t us, bool hidden)
{
    int i = tenure_at(world, us);
    if (i < 0)
        return;
    const struct tenure *t = &world->tenures[i];
    duty->owners = 1;
    duty->owner = (struct owner){
        .pid = (int32_t)t->pid,
        .backend_start_us = hidden ? TIME_UNKNOWN : t->start,
        .acquired_us = TIME_UNKNOWN,
        .holder = names[t->worker],
    };
}

static void match_term(struct duty *duty)
{
    const struct owner *owner = &duty->owner;
    bool same = duty->mechanism == MECHANISM_LEASE
                    ? text_equal(duty->term->instance, owner->holder) &&
                          duty->term->generation == duty->generation
                    : duty->term->pid == owner->pid &&
                          duty->term->backend_start_us == owner->backend_start_us;
    duty->term_begun = duty->owners > 0 && duty->term->generation >= 0 &&
                       duty->term->ended_us == TIME_UNKNOWN && same;
}

/* A reading at an instant between two clocks, the first of which is from_us; the ledger a moment
 * later. *ret_us is the instant. */
static struct snapshot *read_world(struct world *world, int64_t from_us, bool hidden,
                                   int64_t *ret_us)
{
    int64_t us = from_us + between(world, 0, chance(world, 90) ? 2 * MS : 400 * MS);
    *ret_us = us;
    struct snapshot *snapshot = snapshot_new();
    struct duty *duty = snapshot->duties = arena_array(snapshot->arena, 1, sizeof *duty);
    int begun = last_begun(world, us);
    int64_t boot = world->tenures[begun < 0 ? 0 : begun].boot;
    /* a restart since the last tenure shows only with the next one, unless it is over already */
    if (begun + 1 < TENURES && world->tenures[begun + 1].boot <= us)
        boot = world->tenures[begun + 1].boot;
    snapshot->n_duties = 1;
    snapshot->facts.postmaster_start_us = boot;
    snapshot->read_lower_us = from_us;
    snapshot->read_upper_us = us + between(world, 0, chance(world, 90) ? 2 * MS : 400 * MS);
    duty_init(duty);
    duty->name = "jobs/x";
    duty->key_text = "1";
    duty->mechanism = world->lease ? MECHANISM_LEASE : MECHANISM_LOCK;
    if (chance(world, 5))
        return snapshot;
    duty->read = true;
    duty->read_lower_us = snapshot->read_lower_us;
    duty->read_upper_us = snapshot->read_upper_us;
    if (world->lease)
        read_lease(world, duty, us);
    else
        read_lock(world, duty, us, hidden);
    int64_t apart = between(world, 0, 2 * MS);
    if (!chance(world, 10)) /* read after the locks and before the leases */
        read_ledger(world, duty, world->lease ? from_us - apart : duty->read_upper_us + apart,
                    snapshot->arena);
    match_term(duty);
    return snapshot;
}

static bool same_session(const struct world *world, int a, int b)
{
    const struct tenure *x = &world->tenures[a], *y = &world->tenures[b];
    if (world->lease)
        return x->worker == y->worker && (!world->acquired_column || a == b);
    return x->pid == y->pid && x->start == y->start;
}

/* Moves on what may have been meant, as a person would who knows the truth. */
static void observe(const struct world *world, struct observed *seen, int owner, int last,
                    int64_t lower_us)
{
    int64_t last_us = seen->known ? seen->last_us : 0;
    seen->last_us = lower_us;
    bool same =
        seen->known && seen->owner >= 0 && owner >= 0 && same_session(world, seen->owner, owner);
    if (same) {
        seen->owner = owner;
        return;
    }
    if (seen->known && seen->owner >= 0) {
        seen->lost_first = seen->owner;
        seen->lost_last = owner >= 0 ? owner - 1 : last;
    }
    if (owner >= 0) {
        seen->gained_first = owner;
        while (seen->gained_first > 0 && same_session(world, seen->gained_first - 1, owner) &&
               world->tenures[seen->gained_first - 1].begin > last_us)
            seen->gained_first--;
    }
    seen->owner = owner;
    seen->known = true;
}

static bool within(int64_t us, int64_t lower, int64_t upper)
{
    return us >= lower && (upper == TIME_UNKNOWN || us <= upper);
}

/* One of the losses that may be meant, and one of the acquisitions, lie within the bounds. */
static bool takeover_holds(const struct world *world, const struct observed *seen,
                           const struct trail *trail)
{
    for (int i = seen->lost_first; i <= seen->lost_last; i++) {
        if (!same_session(world, i, seen->lost_first))
            continue;
        for (int j = seen->gained_first; j <= seen->owner; j++) {
            int64_t took = world->tenures[j].begin - world->tenures[i].end;
            if (same_session(world, j, seen->owner) && took >= 0 &&
                took >= trail->past->takeover_lower_us &&
                (trail->past->takeover_upper_us < 0 || took <= trail->past->takeover_upper_us))
                return true;
        }
    }
    return false;
}

static bool loss_holds(const struct world *world, const struct observed *seen,
                       const struct trail *trail)
{
    for (int i = seen->lost_first; i <= seen->lost_last; i++) {
        if (same_session(world, i, seen->lost_first) &&
            within(world->tenures[i].end, trail->past->lost_lower_us, trail->past->lost_upper_us))
            return true;
    }
    return false;
}

/* Recorded is what was recorded; else the age is at least the first and at most the sum. */
static bool age_holds(const struct world *world, const struct observed *seen,
                      const struct duty *duty)
{
    bool recorded =
        text_equal(duty->acquired_source, "ledger") || text_equal(duty->acquired_source, "lease");
    int64_t slack = recorded && world->lease ? 3 * MS : 0;
    for (int i = seen->gained_first; i <= seen->owner; i++) {
        int64_t age = duty->read_upper_us - world->tenures[i].begin;
        bool most = recorded || duty->age_uncertainty_us < 0 ||
                    age <= duty->age_us + duty->age_uncertainty_us;
        if (same_session(world, i, seen->owner) && age + slack >= duty->age_us && most)
            return true;
    }
    return false;
}

static const char *what_is_wrong(const struct world *world, const struct observed *seen,
                                 const struct duty *duty)
{
    const struct trail *trail = &duty->trail;
    if (seen->lost_last >= seen->lost_first && !loss_holds(world, seen, trail))
        return "the loss lies outside its bounds";
    if (seen->owner >= 0 && !age_holds(world, seen, duty))
        return "the age lies outside its bounds";
    if (trail->took_over && !takeover_holds(world, seen, trail))
        return "the takeover lies outside its bounds";
    if (trail->past->lost_lower_us > trail->past->lost_upper_us ||
        (seen->owner >= 0 && trail->acquired_lower_us > trail->acquired_upper_us))
        return "a lower bound is above its upper one";
    return NULL;
}

/* The last instant at which a lease reading may have seen it held. */
static int owner_of_reading(const struct world *world, const struct duty *duty, int64_t us)
{
    if (!world->lease)
        return tenure_at(world, us);
    return duty->owners ? last_begun(world, us) : -1;
}

static int run_history(uint64_t seed, bool lease)
{
    struct world world = {.random = seed * 2654435761u + 88172645463325252u, .lease = lease};
    for (int i = 0; i < 8; i++)
        (void)random_below(&world, 2);
    world.kit = chance(&world, 70);
    world.hides = !lease && chance(&world, 30);
    world.restarts = !lease && chance(&world, 30);
    world.acquired_column = lease && (world.kit || chance(&world, 30));
    make_history(&world);
    struct observed seen = {.owner = -1, .lost_first = 0, .lost_last = -1};
    struct snapshot *last = NULL;
    bool hidden = false;
    int64_t end = world.tenures[TENURES - 1].end;
    const char *wrong = NULL;
    for (int64_t from = origin_us + some_time(&world), us = 0; us < end && !wrong;) {
        hidden = world.hides && (chance(&world, 10) ? !hidden : hidden);
        struct snapshot *next = read_world(&world, from, hidden, &us);
        history_advance(last, next);
        snapshot_unref(last);
        last = next;
        const struct duty *duty = &next->duties[0];
        if (duty->read) {
            observe(&world, &seen, owner_of_reading(&world, duty, us), last_begun(&world, us),
                    duty->read_lower_us);
            wrong = what_is_wrong(&world, &seen, duty);
        }
        from = next->read_upper_us + 1 + some_time(&world);
    }
    if (wrong)
        print_error("history %llu of a %s: %s\n", (unsigned long long)seed,
                    lease ? "lease" : "lock", wrong);
    snapshot_unref(last);
    return wrong != NULL;
}

static void test_locks(void **state)
{
    int bad = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= HISTORIES && bad < 10; seed++)
        bad += run_history(seed, false);
    assert_int_equal(bad, 0);
}

static void test_leases(void **state)
{
    int bad = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= HISTORIES && bad < 10; seed++)
        bad += run_history(seed, true);
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_locks),
        cmocka_unit_test(test_leases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
