/* SPDX-License-Identifier: PostgreSQL */
/* libpgleader's candidate as its callers see it: states, waiting, requests. What the thread does is
 * in library_thread.c. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "candidate/library_cancel.h"
#include "candidate/library_candidate.h"

const char *pgleader_version(void)
{
    return PGLEADER_VERSION;
}

static void destroy(struct pgleader *p)
{
    lead_free(p->lead);
    cancels_free(p->cancels);
    (void)close(p->wake_fd);
    (void)close(p->abort_fd);
    (void)pthread_cond_destroy(&p->changed);
    (void)pthread_mutex_destroy(&p->mutex);
    library_setup_done(&p->setup);
    free(p);
}

static void init_waiting(struct pgleader *p)
{
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&p->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    (void)pthread_mutex_init(&p->mutex, NULL);
}

static bool open_fds(struct pgleader *p, struct error *err)
{
    p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    p->abort_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK); /* nothing may work yet */
    return (p->wake_fd >= 0 && p->abort_fd >= 0) ||
           error_set_errno(err, errno, "could not make a candidate");
}

struct pgleader *pgleader_new(const struct pgleader_options *options, struct pgleader_error *err)
{
    struct error why = {0};
    struct library_setup setup;
    if (!library_setup_make(options, &setup, &why)) {
        (void)library_error(err, &why);
        return NULL;
    }
    struct pgleader *p = xcalloc(1, sizeof *p);
    p->setup = setup;
    p->owner = getpid();
    p->cancels = cancels_new();
    init_waiting(p);
    library_thread_prepare(p);
    if (open_fds(p, &why))
        p->lead = lead_new(&p->setup.lead, &why);
    if (p->lead)
        return p;
    (void)library_error(err, &why);
    destroy(p);
    return NULL;
}

/* In a forked child there is no candidate: its thread is not there, and its socket is the parent's.
 */
static bool forked(const struct pgleader *p)
{
    return p->owner != getpid();
}

bool pgleader_start(struct pgleader *p, struct pgleader_error *err)
{
    struct error why = {0};
    sigset_t all, before;
    if (p->started || forked(p))
        return library_refuse(err, PGLEADER_ERROR_USAGE,
                              p->started ? "could not start the candidate: it was started before"
                                         : "could not start the candidate: this process is a fork");
    (void)sigfillset(&all);
    static const int of_the_thread[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGPROF};
    for (size_t i = 0; i < sizeof of_the_thread / sizeof *of_the_thread; i++)
        (void)sigdelset(&all, of_the_thread[i]);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    p->started = true;
    int failed = pthread_create(&p->thread, NULL, library_thread, p);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    p->started = failed == 0;
    if (!failed)
        return true;
    (void)error_set_errno(&why, failed, "could not start the candidate");
    return library_error(err, &why);
}

/* Only what a signal handler may do. */
static void wake(const struct pgleader *p)
{
    static const uint64_t one = 1;
    int saved = errno;
    (void)!write(p->wake_fd, &one, sizeof one);
    errno = saved;
}

void pgleader_request_stop(struct pgleader *p)
{
    if (forked(p))
        return;
    atomic_store(&p->stop, true);
    wake(p);
}

/* Waits until done(p) under the mutex; false when the time is over. */
static bool wait_until(struct pgleader *p, bool (*done)(const struct pgleader *), int timeout_ms)
{
    int late = 0;
    int64_t end_us = clock_monotonic_us() + (int64_t)timeout_ms * 1000;
    const struct timespec end = {.tv_sec = (time_t)(end_us / SECOND_US),
                                 .tv_nsec = (long)(end_us % SECOND_US) * 1000};
    bool wait = timeout_ms != 0 && !library_in_thread(p);
    while (wait && !done(p) && late == 0)
        late = timeout_ms < 0 ? pthread_cond_wait(&p->changed, &p->mutex)
                              : pthread_cond_timedwait(&p->changed, &p->mutex, &end);
    return done(p);
}

static bool has_ended(const struct pgleader *p)
{
    return p->state == PGLEADER_STATE_ENDED;
}

static bool leads_or_ended(const struct pgleader *p)
{
    return has_ended(p) || (p->generation && !p->losing && !p->stopped);
}

bool pgleader_stop(struct pgleader *p, int timeout_ms)
{
    if (forked(p))
        return false;
    pgleader_request_stop(p);
    if (!p->started)
        return true;
    (void)pthread_mutex_lock(&p->mutex);
    bool ended = wait_until(p, has_ended, timeout_ms);
    (void)pthread_mutex_unlock(&p->mutex);
    return ended;
}

int64_t pgleader_wait(struct pgleader *p, int timeout_ms)
{
    if (forked(p))
        return 0;
    (void)pthread_mutex_lock(&p->mutex);
    bool leads = wait_until(p, leads_or_ended, timeout_ms) && !has_ended(p);
    int64_t generation = leads ? p->generation : 0;
    (void)pthread_mutex_unlock(&p->mutex);
    return generation;
}

void pgleader_free(struct pgleader *p)
{
    if (!p || forked(p) || library_in_thread(p))
        return;
    if (p->started) {
        atomic_store(&p->abandoned, true);
        pgleader_request_stop(p);
        (void)pthread_join(p->thread, NULL);
    }
    destroy(p);
}

enum pgleader_state pgleader_state(const struct pgleader *p)
{
    return forked(p) ? PGLEADER_STATE_ENDED : (enum pgleader_state)atomic_load(&p->state);
}

const char *pgleader_state_name(enum pgleader_state state)
{
    static const char *const names[] = {
        [PGLEADER_STATE_FOLLOWER] = "follower",   [PGLEADER_STATE_ACQUIRING] = "acquiring",
        [PGLEADER_STATE_LEADER] = "leader",       [PGLEADER_STATE_YIELDING] = "yielding",
        [PGLEADER_STATE_UNCERTAIN] = "uncertain", [PGLEADER_STATE_ENDED] = "ended",
    };
    return (unsigned)state < sizeof names / sizeof *names ? names[state] : "unknown";
}

int64_t pgleader_generation(const struct pgleader *p)
{
    return forked(p) ? 0 : atomic_load(&p->term);
}

/* The deadline is of that term: it is written before its term is, and a term never comes twice. */
bool pgleader_may_work(const struct pgleader *p, int64_t generation)
{
    if (generation == 0 || atomic_load(&p->term) != generation || forked(p))
        return false;
    int64_t deadline_us = atomic_load(&p->deadline_us);
    return clock_boottime_us() < deadline_us && atomic_load(&p->term) == generation;
}

enum pgleader_code pgleader_ended(const struct pgleader *p, struct pgleader_error *err)
{
    if (forked(p) || atomic_load(&p->state) != PGLEADER_STATE_ENDED)
        return PGLEADER_OK;
    if (p->end_error.code != PGLEADER_OK && err)
        *err = p->end_error;
    return p->end_error.code;
}

void pgleader_yield(struct pgleader *p, int64_t generation)
{
    if (generation == 0 || pgleader_generation(p) != generation)
        return;
    atomic_store(&p->yield, generation);
    wake(p);
}

void pgleader_work_stopped(struct pgleader *p, int64_t generation)
{
    if (generation == 0 || forked(p))
        return;
    (void)pthread_mutex_lock(&p->mutex);
    if (p->generation == generation)
        p->stopped = true;
    (void)pthread_mutex_unlock(&p->mutex);
    wake(p);
}

int pgleader_abort_fd(const struct pgleader *p)
{
    return p->abort_fd;
}

bool pgleader_cancel_on_loss(struct pgleader *p, int64_t generation, PGconn *conn,
                             struct pgleader_error *err)
{
    static const char stale[] = "could not register a connection: its generation does not lead";
    if (generation == 0 || pgleader_generation(p) != generation)
        return library_refuse(err, PGLEADER_ERROR_STALE, stale);
    if (!cancels_add(p->cancels, conn, generation))
        return library_refuse(err, PGLEADER_ERROR_USAGE,
                              "could not register a connection: it is not there");
    if (pgleader_generation(p) == generation)
        return true;
    pgleader_no_cancel(p, conn); /* lost while it was registered: nobody may have seen it */
    return library_refuse(err, PGLEADER_ERROR_STALE, stale);
}

void pgleader_no_cancel(struct pgleader *p, const PGconn *conn)
{
    if (!forked(p))
        cancels_remove(p->cancels, conn, p->setup.lead.timing.kill_after_us);
}
