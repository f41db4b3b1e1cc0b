/* SPDX-License-Identifier: PostgreSQL */
/* The web server: libmicrohttpd's one thread serves, a door lets connections in and out, and
 * passwords are judged elsewhere. */
#include "exporter/http.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <microhttpd.h>

#include "base/listen.h"
#include "base/memory.h"
#include "exporter/auth.h"
#include "exporter/door.h"
#include "exporter/routes.h"
#include "exporter/web_settings.h"

enum {
    VISITORS_MAX = 4096,
    FILES_BESIDE = 1024,    /* for everything that is not a connection of the web server */
    HEADER_MAX = 32 * 1024, /* a request's line and headers, and our own headers */
    UPLOAD_MAX = 64 * 1024, /* is read and thrown away; nothing here wants a body */
};

struct http_server {
    struct http_options options;
    struct http_content content;
    struct listeners listeners;
    struct routes *routes;
    struct web_watch *watch; /* NULL without a web configuration */
    struct auth *auth;       /* the same */
    struct MHD_Daemon *daemon;
    struct door *door;
};

struct connection {
    struct visitor visitor;
    struct auth_waiter waiter;
    struct MHD_Connection *mhd;
    struct web_settings *settings; /* those that its TLS session uses, or NULL */
    uint64_t origin;               /* the client's address */
    size_t uploaded;
    bool asked; /* for the verdict on this request's credentials, which is in waiter */
};

static void free_body(void *body)
{
    body_unref(body);
}

static bool add_headers(struct MHD_Response *response, const struct answer *answer,
                        const struct web_settings *settings)
{
    const struct web_header headers[] = {
        {MHD_HTTP_HEADER_CONTENT_TYPE, answer->content_type},
        {MHD_HTTP_HEADER_CONTENT_ENCODING, answer->gzip ? "gzip" : NULL},
        {MHD_HTTP_HEADER_VARY, answer->negotiated ? "Accept, Accept-Encoding" : NULL},
        {MHD_HTTP_HEADER_ALLOW, answer->allow},
        {MHD_HTTP_HEADER_WWW_AUTHENTICATE,
         answer->status == 401 ? "Basic realm=\"pgleader\", charset=\"UTF-8\"" : NULL},
        {MHD_HTTP_HEADER_RETRY_AFTER, answer->status == 429 ? "1" : NULL},
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        if (headers[i].value &&
            MHD_add_response_header(response, headers[i].name, headers[i].value) != MHD_YES)
            return false;
    }
    for (size_t i = 0; settings && i < settings->config->n_headers; i++) {
        const struct web_header *header = &settings->config->headers[i];
        if (MHD_add_response_header(response, header->name, header->value) != MHD_YES)
            return false;
    }
    return true;
}

/* Sends it; the reference to its body is used up. MHD_NO closes the connection. */
static enum MHD_Result send_answer(struct connection *connection, const struct answer *answer,
                                   const struct web_settings *settings)
{
    struct MHD_Response *response =
        answer->body ? MHD_create_response_from_buffer_with_free_callback_cls(
                           answer->body->size, answer->body->data, free_body, answer->body)
                     : MHD_create_response_from_buffer(strlen(answer->text), (void *)answer->text,
                                                       MHD_RESPMEM_PERSISTENT);
    if (!response) {
        body_unref(answer->body);
        return MHD_NO;
    }
    enum MHD_Result result = MHD_NO;
    if (add_headers(response, answer, settings))
        result = MHD_queue_response(connection->mhd, answer->status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_text(struct connection *connection, unsigned int status,
                                 const char *text, const struct web_settings *settings)
{
    struct answer answer = {
        .status = status, .content_type = "text/plain; charset=utf-8", .text = text};
    return send_answer(connection, &answer, settings);
}

static const char *header_of(struct MHD_Connection *mhd, const char *name)
{
    return MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, name);
}

static enum MHD_Result serve(struct http_server *server, struct connection *connection,
                             const char *url, const char *method,
                             const struct web_settings *settings)
{
    struct MHD_Connection *mhd = connection->mhd;
    struct request request = {
        .method = method,
        .path = url,
        .accept = header_of(mhd, MHD_HTTP_HEADER_ACCEPT),
        .accept_encoding = header_of(mhd, MHD_HTTP_HEADER_ACCEPT_ENCODING),
        .target = MHD_lookup_connection_value(mhd, MHD_GET_ARGUMENT_KIND, "target"),
    };
    struct answer answer = routes_answer(server->routes, &request);
    return send_answer(connection, &answer, settings);
}

/* Parks a request that has to wait for its verdict, and takes it up again. */
static void park(struct auth_waiter *waiter)
{
    struct connection *connection =
        (struct connection *)((char *)waiter - offsetof(struct connection, waiter));
    MHD_suspend_connection(connection->mhd);
}

static void wake(struct auth_waiter *waiter)
{
    struct connection *connection =
        (struct connection *)((char *)waiter - offsetof(struct connection, waiter));
    MHD_resume_connection(connection->mhd);
}

static enum auth_verdict verdict_on(struct http_server *server, struct connection *connection,
                                    const struct web_settings *settings)
{
    if (!settings || settings->config->n_users == 0)
        return AUTH_GRANTED;
    if (connection->asked)
        return connection->waiter.verdict;
    connection->asked = true;
    return auth_check(server->auth, settings->config,
                      header_of(connection->mhd, MHD_HTTP_HEADER_AUTHORIZATION), connection->origin,
                      &connection->waiter);
}

/* A whole request is there. */
static enum MHD_Result handle_request(struct http_server *server, struct connection *connection,
                                      const char *url, const char *method)
{
    CLEANUP(web_settings_unrefp)
    struct web_settings *settings = server->watch ? web_watch_current(server->watch) : NULL;
    switch (verdict_on(server, connection, settings)) {
    case AUTH_GRANTED:
        return serve(server, connection, url, method, settings);
    case AUTH_REFUSED:
        return send_text(connection, 401, "unauthorized\n", settings);
    case AUTH_BUSY:
        return send_text(connection, 429, "too many passwords are being checked; try again\n",
                         settings);
    case AUTH_UNDECIDED:
        break;
    }
    return MHD_YES;
}

static struct connection *connection_of(struct MHD_Connection *mhd)
{
    return MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* Whether a body of that announced length is not even begun to be read. */
static bool too_long(struct MHD_Connection *mhd)
{
    const char *length = header_of(mhd, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return length && strtoull(length, NULL, 10) > UPLOAD_MAX;
}

/* libmicrohttpd calls it once for the header, once for each piece of the body, and once when all of
 * it is there; and for the last time again when a parked request is taken up. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *mhd, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **state)
{
    (void)version, (void)upload;
    struct connection *connection = connection_of(mhd);
    if (!*state) {
        *state = connection;
        connection->uploaded = 0;
        connection->asked = false;
        door_move(&connection->visitor, VISIT_REQUEST);
        if (too_long(mhd))
            return send_text(connection, 413, "nothing here takes a body of that size\n", NULL);
        return MHD_YES;
    }
    if (*upload_size > 0) {
        connection->uploaded += *upload_size;
        *upload_size = 0;
        return connection->uploaded <= UPLOAD_MAX ? MHD_YES : MHD_NO;
    }
    return handle_request(context, connection, url, method);
}

/* A path or a value ends where its bytes end: "/%00x" is not "/". */
static size_t unescape(void *context, struct MHD_Connection *mhd, char *text)
{
    (void)context, (void)mhd;
    size_t size = MHD_http_unescape(text);
    for (char *nul = memchr(text, '\0', size); nul;
         nul = memchr(nul, '\0', size - (size_t)(nul - text)))
        *nul = '\x01';
    return size;
}

static void on_completed(void *context, struct MHD_Connection *mhd, void **state,
                         enum MHD_RequestTerminationCode code)
{
    (void)context, (void)code;
    *state = NULL;
    door_move(&connection_of(mhd)->visitor, VISIT_IDLE);
}

/* An IPv4 address, or the network of an IPv6 address that one client can choose its own from. */
static uint64_t origin_of(const struct sockaddr *address)
{
    uint64_t origin = 0;
    if (address->sa_family == AF_INET)
        memcpy(&origin, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
    else if (address->sa_family == AF_INET6)
        memcpy(&origin, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 8);
    return origin;
}

static void begin_connection(struct http_server *server, struct MHD_Connection *mhd,
                             void **ret_context)
{
    struct connection *connection = xcalloc(1, sizeof *connection);
    int fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    connection->mhd = mhd;
    connection->origin =
        origin_of(MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr);
    door_enter(server->door, &connection->visitor, fd);
    *ret_context = connection;
    const union MHD_ConnectionInfo *session =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (!session || !session->tls_session)
        return;
    connection->settings = web_watch_current(server->watch);
    if (!tls_attach(connection->settings->tls, session->tls_session))
        (void)shutdown(fd, SHUT_RDWR);
}

static void on_connection(void *context, struct MHD_Connection *mhd, void **connection_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        begin_connection(server, mhd, connection_context);
        return;
    }
    struct connection *connection = *connection_context;
    door_leave(server->door, &connection->visitor);
    web_settings_unref(connection->settings);
    free(connection);
}

static bool admit(void *context, int fd, const struct sockaddr *address, socklen_t size)
{
    struct http_server *server = context;
    return MHD_add_connection(server->daemon, fd, address, size) == MHD_YES;
}

static void look_at_files(void *context)
{
    struct http_server *server = context;
    struct error err;
    if (!server->watch || !web_watch_check(server->watch, &err) || !server->options.warn)
        return;
    CLEANUP(free_charp)
    char *text = xasprintf("%s%s%s; keeping the last settings", err.message,
                           err.detail[0] ? "; " : "", err.detail);
    server->options.warn(server->options.warn_context, text);
}

/* How many connections fit: as many as we want where the limit of open files lets us. */
static size_t visitors_allowed(void)
{
    struct rlimit files;
    const rlim_t wanted = VISITORS_MAX + FILES_BESIDE;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return VISITORS_MAX / 16;
    if (files.rlim_cur < wanted) {
        struct rlimit more = {files.rlim_max < wanted ? files.rlim_max : wanted, files.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &more) == 0)
            files = more;
    }
    return files.rlim_cur < wanted ? files.rlim_cur / 2 : VISITORS_MAX;
}

static bool start_daemon(struct http_server *server, size_t visitors, struct error *err)
{
    bool tls = false;
    if (server->watch) {
        CLEANUP(web_settings_unrefp)
        struct web_settings *settings = web_watch_current(server->watch);
        tls = settings->tls != NULL;
    }
    /* The library's own limit is never reached: the door is stricter. */
    const struct MHD_OptionItem options[] = {
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)visitors * 2, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, HEADER_MAX, NULL},
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)unescape, NULL},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, server},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, server},
        {tls ? MHD_OPTION_HTTPS_CERT_CALLBACK : MHD_OPTION_END, 0, tls_no_certificate()},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned int flags = MHD_USE_AUTO_INTERNAL_THREAD | MHD_USE_ITC | MHD_USE_NO_LISTEN_SOCKET |
                         MHD_ALLOW_SUSPEND_RESUME | (tls ? MHD_USE_TLS : 0);
    server->daemon = MHD_start_daemon(flags, 0, NULL, NULL, on_request, server, MHD_OPTION_ARRAY,
                                      options, MHD_OPTION_END);
    return server->daemon || error_set_errno(err, errno, "could not start the web server");
}

/* The defaults together: one of them is enough. */
static bool listen_as_told(struct http_server *server, struct problems *warnings, struct error *err)
{
    static const char *const defaults[] = {"127.0.0.1:10187", "[::1]:10187"};
    const struct http_options *options = &server->options;
    bool told = options->n_listen_addresses > 0;
    return listeners_open(told ? options->listen_addresses : defaults,
                          told ? options->n_listen_addresses : 2, !told, &server->listeners,
                          warnings, err);
}

static bool start(struct http_server *server, struct problems *warnings, struct error *err)
{
    const struct http_options *options = &server->options;
    const size_t visitors = visitors_allowed();
    const struct door_callbacks callbacks = {.context = server,
                                             .admit = admit,
                                             .tick = look_at_files,
                                             .ticks = options->web_config_path};
    if (options->telemetry_path[0] != '/')
        return error_set(err, ERROR_USAGE, "could not serve at \"%s\": a path begins with /",
                         options->telemetry_path);
    if (options->web_config_path &&
        (!web_watch_open(options->web_config_path, &server->watch, err) ||
         !(server->auth = auth_new(park, wake, err))))
        return false;
    server->routes = routes_new(options, &server->content);
    if (!listen_as_told(server, warnings, err))
        return false;
    server->door = door_new(&server->listeners, visitors, &callbacks);
    return start_daemon(server, visitors, err) && door_open(server->door, err);
}

struct http_server *http_start(const struct http_options *options,
                               const struct http_content *content, struct problems *warnings,
                               struct error *err)
{
    sigset_t all, before;
    struct http_server *server = xcalloc(1, sizeof *server);
    server->options = *options;
    server->content = *content;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* the threads inherit it */
    bool started = start(server, warnings, err);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        return server;
    http_stop(server);
    return NULL;
}

/* Nobody new comes in; those who are parked are let go, which the library insists on; then the
 * connections there are end, and only then what they stand on. */
void http_stop(struct http_server *server)
{
    if (!server)
        return;
    if (server->door)
        door_shut(server->door);
    if (server->auth)
        auth_stop(server->auth);
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    door_free(server->door);
    auth_free(server->auth);
    web_watch_free(server->watch);
    routes_free(server->routes);
    listeners_done(&server->listeners);
    free(server);
}

const char *http_addresses(const struct http_server *server)
{
    return server->listeners.names;
}
