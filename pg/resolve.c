/* SPDX-License-Identifier: PostgreSQL */
/* One thread a lookup; whoever is the last to need the answer frees it. */
#include "pg/resolve.h"

#include <netdb.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/memory.h"
#include "pg/thread.h"

struct resolve {
    atomic_int references; /* the caller's and the thread's */
    atomic_bool done;
    int event_fd;
    struct hosts asked, found;
    struct error error;
};

static void unref(struct resolve *resolve)
{
    if (atomic_fetch_sub(&resolve->references, 1) != 1)
        return;
    hosts_done(&resolve->asked);
    hosts_done(&resolve->found);
    close_fdp(&resolve->event_fd);
    free(resolve);
}

static void look_up(struct resolve *resolve, const struct host *host)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int status = getaddrinfo(host->name, NULL, &hints, &list);
    if (status != 0) {
        (void)error_set(&resolve->error, ERROR_CONNECT, "could not look up host \"%s\": %s",
                        host->name, gai_strerror(status));
        return;
    }
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        char text[NI_MAXHOST];
        if (getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST) == 0)
            hosts_add(&resolve->found, host->name, text, host->port);
    }
    freeaddrinfo(list);
}

static void *run(void *argument)
{
    struct resolve *resolve = argument;
    uint64_t one = 1;
    for (size_t i = 0; i < resolve->asked.n; i++) {
        const struct host *host = &resolve->asked.items[i];
        if (host_needs_lookup(host))
            look_up(resolve, host);
        else
            hosts_add(&resolve->found, host->name, host->address, host->port);
    }
    atomic_store(&resolve->done, true);
    (void)!write(resolve->event_fd, &one, sizeof one);
    unref(resolve);
    return NULL;
}

struct resolve *resolve_start(const struct hosts *hosts)
{
    struct resolve *resolve = xcalloc(1, sizeof *resolve);
    atomic_init(&resolve->references, 2);
    resolve->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    for (size_t i = 0; i < hosts->n; i++) {
        const struct host *host = &hosts->items[i];
        hosts_add(&resolve->asked, host->name, host->address, host->port);
    }
    if (resolve->event_fd >= 0 && thread_run_detached(run, resolve))
        return resolve;
    atomic_store(&resolve->references, 1);
    unref(resolve);
    return NULL;
}

int resolve_fd(const struct resolve *resolve)
{
    return resolve->event_fd;
}

bool resolve_is_done(const struct resolve *resolve)
{
    return atomic_load(&resolve->done);
}

bool resolve_take(const struct resolve *resolve, struct hosts *ret_hosts, struct error *err)
{
    if (resolve->found.n == 0) {
        *err = resolve->error;
        return false;
    }
    *ret_hosts = (struct hosts){0};
    for (size_t i = 0; i < resolve->found.n; i++) {
        const struct host *host = &resolve->found.items[i];
        hosts_add(ret_hosts, host->name, host->address, host->port);
    }
    return true;
}

void resolve_free(struct resolve *resolve)
{
    if (resolve)
        unref(resolve);
}
