/* SPDX-License-Identifier: PostgreSQL */
/* Many terms in one process, and what must hold of all of them:
 *
 *     library_terms yields CONNINFO ROUNDS DUTY          gain, yield, gain...; prints the open
 * descriptors library_terms chaos CONNINFO ROUNDS SEED DUTY...   ends terms in every way, a
 * candidate a duty library_terms stops CONNINFO ROUNDS SEED DUTY      stops at any moment
 *
 * Exit status 1, with words on standard error, when a gain or a loss was told twice, not at all,
 * for an old generation, beside another, or from two threads. */
#include <dirent.h>
#include <inttypes.h>
#include <pgleader.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <libpq-fe.h>

struct party {
    const char *conninfo, *duty;
    int rounds;
    unsigned seed;
    struct pgleader *candidate;
    pthread_mutex_t mutex;
    int inside, gains, losses;
    int64_t generation, last;
    pthread_t thread, caller;
    bool has_caller, wrong;
};

static void complain(struct party *p, const char *what, int64_t generation)
{
    p->wrong = true;
    (void)fprintf(stderr, "%s: %s (generation %" PRId64 ")\n", p->duty, what, generation);
}

/* Callbacks come one at a time, from one thread. */
static void enter(struct party *p, int64_t generation)
{
    (void)pthread_mutex_lock(&p->mutex);
    if (p->inside++)
        complain(p, "two callbacks at once", generation);
    if (p->has_caller && !pthread_equal(p->caller, pthread_self()))
        complain(p, "callbacks from two threads", generation);
    p->caller = pthread_self();
    p->has_caller = true;
}

static void leave(struct party *p)
{
    p->inside--;
    (void)pthread_mutex_unlock(&p->mutex);
}

static void gained(void *context, int64_t generation)
{
    struct party *p = context;
    enter(p, generation);
    if (p->generation)
        complain(p, "gained before the loss of the last was told", generation);
    if (generation <= p->last)
        complain(p, "gained an old generation", generation);
    p->generation = p->last = generation;
    p->gains++;
    leave(p);
}

static void lost(void *context, int64_t generation, const char *rule)
{
    struct party *p = context;
    enter(p, generation);
    if (generation != p->generation)
        complain(p, rule, generation);
    if (pgleader_may_work(p->candidate, generation))
        complain(p, "may work although it is lost", generation);
    p->generation = 0;
    p->losses++;
    leave(p);
}

static bool start(struct party *p)
{
    struct pgleader_options options;
    struct pgleader_error error;
    pgleader_options_init(&options);
    options.conninfo = p->conninfo;
    options.duty = p->duty;
    options.instance = "terms";
    options.context = p;
    options.gained = gained;
    options.lost = lost;
    p->has_caller = false;
    p->candidate = pgleader_new(&options, &error);
    if (p->candidate && pgleader_start(p->candidate, &error))
        return true;
    (void)fprintf(stderr, "%s\n", error.message);
    p->wrong = true;
    return false;
}

static void finish(struct party *p)
{
    pgleader_free(p->candidate);
    p->candidate = NULL;
    if (p->gains != p->losses || p->generation)
        complain(p, "not every gain has its loss", p->generation);
}

static int open_descriptors(void)
{
    int n = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        n++;
    if (folder)
        (void)closedir(folder);
    return n;
}

static bool readable(const struct party *p, int timeout_ms)
{
    struct pollfd fd = {.fd = pgleader_abort_fd(p->candidate), .events = POLLIN};
    return poll(&fd, 1, timeout_ms) > 0;
}

/* Prints the descriptors after the tenth term and after the last. */
static void yields(struct party *p)
{
    int before = 0;
    for (int i = 0; i < p->rounds && !p->wrong; i++) {
        int64_t generation = pgleader_wait(p->candidate, 60000);
        if (!generation) {
            complain(p, "did not lead again", 0);
            return;
        }
        if (i == 10)
            before = open_descriptors();
        pgleader_yield(p->candidate, generation);
        if (!readable(p, 10000))
            complain(p, "not aborted by its yield", generation);
        pgleader_work_stopped(p->candidate, generation);
    }
    (void)printf("descriptors %d %d\n", before, open_descriptors());
}

/* Ends the session that holds the duty's lock, and says whether there was one. */
static void terminate(struct party *p, PGconn *admin)
{
    PGresult *result = PQexecParams(
        admin, "SELECT pg_terminate_backend(term_pid) FROM pgleader.duty WHERE duty = $1", 1, NULL,
        &p->duty, NULL, NULL, 0);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        complain(p, PQerrorMessage(admin), 0);
    PQclear(result);
}

static void end_somehow(struct party *p, PGconn *admin, int64_t generation)
{
    unsigned how = (unsigned)rand_r(&p->seed) % 5;
    if (how == 0 || how == 1)
        terminate(p, admin);
    if (how == 1 || how == 2)
        pgleader_yield(p->candidate, generation);
    if (how == 3) /* an old generation's is nothing */
        pgleader_work_stopped(p->candidate, generation - 1);
    if (how < 3 && !readable(p, 20000))
        complain(p, "not aborted", generation);
    if (how == 4)
        terminate(p, admin); /* and the work ends by itself meanwhile */
    pgleader_work_stopped(p->candidate, generation);
    pgleader_yield(p->candidate, generation); /* too late: nothing */
}

static void chaos(struct party *p)
{
    PGconn *admin = PQconnectdb(p->conninfo);
    for (int i = 0; i < p->rounds && !p->wrong; i++) {
        int64_t generation = pgleader_wait(p->candidate, 60000);
        if (!generation)
            complain(p, "did not lead again", 0);
        else
            end_somehow(p, admin, generation);
    }
    PQfinish(admin);
}

static void pause_us(unsigned us)
{
    const struct timespec pause = {.tv_nsec = (long)us * 1000};
    (void)nanosleep(&pause, NULL);
}

/* Somewhere between its start and its first term, or soon after that, by either road. */
static void stops(struct party *p)
{
    for (int i = 0; i < p->rounds && !p->wrong; i++) {
        if (i % 3 == 0)
            (void)pgleader_wait(p->candidate, 700);
        pause_us((unsigned)rand_r(&p->seed) % (i % 3 == 0 ? 2000 : 100000));
        if (i % 2) {
            int64_t generation = pgleader_wait(p->candidate, 0);
            pgleader_request_stop(p->candidate);
            pgleader_work_stopped(p->candidate, generation ? generation : p->last);
        }
        finish(p);
        if (p->wrong || !start(p))
            return;
    }
}

static void *run_chaos(void *argument)
{
    chaos(argument);
    return NULL;
}

static int all(struct party *parties, int n)
{
    bool wrong = false;
    int gains = 0;
    for (int i = 0; i < n; i++)
        (void)pthread_create(&parties[i].thread, NULL, run_chaos, &parties[i]);
    for (int i = 0; i < n; i++)
        (void)pthread_join(parties[i].thread, NULL);
    for (int i = 0; i < n; i++) {
        finish(&parties[i]);
        wrong = wrong || parties[i].wrong;
        gains += parties[i].gains;
    }
    (void)printf("terms %d\n", gains);
    return wrong;
}

static int one(struct party *p, void (*what)(struct party *))
{
    what(p);
    finish(p);
    (void)printf("terms %d\n", p->gains);
    return p->wrong;
}

int main(int argc, char **argv)
{
    enum { MOST = 4 };
    struct party parties[MOST] = {0};
    if (argc < 5)
        return 2;
    bool seeded = strcmp(argv[1], "yields") != 0;
    int first = seeded ? 5 : 4, n = argc - first < MOST ? argc - first : MOST;
    for (int i = 0; i < n; i++) {
        parties[i].conninfo = argv[2];
        parties[i].rounds = (int)strtol(argv[3], NULL, 10);
        parties[i].seed = seeded ? (unsigned)strtoul(argv[4], NULL, 10) + (unsigned)i : 0;
        parties[i].duty = argv[first + i];
        (void)pthread_mutex_init(&parties[i].mutex, NULL);
        if (!start(&parties[i]))
            return 1;
    }
    if (strcmp(argv[1], "chaos") == 0)
        return all(parties, n);
    return one(&parties[0], seeded ? stops : yields);
}
