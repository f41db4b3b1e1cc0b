/* SPDX-License-Identifier: PostgreSQL */
/* The table of routes, and what each of them says. */
#include "exporter/routes.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

#define PLAIN "text/plain; charset=utf-8"
#define READ "GET, HEAD"

struct routes {
    const struct http_options *options;
    const struct http_content *content;
    char *not_found;
};

typedef struct answer handler(const struct routes *routes, const struct request *request);

static struct answer say(unsigned int status, const char *text)
{
    return (struct answer){.status = status, .content_type = PLAIN, .text = text};
}

static struct answer serve_metrics(const struct routes *routes, const struct request *request)
{
    enum exposition_format format = negotiate_format(request->accept);
    bool gzip = negotiate_gzip(request->accept_encoding);
    struct body *body =
        routes->content->metrics(routes->content->context, request->target, format, gzip);
    if (!body)
        return say(404, "there is no server of that name in the configuration\n");
    return (struct answer){.status = 200,
                           .content_type = exposition_content_type(format),
                           .body = body,
                           .negotiated = true,
                           .gzip = gzip};
}

static struct answer handle_telemetry(const struct routes *routes, const struct request *request)
{
    struct request everything = *request;
    everything.target = NULL;
    return serve_metrics(routes, &everything);
}

static struct answer handle_probe(const struct routes *routes, const struct request *request)
{
    if (!request->target || !*request->target)
        return say(400, "the target is missing: /probe?target=NAME, the name of a server in the "
                        "configuration\n");
    return serve_metrics(routes, request);
}

static struct answer handle_page(const struct routes *routes, const struct request *request)
{
    (void)request;
    char *data = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&data, &size);
    if (out)
        routes->content->page(routes->content->context, out);
    if (!out || fclose(out) != 0)
        abort(); /* out of memory */
    return (struct answer){
        .status = 200, .content_type = "text/html; charset=utf-8", .body = body_new(data, size)};
}

static struct answer handle_healthy(const struct routes *routes, const struct request *request)
{
    (void)request;
    if (routes->content->healthy(routes->content->context))
        return say(200, "healthy\n");
    return say(503, "not healthy: the poller has not moved for 30 seconds\n");
}

static struct answer handle_ready(const struct routes *routes, const struct request *request)
{
    (void)request;
    if (routes->content->ready(routes->content->context))
        return say(200, "ready\n");
    return say(503, "not ready: not every server was tried yet\n");
}

static struct answer handle_reload(const struct routes *routes, const struct request *request)
{
    (void)request;
    routes->content->reload(routes->content->context);
    return say(200, "the configuration is being read again\n");
}

static const struct route {
    const char *path; /* NULL: the telemetry path */
    const char *methods;
    handler *handle;
    bool lifecycle; /* only where reloading over HTTP is switched on */
} table[] = {
    {NULL, READ, handle_telemetry, false},   {"/", READ, handle_page, false},
    {"/probe", READ, handle_probe, false},   {"/-/healthy", READ, handle_healthy, false},
    {"/-/ready", READ, handle_ready, false}, {"/-/reload", "POST", handle_reload, true},
};

/* Whether "GET, HEAD" names a method. */
static bool allows(const char *methods, const char *method)
{
    size_t length = strlen(method);
    for (const char *p = methods; *p; p += strspn(p, ", ")) {
        size_t word = strcspn(p, ",");
        if (word == length && memcmp(p, method, length) == 0)
            return true;
        p += word;
    }
    return false;
}

struct answer routes_answer(const struct routes *routes, const struct request *request)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct route *route = &table[i];
        const char *path = route->path ? route->path : routes->options->telemetry_path;
        if (!text_equal(path, request->path))
            continue;
        if (route->lifecycle && !routes->options->lifecycle)
            return say(404, "reloading over HTTP is not switched on (--web.enable-lifecycle); "
                            "SIGHUP reloads\n");
        if (allows(route->methods, request->method))
            return route->handle(routes, request);
        struct answer answer = say(405, "this method is not for this path\n");
        answer.allow = route->methods;
        return answer;
    }
    return say(404, routes->not_found);
}

struct routes *routes_new(const struct http_options *options, const struct http_content *content)
{
    struct routes *routes = xcalloc(1, sizeof *routes);
    routes->options = options;
    routes->content = content;
    routes->not_found =
        xasprintf("there is nothing here; the metrics are at %s\n", options->telemetry_path);
    return routes;
}

void routes_free(struct routes *routes)
{
    if (!routes)
        return;
    free(routes->not_found);
    free(routes);
}
