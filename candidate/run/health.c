/* SPDX-License-Identifier: PostgreSQL */
/* libmicrohttpd without a thread of its own: its descriptor is polled by the candidate's loop.
 * Every connection has one answer and a time after which it is closed, however slowly it drips. */
#include "candidate/run/health.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <microhttpd.h>

#include "base/clock.h"
#include "base/listen.h"
#include "base/memory.h"

enum { VISITORS = 64, REQUEST_MAX = 4096 };

static const int64_t visit_within_us = 5 * SECOND_US;
static const int look_every_ms = 1000;

struct visitor {
    int fd; /* -1: none */
    int64_t since_us;
};

struct health {
    const struct health_state *state;
    struct listeners listeners;
    struct MHD_Daemon **daemons; /* one a socket */
    size_t n;
    int epoll_fd; /* of the daemons' */
    struct visitor visitors[VISITORS];
    int present;
};

static bool alive(const struct health_state *state)
{
    (void)state;
    return true;
}

static bool ready(const struct health_state *state)
{
    return state->ready;
}

static bool leading(const struct health_state *state)
{
    return state->leading;
}

static const struct route {
    const char *path;
    bool (*fine)(const struct health_state *state);
} routes[] = {{"/livez", alive}, {"/readyz", ready}, {"/leaderz", leading}};

static unsigned int status_of(const struct health_state *state, const char *method,
                              const char *path)
{
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (strcmp(path, routes[i].path) != 0)
            continue;
        if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
            return MHD_HTTP_METHOD_NOT_ALLOWED;
        return routes[i].fine(state) ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
    }
    return MHD_HTTP_NOT_FOUND;
}

static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **request)
{
    static const char not_found[] = "/livez, /readyz and /leaderz are here.\n";
    static int seen;
    const struct health *health = context;
    (void)version, (void)upload;
    if (!*request) { /* the header alone: an answer now would end the connection hard */
        *request = &seen;
        return MHD_YES;
    }
    if (*upload_size) {
        *upload_size = 0;
        return MHD_YES;
    }
    unsigned int status = status_of(health->state, method, path);
    bool known = status != MHD_HTTP_NOT_FOUND;
    const char *body = known ? health->state->line : not_found;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(body), (void *)body, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return MHD_NO;
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                  known ? "application/json" : "text/plain; charset=utf-8");
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

/* Where a visitor's descriptor stands, or a free place for -1; NULL where there is none. */
static struct visitor *find_visitor(struct health *health, int fd)
{
    for (size_t i = 0; i < VISITORS; i++) {
        if (health->visitors[i].fd == fd)
            return &health->visitors[i];
    }
    return NULL;
}

static void note_visitor(void *context, struct MHD_Connection *connection, void **unused,
                         enum MHD_ConnectionNotificationCode code)
{
    struct health *health = context;
    (void)unused;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    bool came = code == MHD_CONNECTION_NOTIFY_STARTED;
    struct visitor *visitor = info ? find_visitor(health, came ? -1 : info->connect_fd) : NULL;
    if (!visitor)
        return;
    *visitor = (struct visitor){came ? info->connect_fd : -1, clock_monotonic_us()};
    health->present += came ? 1 : -1;
}

static void send_slow_away(struct health *health)
{
    int64_t now = clock_monotonic_us();
    for (size_t i = 0; i < VISITORS && health->present; i++) {
        struct visitor *visitor = &health->visitors[i];
        if (visitor->fd >= 0 && now - visitor->since_us > visit_within_us)
            (void)shutdown(visitor->fd, SHUT_RDWR);
    }
}

/* The daemon owns the socket from here on. */
static bool serve_socket(struct health *health, int fd)
{
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, answer, health, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned int)(VISITORS / health->listeners.n),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_MAX, MHD_OPTION_NOTIFY_CONNECTION,
        note_visitor, health, MHD_OPTION_END);
    const union MHD_DaemonInfo *info =
        daemon ? MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    if (!daemon)
        return false;
    health->daemons[health->n++] = daemon;
    struct epoll_event event = {.events = EPOLLIN};
    return info && epoll_ctl(health->epoll_fd, EPOLL_CTL_ADD, info->epoll_fd, &event) == 0;
}

struct health *health_start(const char *address, const struct health_state *state,
                            struct error *err)
{
    struct health *health = xcalloc(1, sizeof *health);
    health->state = state;
    health->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (size_t i = 0; i < VISITORS; i++)
        health->visitors[i].fd = -1;
    bool ok = listeners_open(&address, 1, false, &health->listeners, NULL, err);
    health->daemons = xcalloc(health->listeners.n + 1, sizeof(struct MHD_Daemon *));
    for (size_t i = 0; ok && i < health->listeners.n; i++) {
        ok = serve_socket(health, health->listeners.fds[i]) ||
             error_set(err, ERROR_SYSTEM,
                       "could not serve health on \"%s\": the web server did not start", address);
    }
    if (ok)
        return health;
    health_stop(health);
    return NULL;
}

void health_stop(struct health *health)
{
    if (!health)
        return;
    for (size_t i = 0; i < health->n; i++) {
        MHD_stop_daemon(health->daemons[i]);
        health->listeners.fds[i] = -1; /* it closed it */
    }
    listeners_done(&health->listeners);
    free(health->daemons);
    (void)close(health->epoll_fd);
    free(health);
}

const char *health_names(const struct health *health)
{
    return health->listeners.names;
}

int health_fd(const struct health *health)
{
    return health ? health->epoll_fd : -1;
}

int health_wait_ms(const struct health *health)
{
    int wait_ms = health && health->present ? look_every_ms : -1;
    for (size_t i = 0; health && i < health->n; i++) {
        MHD_UNSIGNED_LONG_LONG left = 0; /* 0 where it has read more than it has served */
        if (MHD_get_timeout(health->daemons[i], &left) == MHD_YES && left < (unsigned)look_every_ms)
            wait_ms = wait_ms < 0 || (int)left < wait_ms ? (int)left : wait_ms;
    }
    return wait_ms;
}

void health_run(struct health *health)
{
    if (!health)
        return;
    send_slow_away(health);
    for (size_t i = 0; i < health->n; i++)
        (void)MHD_run(health->daemons[i]);
}
