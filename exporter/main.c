/* SPDX-License-Identifier: PostgreSQL */
/* pgleader_exporter: shows Prometheus who leads. It reads, and can write nothing. */
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/standard.h"
#include "exporter/metrics.h"
#include "exporter/service.h"
#include "exporter/web_settings.h"
#include "pg/conninfo.h"

/* Documented in --help and the README. */
enum exit_code { EXIT_CANNOT_SERVE = 1, EXIT_CONFIG = 2, EXIT_USAGE = 64 };

struct arguments {
    const char *config_file, *telemetry_path, *web_config, *log_level, *log_format;
    struct option_list listen;
    bool lifecycle, check_config, list_metrics, version, help;
};

static void print_help(const struct option_row *table)
{
    (void)puts(
        "Usage: pgleader_exporter [OPTION]... [CONNINFO]\n"
        "Shows Prometheus who leads each duty of a PostgreSQL server. It only reads.\n\n"
        "What to watch, the first that is given: CONNINFO (as libpq reads it), --config.file,\n"
        "DATA_SOURCE_NAME, DATA_SOURCE_URI with DATA_SOURCE_USER and DATA_SOURCE_PASS (each also "
        "with\n"
        "_FILE), the PG* variables.\n");
    option_print_help(table, stdout);
    (void)puts("\nSIGHUP reads the configuration again. Exit status: 0 stopped by SIGTERM or "
               "SIGINT, 1 could not\n"
               "serve, 2 bad configuration, 64 bad command line.");
}

static int fail(const struct error *err, int status)
{
    log_write(LOG_ERROR, err->message, "detail", err->detail, "hint", err->hint, NULL);
    return status;
}

static bool configure_log(const struct arguments *arguments, struct error *err)
{
    enum log_level level = LOG_INFO;
    enum log_format format = LOG_FORMAT_LOGFMT;
    if (!log_level_parse(arguments->log_level, &level))
        return error_set(err, ERROR_USAGE,
                         "could not read --log.level=%s: not debug, info, warn or error",
                         arguments->log_level);
    if (!log_format_parse(arguments->log_format, &format))
        return error_set(err, ERROR_USAGE, "could not read --log.format=%s: not logfmt or json",
                         arguments->log_format);
    log_configure(level, format);
    return true;
}

static bool check_arguments(const struct arguments *arguments, int n_operands, struct error *err)
{
    if (n_operands > 1)
        return error_set(err, ERROR_USAGE,
                         "could not read the command line: more than one CONNINFO; quote it");
    if (n_operands == 1 && arguments->config_file)
        return error_set(err, ERROR_USAGE,
                         "could not read the command line: CONNINFO and --config.file exclude "
                         "each other");
    if (arguments->telemetry_path[0] != '/' || arguments->telemetry_path[1] == '\0')
        return error_set(err, ERROR_USAGE,
                         "could not read --web.telemetry-path=%s: not a path such as /metrics",
                         arguments->telemetry_path);
    return configure_log(arguments, err);
}

/* As far as it can be judged without serving: also whether certificate and key belong together. */
static bool web_config_usable(const char *path, struct error *err)
{
    struct web_watch *watch = NULL;
    if (!path)
        return true;
    bool ok = web_watch_open(path, &watch, err);
    web_watch_free(watch);
    return ok;
}

/* Every mistake is said, on standard error, before the exit. */
static int run(const struct service_options *options, bool check_only)
{
    struct config *config = NULL;
    struct problems problems = {0};
    struct error err = {0};
    if (!service_read_config(options, &config, &problems)) {
        for (size_t i = 0; i < problems.n; i++)
            log_write(LOG_ERROR, problems.items[i], NULL);
        problems_done(&problems);
        return EXIT_CONFIG;
    }
    problems_done(&problems);
    if (check_only && !web_config_usable(options->http.web_config_path, &err)) {
        config_free(config);
        return fail(&err, EXIT_CONFIG);
    }
    if (check_only) {
        (void)printf("configuration is valid: %zu server%s\n", config->n_servers,
                     config->n_servers == 1 ? "" : "s");
        config_free(config);
        return EXIT_SUCCESS;
    }
    if (!service_run(options, config, &err))
        return fail(&err, err.kind == ERROR_CONFIG ? EXIT_CONFIG : EXIT_CANNOT_SERVE);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct arguments arguments = {
        .telemetry_path = "/metrics", .log_level = "info", .log_format = "logfmt"};
    const struct option_row table[] = {
        {"config.file", "FILE", "Servers and duties; see etc/pgleader.example.yml.", NULL,
         OPTION_STRING, &arguments.config_file},
        {"web.listen-address", "ADDRESS", "HOST:PORT or :PORT to serve on; repeatable.",
         "127.0.0.1:10187 and [::1]:10187", OPTION_LIST, &arguments.listen},
        {"web.telemetry-path", "PATH", "Where the metrics are.", "/metrics", OPTION_STRING,
         &arguments.telemetry_path},
        {"web.config.file", "FILE",
         "TLS and basic authentication, as the Prometheus exporter toolkit has it.", NULL,
         OPTION_STRING, &arguments.web_config},
        {"web.enable-lifecycle", NULL, "Serve POST /-/reload.", "off", OPTION_FLAG,
         &arguments.lifecycle},
        {"log.level", "LEVEL", "debug, info, warn or error.", "info", OPTION_STRING,
         &arguments.log_level},
        {"log.format", "FORMAT", "logfmt or json.", "logfmt", OPTION_STRING, &arguments.log_format},
        {"check-config", NULL, "Read the configuration, say what is wrong with it, and exit.", NULL,
         OPTION_FLAG, &arguments.check_config},
        {"list-metrics", NULL, "Print every metric family: name, type, labels, help; and exit.",
         NULL, OPTION_FLAG, &arguments.list_metrics},
        {"version", NULL, "Print the version and exit.", NULL, OPTION_FLAG, &arguments.version},
        {"help", NULL, "Print this and exit.", NULL, OPTION_FLAG, &arguments.help},
        {0},
    };
    struct error err = {0};
    int rest = argc;
    standard_files_open(O_RDWR);
    /* One heap for two threads, and large blocks go back to the system: the exporter stays small.
     */
    (void)mallopt(M_ARENA_MAX, 1);
    (void)mallopt(M_MMAP_THRESHOLD, 256 * 1024);
    if (!option_parse(table, argc, argv, &rest, &err))
        return fail(&err, EXIT_USAGE);
    if (arguments.help) {
        print_help(table);
        return EXIT_SUCCESS;
    }
    if (arguments.version) {
        (void)puts("pgleader_exporter " PGLEADER_VERSION);
        return EXIT_SUCCESS;
    }
    if (arguments.list_metrics) {
        metrics_list(stdout);
        return EXIT_SUCCESS;
    }
    if (!check_arguments(&arguments, argc - rest, &err))
        return fail(&err, EXIT_USAGE);
    char *conninfo = rest < argc ? xstrdup(argv[rest]) : NULL;
    if (conninfo)
        conninfo_hide_password(argv[rest]);
    const struct service_options options = {
        .config_path = arguments.config_file,
        .conninfo = conninfo,
        .http = {.listen_addresses = arguments.listen.items,
                 .n_listen_addresses = arguments.listen.n,
                 .telemetry_path = arguments.telemetry_path,
                 .web_config_path = arguments.web_config,
                 .lifecycle = arguments.lifecycle},
    };
    int status = run(&options, arguments.check_config);
    free(arguments.listen.items);
    free(conninfo);
    return status;
}
