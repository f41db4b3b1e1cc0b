/* SPDX-License-Identifier: PostgreSQL */
/* Accepts connections and watches over their deadlines. The HTTP library's own timeout counts from
 * the last byte, so that a client which sends one byte a second would stay for hours; and at its
 * own limit it turns the newcomer away, so that idle connections would lock a scraper out. */
#include "exporter/door.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/memory.h"

enum { ACCEPTS_A_ROUND = 64, TICK_MS = 1000, PAUSE_MS = 20 };

static const int64_t time_for[] = {
    [VISIT_NEW] = 10 * SECOND_US,
    [VISIT_REQUEST] = 60 * SECOND_US,
    [VISIT_IDLE] = 45 * SECOND_US, /* scrapers at 15 s and 30 s keep their connection */
};

struct door {
    const struct listeners *listeners;
    struct door_callbacks callbacks;
    size_t max_visitors;
    pthread_t thread;
    bool open; /* the thread is there */
    int wake_fd;
    int64_t next_tick_us;
    pthread_mutex_t mutex; /* guards what follows; a visitor leaves under it, so that its fd is open
                              while the mutex is held */
    size_t n;              /* admitted and not yet left */
    size_t n_listed;       /* entered and not yet sent away */
    struct visitor *first, *last; /* those who have entered, in that order */
};

static void unlist(struct door *door, struct visitor *visitor)
{
    *(visitor->prev ? &visitor->prev->next : &door->first) = visitor->next;
    *(visitor->next ? &visitor->next->prev : &door->last) = visitor->prev;
    visitor->listed = false;
    door->n_listed--;
}

/* The web server's thread sees the end of the stream and closes. */
static void send_away(struct door *door, struct visitor *visitor)
{
    unlist(door, visitor);
    (void)shutdown(visitor->fd, SHUT_RDWR);
}

static void send_away_late(struct door *door, int64_t now_us)
{
    pthread_mutex_lock(&door->mutex);
    for (struct visitor *visitor = door->first, *next; visitor; visitor = next) {
        next = visitor->next;
        if (atomic_load_explicit(&visitor->deadline_us, memory_order_relaxed) <= now_us)
            send_away(door, visitor);
    }
    pthread_mutex_unlock(&door->mutex);
}

/* The longest there of those that never asked for anything, else of those that wait for their next
 * request. */
static void send_away_one(struct door *door)
{
    struct visitor *idle = NULL;
    for (struct visitor *visitor = door->first; visitor; visitor = visitor->next) {
        enum visit visit = atomic_load_explicit(&visitor->visit, memory_order_relaxed);
        if (visit == VISIT_NEW) {
            send_away(door, visitor);
            return;
        }
        if (visit == VISIT_IDLE && !idle)
            idle = visitor;
    }
    if (idle)
        send_away(door, idle);
}

/* False when so many are on their way in and out that they are to be waited for. */
static bool has_room(struct door *door)
{
    pthread_mutex_lock(&door->mutex);
    bool room = door->n < door->max_visitors + door->max_visitors / 4;
    pthread_mutex_unlock(&door->mutex);
    return room;
}

/* Counts one more in, for whom another is sent away if need be. */
static void count_in(struct door *door)
{
    pthread_mutex_lock(&door->mutex);
    if (++door->n > door->max_visitors)
        send_away_one(door);
    pthread_mutex_unlock(&door->mutex);
}

static void count_out(struct door *door)
{
    pthread_mutex_lock(&door->mutex);
    door->n--;
    pthread_mutex_unlock(&door->mutex);
}

static void make_room(struct door *door)
{
    pthread_mutex_lock(&door->mutex);
    send_away_one(door);
    pthread_mutex_unlock(&door->mutex);
}

static void tick(struct door *door)
{
    int64_t now_us = clock_monotonic_us();
    if (now_us < door->next_tick_us)
        return;
    door->next_tick_us = now_us + TICK_MS * INT64_C(1000);
    send_away_late(door, now_us);
    door->callbacks.tick(door->callbacks.context);
}

static void take_in(struct door *door, int fd, const struct sockaddr *address, socklen_t size)
{
    count_in(door);
    if (!door->callbacks.admit(door->callbacks.context, fd, address, size))
        count_out(door);
}

/* Takes in who waits at one socket. False when there is no room, or no file descriptor left. */
static bool accept_some(struct door *door, int listener)
{
    for (int i = 0; i < ACCEPTS_A_ROUND; i++) {
        struct sockaddr_storage address;
        socklen_t size = sizeof address;
        if (!has_room(door))
            return false;
        int fd =
            accept4(listener, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            take_in(door, fd, (struct sockaddr *)&address, size);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            make_room(door);
            return false;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return true;
        }
        /* anything else is the fate of that one connection: accept(2), "Error handling" */
    }
    return true;
}

static bool someone_is_in(struct door *door)
{
    pthread_mutex_lock(&door->mutex);
    bool yes = door->n > 0;
    pthread_mutex_unlock(&door->mutex);
    return yes;
}

/* While nobody can be taken in the sockets stay readable: they are not looked at for a moment, or
 * this would spin. */
static void *door_main(void *argument)
{
    struct door *door = argument;
    size_t n = door->listeners->n;
    struct pollfd *fds = xcalloc(n + 1, sizeof *fds);
    bool pausing = false;
    fds[0] = (struct pollfd){.fd = door->wake_fd, .events = POLLIN};
    for (size_t i = 0; i < n; i++)
        fds[i + 1] = (struct pollfd){.fd = door->listeners->fds[i], .events = POLLIN};
    for (;;) {
        bool ticks = door->callbacks.ticks || someone_is_in(door);
        int timeout_ms = pausing ? PAUSE_MS : ticks ? TICK_MS : -1;
        int ready = poll(fds, pausing ? 1 : n + 1, timeout_ms);
        if (ready > 0 && fds[0].revents)
            break;
        tick(door);
        pausing = false;
        for (size_t i = 0; i < n && ready > 0; i++)
            pausing |= fds[i + 1].revents && !accept_some(door, fds[i + 1].fd);
    }
    free(fds);
    return NULL;
}

struct door *door_new(const struct listeners *listeners, size_t max_visitors,
                      const struct door_callbacks *callbacks)
{
    struct door *door = xcalloc(1, sizeof *door);
    door->listeners = listeners;
    door->callbacks = *callbacks;
    door->max_visitors = max_visitors;
    door->wake_fd = -1;
    pthread_mutex_init(&door->mutex, NULL);
    return door;
}

bool door_open(struct door *door, struct error *err)
{
    door->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int why = door->wake_fd < 0 ? errno : pthread_create(&door->thread, NULL, door_main, door);
    if (why != 0)
        return error_set_errno(err, why, "could not start the web server's thread");
    (void)pthread_setname_np(door->thread, "web-door");
    door->open = true;
    return true;
}

void door_shut(struct door *door)
{
    if (!door->open)
        return;
    (void)eventfd_write(door->wake_fd, 1);
    (void)pthread_join(door->thread, NULL);
    door->open = false;
}

void door_free(struct door *door)
{
    if (!door)
        return;
    close_fdp(&door->wake_fd);
    pthread_mutex_destroy(&door->mutex);
    free(door);
}

/* Who was counted in while nobody had entered yet could not send anyone away: that is made up for
 * here, or the newcomers would wait for a deadline of those who came before them. */
void door_enter(struct door *door, struct visitor *visitor, int fd)
{
    visitor->fd = fd;
    visitor->listed = true;
    visitor->next = NULL;
    door_move(visitor, VISIT_NEW);
    pthread_mutex_lock(&door->mutex);
    visitor->prev = door->last;
    *(door->last ? &door->last->next : &door->first) = visitor;
    door->last = visitor;
    if (++door->n_listed > door->max_visitors)
        send_away_one(door);
    pthread_mutex_unlock(&door->mutex);
}

void door_move(struct visitor *visitor, enum visit visit)
{
    atomic_store_explicit(&visitor->deadline_us, clock_monotonic_us() + time_for[visit],
                          memory_order_relaxed);
    atomic_store_explicit(&visitor->visit, visit, memory_order_relaxed);
}

void door_leave(struct door *door, struct visitor *visitor)
{
    pthread_mutex_lock(&door->mutex);
    if (visitor->listed)
        unlist(door, visitor);
    door->n--;
    pthread_mutex_unlock(&door->mutex);
}
