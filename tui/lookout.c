/* SPDX-License-Identifier: PostgreSQL */
/* The poller's loop, and its orders: under one mutex, with an eventfd each way. */
#include "tui/lookout.h"

#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/memory.h"
#include "observe/poller.h"

enum { STACK_SIZE = 1024 * 1024, IDLE_MOST = 1024 * 1024 };

struct orders {
    struct config *config; /* NULL: as before */
    bool hurry, end;
};

struct lookout {
    struct board *board;
    struct poller *poller; /* the thread's own */
    struct pollfd *fds;    /* the same; the first is for orders */
    uint64_t serial;       /* the same; of the board when it was last looked at */
    pthread_t thread;
    pthread_mutex_t mutex;
    struct orders orders; /* by the mutex */
    int ordered, news;    /* eventfds */
};

static void ring(int fd)
{
    uint64_t one = 1;
    (void)!write(fd, &one, sizeof one);
}

static void hush(int fd)
{
    uint64_t count = 0;
    (void)!read(fd, &count, sizeof count);
}

static void set_config(struct lookout *lookout, struct config *config)
{
    poller_set_config(lookout->poller, config);
    lookout->fds =
        xreallocarray(lookout->fds, poller_room(lookout->poller) + 1, sizeof *lookout->fds);
}

/* False: it is to end. */
static bool obey(struct lookout *lookout)
{
    (void)pthread_mutex_lock(&lookout->mutex);
    struct orders orders = lookout->orders;
    lookout->orders = (struct orders){.end = orders.end};
    (void)pthread_mutex_unlock(&lookout->mutex);
    if (orders.config)
        set_config(lookout, orders.config);
    if (orders.hurry)
        poller_hurry(lookout->poller);
    return !orders.end;
}

/* What the answer of thousands of rows took lies idle until the next one: it goes back. */
static void tidy(void)
{
    if (mallinfo2().fordblks > IDLE_MOST)
        (void)malloc_trim(0);
}

static void tell(struct lookout *lookout)
{
    struct picture picture;
    board_take(lookout->board, &picture);
    bool news = picture.serial != lookout->serial;
    lookout->serial = picture.serial;
    picture_done(&picture);
    if (!news)
        return;
    ring(lookout->news);
    tidy();
}

static void *run(void *argument)
{
    struct lookout *lookout = argument;
    while (obey(lookout)) {
        int timeout_ms = -1;
        size_t n = poller_prepare(lookout->poller, lookout->fds + 1, &timeout_ms);
        lookout->fds[0] = (struct pollfd){.fd = lookout->ordered, .events = POLLIN};
        if (poll(lookout->fds, (nfds_t)n + 1, timeout_ms) < 0)
            memset(lookout->fds, 0, (n + 1) * sizeof *lookout->fds); /* nobody is ready */
        if (lookout->fds[0].revents)
            hush(lookout->ordered);
        poller_step(lookout->poller, lookout->fds + 1, n);
        tell(lookout);
    }
    return NULL;
}

static bool start_thread(struct lookout *lookout, struct error *err)
{
    char buffer[128];
    pthread_attr_t attributes;
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, STACK_SIZE);
    int failed = pthread_create(&lookout->thread, &attributes, run, lookout);
    (void)pthread_attr_destroy(&attributes);
    return !failed || error_set(err, ERROR_SYSTEM, "could not start a thread: %s",
                                strerror_r(failed, buffer, sizeof buffer));
}

static void put_away(struct lookout *lookout)
{
    poller_free(lookout->poller);
    config_free(lookout->orders.config);
    (void)pthread_mutex_destroy(&lookout->mutex);
    (void)close(lookout->ordered);
    (void)close(lookout->news);
    free(lookout->fds);
    free(lookout);
}

struct lookout *lookout_new(struct board *board, struct config *config, struct error *err)
{
    static const struct poller_hooks hooks = {0};
    struct lookout *lookout = xcalloc(1, sizeof *lookout);
    lookout->board = board;
    lookout->ordered = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    lookout->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)pthread_mutex_init(&lookout->mutex, NULL);
    lookout->poller = poller_new(board, "pgleader", &hooks);
    set_config(lookout, config);
    if (start_thread(lookout, err))
        return lookout;
    put_away(lookout);
    return NULL;
}

void lookout_free(struct lookout *lookout)
{
    if (!lookout)
        return;
    (void)pthread_mutex_lock(&lookout->mutex);
    lookout->orders.end = true;
    (void)pthread_mutex_unlock(&lookout->mutex);
    ring(lookout->ordered);
    (void)pthread_join(lookout->thread, NULL);
    put_away(lookout);
}

int lookout_fd(const struct lookout *lookout)
{
    return lookout->news;
}

void lookout_seen(const struct lookout *lookout)
{
    hush(lookout->news);
}

void lookout_set_config(struct lookout *lookout, struct config *config)
{
    (void)pthread_mutex_lock(&lookout->mutex);
    struct config *unread = lookout->orders.config;
    lookout->orders.config = config;
    (void)pthread_mutex_unlock(&lookout->mutex);
    config_free(unread);
    ring(lookout->ordered);
}

void lookout_hurry(struct lookout *lookout)
{
    (void)pthread_mutex_lock(&lookout->mutex);
    lookout->orders.hurry = true;
    (void)pthread_mutex_unlock(&lookout->mutex);
    ring(lookout->ordered);
}
