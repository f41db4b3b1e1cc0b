/* SPDX-License-Identifier: PostgreSQL */
/* Resolves and binds listen addresses. IPv4 and IPv6 have sockets of their own, so that what is
 * bound does not depend on net.ipv6.bindv6only. */
#include "base/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/memory.h"
#include "base/text.h"

static void freeaddrinfop(struct addrinfo **list)
{
    if (*list)
        freeaddrinfo(*list);
}

/* "[::1]:10187" -> "::1", "10187"; ":10187" -> "", "10187". Both are owned by the caller. */
static bool split_address(const char *address, char **ret_host, char **ret_port, struct error *err)
{
    const char *colon = strrchr(address, ':');
    int64_t port = -1;
    if (!colon || !text_to_int64(colon + 1, &port) || port < 0 || port > 65535)
        return error_set(err, ERROR_USAGE,
                         "could not listen on \"%s\": it is not HOST:PORT with a port up to 65535",
                         address);
    size_t length = (size_t)(colon - address);
    bool bracketed = length >= 2 && address[0] == '[' && address[length - 1] == ']';
    if (!bracketed && memchr(address, ':', length)) {
        error_set(err, ERROR_USAGE, "could not listen on \"%s\": too many colons", address);
        error_hint(err, "An IPv6 address stands in brackets: [::1]:10187.");
        return false;
    }
    *ret_host = strndup(address + bracketed, length - 2 * bracketed);
    *ret_port = xasprintf("%d", (int)port);
    if (!*ret_host)
        abort();
    return true;
}

/* Adds "127.0.0.1:10187" or "[::1]:10187", as the socket says itself. */
static void add_name(struct listeners *listeners, int fd)
{
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
    if (getsockname(fd, (struct sockaddr *)&bound, &size) == 0)
        (void)getnameinfo((struct sockaddr *)&bound, size, host, sizeof host, port, sizeof port,
                          NI_NUMERICHOST | NI_NUMERICSERV);
    bool ipv6 = strchr(host, ':') != NULL;
    char *old = listeners->names;
    listeners->names = xasprintf("%s%s%s%s%s:%s", old ? old : "", old ? " " : "", ipv6 ? "[" : "",
                                 host, ipv6 ? "]" : "", port);
    free(old);
}

/* One socket; errno says why it is -1. */
static int bind_one(const struct addrinfo *info)
{
    int on = 1;
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        (info->ai_family != AF_INET6 ||
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == 0) &&
        bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int saved = errno;
    (void)close(fd);
    errno = saved;
    return -1;
}

static bool listen_on(struct listeners *listeners, const char *address, struct error *err)
{
    CLEANUP(free_charp) char *host = NULL;
    CLEANUP(free_charp) char *port = NULL;
    CLEANUP(freeaddrinfop) struct addrinfo *list = NULL;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    if (!split_address(address, &host, &port, err))
        return false;
    int code = getaddrinfo(*host ? host : NULL, port, &hints, &list);
    if (code == EAI_SYSTEM)
        return error_set_errno(err, errno, "could not listen on \"%s\"", address);
    if (code != 0)
        return error_set(err, ERROR_SYSTEM, "could not listen on \"%s\": %s", address,
                         gai_strerror(code));
    int why = 0;
    size_t before = listeners->n;
    for (const struct addrinfo *info = list; info; info = info->ai_next) {
        int fd = bind_one(info);
        if (fd < 0) {
            why = why ? why : errno;
            continue;
        }
        listeners->fds = xreallocarray(listeners->fds, listeners->n + 1, sizeof *listeners->fds);
        listeners->fds[listeners->n++] = fd;
        add_name(listeners, fd);
    }
    if (listeners->n == before)
        return error_set_errno(err, why, "could not listen on \"%s\"", address);
    return true;
}

bool listeners_open(const char *const *addresses, int n, bool any, struct listeners *ret_listeners,
                    struct problems *warnings, struct error *err)
{
    struct listeners listeners = {0};
    struct error why;
    int failed = 0;
    for (int i = 0; i < n && (any || !failed); i++) {
        if (listen_on(&listeners, addresses[i], &why))
            continue;
        failed++;
        if (any)
            problems_add(warnings, "%s", why.message);
    }
    if (failed < n && (any || !failed)) {
        *ret_listeners = listeners;
        return true;
    }
    listeners_done(&listeners);
    if (err)
        *err = why;
    return false;
}

void listeners_done(struct listeners *listeners)
{
    for (size_t i = 0; i < listeners->n; i++)
        (void)close(listeners->fds[i]);
    free(listeners->fds);
    free(listeners->names);
    *listeners = (struct listeners){0};
}
