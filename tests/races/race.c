/* SPDX-License-Identifier: PostgreSQL */
/* Yields by the program's own engine, many in one process, held still where a racer wants to act:
 *
 *     race CONFIG
 *
 * Commands on standard input, an answer to each on standard output:
 *
 *     ask DUTY PID GENERATION WAIT_MS GRACE_MS PAUSE
 *         looks until PID leads with that generation (-1: none), freezes it, and runs the guards
 * once: "asked", or how it ended. PAUSE names a step: "intent" (of both roads, right before the
 *         statement, or before the leader is asked), "grace" (over: right before the statement),
 * "-". go confirms what was frozen and goes on: "armed" at the pause, which the next `go` ends, and
 *         then how it ended: "done" and the JSON of `pgleader yield --json`. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "observe/collect.h"
#include "observe/history.h"
#include "tui/yield.h"
#include "tui/yield_show.h"

enum { LINE_SIZE = 512, WORDS = 7 };
static const int64_t look_within_us = 20 * SECOND_US;

struct race {
    const struct config_server *server;
    struct collector *collector;
    struct pg_session *conn;
    struct snapshot *snapshot;
    const char *pause; /* of the yield under way; NULL once it is over */
};

static const struct {
    const char *word, *sentence;
} pauses[] = {{"intent", "Intent"}, {"grace", "The grace is over"}, {"-", NULL}};

static void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "race: could not %s: %s\n", what, why);
    exit(2);
}

static void answer(const char *word)
{
    (void)puts(word);
    (void)fflush(stdout);
}

/* The next command; the end of the racer is ours. */
static void hear(char line[LINE_SIZE])
{
    if (!fgets(line, LINE_SIZE, stdin))
        exit(0);
    line[strcspn(line, "\n")] = '\0';
}

static void wait_for(struct pg_session *conn)
{
    struct pollfd fd = {.fd = pg_conn_fd(conn), .events = pg_conn_events(conn)};
    (void)poll(&fd, 1, 100);
}

static bool connect_now(struct race *race, struct error *err)
{
    const struct pg_conn_options options = {.conninfo = race->server->conninfo,
                                            .application_name = "racer"};
    enum pg_progress progress = PG_AGAIN;
    race->conn = pg_conn_start(&options, err);
    while (race->conn && (progress = pg_conn_connect(race->conn, err)) == PG_AGAIN)
        wait_for(race->conn);
    if (progress != PG_DONE)
        return false;
    collector_connected(race->collector, race->conn);
    return true;
}

static bool look_once(struct race *race, struct error *err)
{
    size_t n = 0;
    enum pg_progress progress;
    if (!race->conn && !connect_now(race, err))
        return false;
    const struct pg_section *plan = collector_plan(race->collector, clock_monotonic_us(), &n);
    int64_t sent_us = clock_realtime_us();
    struct pg_batch *batch = pg_batch_start(race->conn, plan, n, err);
    if (!batch)
        return false;
    while ((progress = pg_batch_step(batch, err)) == PG_AGAIN)
        wait_for(race->conn);
    struct snapshot *snapshot = progress == PG_DONE
                                    ? collector_take(race->collector, batch, race->snapshot,
                                                     sent_us, clock_realtime_us(), err)
                                    : NULL;
    pg_batch_free(batch);
    if (!snapshot)
        return false;
    history_advance(race->snapshot, snapshot);
    snapshot_unref(race->snapshot);
    race->snapshot = snapshot;
    return true;
}

/* As the exporter and the screens do it: the session is made anew when it is lost. */
static void look(struct race *race)
{
    struct error err = {0};
    if (look_once(race, &err))
        return;
    pg_conn_close(STEAL(race->conn));
    collector_failed(race->collector, &err);
    (void)poll(NULL, 0, 20);
}

static bool leads(const struct duty *duty, int32_t pid, int64_t generation)
{
    if (!duty || duty->owners != 1 || duty->owner.pid != pid)
        return false;
    return generation < 0 ? !duty->term_begun : duty->term_begun && duty->generation == generation;
}

static const struct duty *find(struct race *race, const char *name, int32_t pid, int64_t generation)
{
    int64_t until_us = clock_monotonic_us() + look_within_us;
    const struct duty *duty = NULL;
    do {
        if (clock_monotonic_us() > until_us)
            die("find the leader of", name);
        look(race);
        duty = race->snapshot ? snapshot_find(race->snapshot, name) : NULL;
    } while (collector_incomplete(race->collector) || !leads(duty, pid, generation));
    return duty;
}

static void on_step(void *context, const struct yield_step *step)
{
    const struct race *race = context;
    char line[LINE_SIZE];
    if (!race->pause || strncmp(step->sentence, race->pause, strlen(race->pause)) != 0)
        return;
    answer("armed");
    hear(line);
}

/* Steps until the phase is reached, or it is over. */
static void run(struct yield *yield, enum yield_phase phase)
{
    while (yield_look(yield)->phase < phase) {
        struct pollfd fd;
        int64_t left_us = yield_due_us(yield) - clock_monotonic_us();
        yield_wants(yield, &fd);
        if (poll(&fd, 1, left_us <= 0 ? 0 : (int)((left_us + 999) / 1000)) >= 0)
            yield_step(yield, fd.revents != 0);
    }
}

static void confirm(struct yield *yield)
{
    const struct yield_target *target = yield_look(yield)->target;
    struct arena *arena = arena_new();
    const char *token = yield_token(target, arena);
    char *typed = xasprintf("%s %s", target->duty, token ? token : "");
    yield_confirm(yield, typed, NULL);
    free(typed);
    arena_free(arena);
}

static void tell(const struct yield *yield)
{
    (void)fputs("done ", stdout);
    yield_show_json(yield_look(yield), false, 0, stdout);
    answer("end");
}

static const char *pause_of(const char *word)
{
    for (size_t i = 0; pauses[i].sentence; i++) {
        if (text_equal(pauses[i].word, word))
            return pauses[i].sentence;
    }
    return NULL;
}

static void ask(struct race *race, char *const words[WORDS])
{
    char line[LINE_SIZE];
    const struct duty *duty =
        find(race, words[1], (int32_t)strtol(words[2], NULL, 10), strtoll(words[3], NULL, 10));
    struct snapshot *snapshot = snapshot_ref(race->snapshot);
    const struct yield_order order = {
        .server = race->server,
        .snapshot = snapshot,
        .duty = duty,
        .reason = "race",
        .overrides = 1U << GUARD_SUCCESSOR,
        .wait_us = strtoll(words[4], NULL, 10) * 1000,
        .grace_us = strtoll(words[5], NULL, 10) * 1000,
        .context = race,
        .step = on_step,
    };
    struct yield *yield = yield_new(&order);
    race->pause = pause_of(words[6]);
    run(yield, PHASE_ASKING);
    if (yield_look(yield)->phase == PHASE_ASKING) {
        answer("asked");
        hear(line);
        confirm(yield);
        run(yield, PHASE_DONE);
    }
    race->pause = NULL;
    tell(yield);
    yield_free(yield);
    snapshot_unref(snapshot);
}

int main(int argc, char **argv)
{
    struct config *config = NULL;
    struct problems problems = {0};
    char line[LINE_SIZE];
    if (argc != 2 || !config_load(argv[1], &config, &problems) || config->n_servers != 1)
        die("read the configuration", problems.n > 0 ? problems.items[0] : "one server is wanted");
    struct race race = {.server = config->servers,
                        .collector = collector_new(config, config->servers)};
    (void)signal(SIGPIPE, SIG_IGN);
    for (;;) {
        char *words[WORDS] = {0}, *rest = line;
        size_t n = 0;
        hear(line);
        while (n < WORDS && (words[n] = strtok_r(rest, " ", &rest)))
            n++;
        if (n != WORDS || !text_equal(words[0], "ask"))
            die("understand", line);
        ask(&race, words);
    }
}
