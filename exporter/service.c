/* SPDX-License-Identifier: PostgreSQL */
/* One loop: poll(2) on signals, reload requests and the servers' sessions. The web server has its
 * own thread. */
#include "exporter/service.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/notify.h"
#include "exporter/exposition.h"
#include "exporter/page.h"
#include "observe/poller.h"

enum { FD_SIGNAL, FD_RELOAD, FD_FIXED };

static const int64_t unhealthy_after_us = 30 * SECOND_US;
static const int64_t status_every_us = 5 * SECOND_US;

struct service {
    const struct service_options *options;
    struct board *board;
    struct poller *poller;
    struct exposition *exposition;
    struct http_server *http;
    struct pollfd *fds;
    int signal_fd, reload_fd;
    _Atomic int64_t tick_us; /* CLOCK_MONOTONIC of the loop's last round */
    int64_t watchdog_us, status_us;
    bool stopping;
};

bool service_read_config(const struct service_options *options, struct config **ret_config,
                         struct problems *problems)
{
    if (options->config_path)
        return config_load(options->config_path, ret_config, problems);
    return config_from_conninfo(options->conninfo, ret_config, problems);
}

/* What the poller tells, as log lines. */

static void log_connected(void *context, const char *server, bool direct, const char *version)
{
    (void)context;
    log_write(LOG_INFO, "connected", "server", server, "version", version, "pooler",
              direct ? "" : "yes", NULL);
}

static void log_failed(void *context, const char *server, const struct error *err)
{
    (void)context;
    log_write(LOG_WARN, err->message, "server", server, "kind", error_kind_name(err->kind),
              "sqlstate", err->sqlstate, "detail", err->detail, "hint", err->hint, NULL);
}

static void log_section(void *context, const char *server, const struct section *section)
{
    (void)context;
    if (section->up)
        log_write(LOG_INFO, "section is readable again", "server", server, "section", section->name,
                  NULL);
    else
        log_write(LOG_WARN, section->message, "server", server, "section", section->name,
                  "sqlstate", section->sqlstate, NULL);
}

static void log_event(void *context, const char *server, const struct event *event)
{
    char pid[16] = "", took[64] = "";
    (void)context;
    if (event->pid > 0)
        (void)snprintf(pid, sizeof pid, "%" PRId32, event->pid);
    if (event->rule == RULE_TAKEOVER && event->upper_us < 0)
        (void)snprintf(took, sizeof took, "%.3f s or more", (double)event->lower_us / SECOND_US);
    else if (event->rule == RULE_TAKEOVER)
        (void)snprintf(took, sizeof took, "%.3f to %.3f s", (double)event->lower_us / SECOND_US,
                       (double)event->upper_us / SECOND_US);
    log_write(LOG_INFO, rules[event->rule].sentence, "server", server, "duty", event->duty, "rule",
              rules[event->rule].id, "holder", event->holder, "pid", pid, "took", took, NULL);
}

static void log_problems(const struct problems *problems, enum log_level level)
{
    for (size_t i = 0; i < problems->n; i++)
        log_write(level, problems->items[i], NULL);
}

static void log_web_warning(void *context, const char *text)
{
    (void)context;
    log_write(LOG_WARN, text, NULL);
}

/* What the web server serves; all of it on its thread. */

static struct body *content_metrics(void *context, const char *target,
                                    enum exposition_format format, bool gzip)
{
    struct service *service = context;
    return exposition_get(service->exposition, target, format, gzip);
}

static void content_page(void *context, FILE *out)
{
    struct service *service = context;
    struct picture picture;
    board_take(service->board, &picture);
    page_render(&picture, service->options->http.telemetry_path, out);
    picture_done(&picture);
}

static bool content_healthy(void *context)
{
    struct service *service = context;
    return clock_monotonic_us() - atomic_load(&service->tick_us) < unhealthy_after_us;
}

static bool content_ready(void *context)
{
    struct service *service = context;
    struct picture picture;
    bool ready = true;
    board_take(service->board, &picture);
    for (size_t i = 0; i < picture.n; i++)
        ready = ready && picture.servers[i]->stats.tried;
    picture_done(&picture);
    return ready;
}

static void content_reload(void *context)
{
    struct service *service = context;
    uint64_t one = 1;
    (void)!write(service->reload_fd, &one, sizeof one);
}

/* Validates, then swaps: a bad file keeps what runs. */
static void reload(struct service *service)
{
    struct config *config = NULL;
    struct problems problems = {0};
    notify_reloading();
    bool ok = service_read_config(service->options, &config, &problems);
    if (ok) {
        poller_set_config(service->poller, config);
        free(service->fds);
        service->fds = xcalloc(FD_FIXED + poller_room(service->poller), sizeof *service->fds);
        log_write(LOG_INFO, "configuration reloaded", NULL);
    } else {
        log_problems(&problems, LOG_ERROR);
        log_write(LOG_ERROR, "could not reload the configuration, keeping the last one", NULL);
    }
    problems_done(&problems);
    board_set_reload(service->board, ok, clock_realtime_us());
    notify_ready();
}

static void take_signals(struct service *service)
{
    struct signalfd_siginfo info;
    while (read(service->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGHUP)
            reload(service);
        else
            service->stopping = true;
    }
}

static void take_reload_requests(struct service *service)
{
    uint64_t count = 0;
    if (read(service->reload_fd, &count, sizeof count) == (ssize_t)sizeof count)
        reload(service);
}

static void tell_systemd(struct service *service, int64_t now)
{
    int64_t watchdog = notify_watchdog_interval_us();
    if (watchdog > 0 && now - service->watchdog_us >= watchdog) {
        notify_watchdog();
        service->watchdog_us = now;
    }
    if (now - service->status_us < status_every_us)
        return;
    struct picture picture;
    size_t up = 0;
    board_take(service->board, &picture);
    for (size_t i = 0; i < picture.n; i++)
        up += picture.fresh[i];
    notify_status("%zu of %zu servers up, serving on %s", up, picture.n,
                  http_addresses(service->http));
    picture_done(&picture);
    service->status_us = now;
}

static void loop(struct service *service)
{
    while (!service->stopping) {
        int timeout_ms = 0;
        int64_t now = clock_monotonic_us();
        atomic_store(&service->tick_us, now);
        tell_systemd(service, now);
        service->fds[FD_SIGNAL] = (struct pollfd){.fd = service->signal_fd, .events = POLLIN};
        service->fds[FD_RELOAD] = (struct pollfd){.fd = service->reload_fd, .events = POLLIN};
        size_t n = poller_prepare(service->poller, service->fds + FD_FIXED, &timeout_ms);
        if (poll(service->fds, (nfds_t)(FD_FIXED + n), timeout_ms) < 0)
            continue; /* EINTR, or no memory for a moment: the next round sees */
        poller_step(service->poller, service->fds + FD_FIXED, n);
        if (service->fds[FD_SIGNAL].revents)
            take_signals(service);
        if (service->fds[FD_RELOAD].revents)
            take_reload_requests(service);
    }
}

static bool open_fds(struct service *service, struct error *err)
{
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL); /* before any thread begins */
    (void)signal(SIGPIPE, SIG_IGN);
    service->signal_fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
    service->reload_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (service->signal_fd < 0 || service->reload_fd < 0)
        return error_set_errno(err, errno, "could not open a descriptor for signals");
    return true;
}

static bool start_http(struct service *service, struct error *err)
{
    const struct http_content content = {
        .context = service,
        .metrics = content_metrics,
        .page = content_page,
        .healthy = content_healthy,
        .ready = content_ready,
        .reload = content_reload,
    };
    struct http_options options = service->options->http;
    struct problems warnings = {0};
    options.warn = log_web_warning;
    service->http = http_start(&options, &content, &warnings, err);
    log_problems(&warnings, LOG_WARN);
    problems_done(&warnings);
    return service->http != NULL;
}

static void service_done(struct service *service)
{
    http_stop(service->http);
    poller_free(service->poller);
    exposition_free(service->exposition);
    board_free(service->board);
    free(service->fds);
    if (service->signal_fd >= 0)
        (void)close(service->signal_fd);
    if (service->reload_fd >= 0)
        (void)close(service->reload_fd);
}

bool service_run(const struct service_options *options, struct config *config, struct error *err)
{
    static const struct poller_hooks hooks = {.connected = log_connected,
                                              .failed = log_failed,
                                              .section = log_section,
                                              .event = log_event};
    struct service service = {.options = options, .signal_fd = -1, .reload_fd = -1};
    service.board = board_new();
    service.exposition = exposition_new(service.board);
    service.poller = poller_new(service.board, "pgleader_exporter", &hooks);
    poller_set_config(service.poller, config);
    board_set_reload(service.board, true, clock_realtime_us());
    service.fds = xcalloc(FD_FIXED + poller_room(service.poller), sizeof *service.fds);
    atomic_store(&service.tick_us, clock_monotonic_us());
    bool ok = open_fds(&service, err) && start_http(&service, err);
    if (ok) {
        log_write(LOG_INFO, "serving", "addresses", http_addresses(service.http), "version",
                  PGLEADER_VERSION, NULL);
        notify_ready();
        loop(&service);
        log_write(LOG_INFO, "stopping", NULL);
        notify_stopping();
    }
    service_done(&service);
    return ok;
}
