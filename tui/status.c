/* SPDX-License-Identifier: PostgreSQL */
/* The command line of `pgleader status`, and its loop. */
#include "tui/status.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "observe/duties.h"
#include "tui/charset.h"
#include "tui/command.h"
#include "tui/servers.h"
#include "tui/status_look.h"
#include "tui/status_render.h"

struct arguments {
    struct server_options servers;
    struct option_list duties;
    bool json, csv, watch, help;
    int64_t interval_us, timeout_us;
};

static const char name[] = "status";

static void print_help(const struct option_row *table)
{
    (void)puts("Usage: pgleader status [OPTION]... [DUTY]... [CONNINFO]\n"
               "Shows who leads each duty, or each DUTY that is named.\n\n"
               "An operand with '=' or '://' in it is a CONNINFO (as libpq reads it); any other is "
               "a DUTY:\n"
               "NAMESPACE/NAME, or advisory/KEY for a lock that nobody has named.\n");
    option_print_help(table, stdout);
    (void)puts(
        "\nExit status: 0 all duties are led; 1 one is not (vacant, stalled, contested); 2 not all "
        "is\n"
        "known (a server is down, or a standby where a primary was expected, the ledger or a "
        "lease\n"
        "table could not be read, a DUTY is not known, the output could not be written), whatever\n"
        "else is; 64 bad command line. Locks that nobody has named count only if they are asked\n"
        "for. With --watch 0, once SIGINT or SIGTERM ends it or its reader has gone.");
}

static bool is_conninfo(const char *operand)
{
    return strchr(operand, '=') || strstr(operand, "://");
}

static bool is_duty(const char *operand)
{
    const char *slash = strchr(operand, '/');
    return slash && slash != operand && slash[1];
}

static bool take_operand(struct arguments *arguments, char *operand, struct error *err)
{
    if (is_conninfo(operand) && arguments->servers.conninfo)
        return error_set(err, ERROR_USAGE,
                         "could not read the command line: more than one CONNINFO; quote it");
    if (is_conninfo(operand)) {
        arguments->servers.conninfo = operand;
        return true;
    }
    if (!is_duty(operand)) {
        (void)error_set(err, ERROR_USAGE, "could not read \"%s\": neither a duty nor a CONNINFO",
                        operand);
        error_hint(err, "A duty is NAMESPACE/NAME or advisory/KEY; a database is dbname=NAME.");
        return false;
    }
    arguments->duties.items[arguments->duties.n++] = operand;
    return true;
}

static bool check(const struct arguments *arguments, struct error *err)
{
    if (arguments->json + arguments->csv + arguments->watch > 1)
        return error_set(err, ERROR_USAGE,
                         "could not read the command line: --json, --csv and --watch exclude each "
                         "other");
    if (arguments->interval_us < SECOND_US / 10 || arguments->timeout_us < SECOND_US / 10)
        return error_set(err, ERROR_USAGE,
                         "could not read the command line: --interval and --timeout are at least "
                         "100ms");
    return true;
}

/* Programs read UTF-8 whatever the locale; a terminal reads what its locale says. Widths are known
 * for all of Unicode in either case. */
static struct status_paper paper_of(FILE *out)
{
    struct status_paper paper = {.unicode = true};
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    struct winsize size = {0};
    if (isatty(fileno(out))) {
        charset_take();
        paper.unicode = text_equal(nl_langinfo(CODESET), "UTF-8");
        paper.width = ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
        paper.colour = !(no_color && *no_color) && term && !text_equal(term, "dumb");
    }
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    return paper;
}

/* One line on standard error; names in it are as hostile there as anywhere. */
static void say(const char *format, ...) PRINTF_LIKE(1, 2);

static void say(const char *format, ...)
{
    const struct status_paper paper = paper_of(stderr);
    va_list args;
    va_start(args, format);
    CLEANUP(free_charp) char *text = xvasprintf(format, args);
    va_end(args);
    status_words_print(&paper, text, stderr);
}

static void complain_of_server(const struct status_view *view, size_t server)
{
    const struct published *published = view->picture->servers[server];
    const struct section *failed = NULL;
    size_t position = 0;
    if (!status_snapshot(view, server)) {
        say("pgleader status: server \"%s\": %s", published->server, status_down_reason(published));
        return;
    }
    while ((failed = status_failed_section(published, &position)))
        say("pgleader status: server \"%s\": could not read %s: %s", published->server,
            failed->name, failed->message ? failed->message : "no answer");
}

/* What is wrong goes to standard error where standard output has no place for it. */
static void complain(const struct arguments *arguments, const struct status_view *view)
{
    for (size_t i = 0; i < view->picture->n && (arguments->json || arguments->csv); i++)
        complain_of_server(view, i);
    for (size_t i = 0; i < view->n_missing; i++) {
        const char *duty = view->missing[i];
        bool lock = strncmp(duty, DISCOVERED, strlen(DISCOVERED)) == 0;
        say("pgleader status: could not find duty \"%s\": no server that was read knows it", duty);
        say("hint: %s", lock ? "a lock that nobody has named is known only while it is held."
                             : "`pgleader status` without a DUTY lists those that are known.");
    }
}

/* Everything is written at once; false where it could not be, with errno. */
static bool write_picture(const struct arguments *arguments, const struct status_view *view,
                          bool again)
{
    CLEANUP(free_charp) char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    const struct status_paper paper = paper_of(stdout);
    if (!out)
        abort();
    if (again)
        (void)putc('\n', out);
    if (arguments->json)
        status_json_render(view, out);
    else if (arguments->csv)
        status_csv_render(view, out);
    else
        status_text_render(view, &paper, out);
    if (fclose(out) != 0)
        abort();
    return fwrite(text, 1, size, stdout) == size && fflush(stdout) == 0;
}

/* Shows what is known now. *ret_gone: the reader has gone, which is no mistake of anybody's. */
static enum status_verdict show(const struct arguments *arguments, struct status_look *look,
                                const struct config *config, bool again, bool *ret_gone)
{
    struct picture picture;
    struct status_view view;
    status_look_take(look, &picture);
    status_view_init(&view, &picture, config, &arguments->duties);
    enum status_verdict verdict = view.verdict;
    bool written = write_picture(arguments, &view, again);
    *ret_gone = !written;
    if (!written && errno != EPIPE) {
        (void)fprintf(stderr, "pgleader status: could not write: %s\n", strerror(errno));
        verdict = VERDICT_UNKNOWN;
    }
    if (written)
        complain(arguments, &view);
    status_view_done(&view);
    picture_done(&picture);
    return verdict;
}

/* The end of --watch as a descriptor. */
static int stop_signals(void)
{
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    return signalfd(-1, &signals, SFD_CLOEXEC);
}

static int watch(const struct arguments *arguments, struct status_look *look,
                 const struct config *config)
{
    CLEANUP(close_fdp) int stop_fd = stop_signals();
    int64_t due_us = clock_monotonic_us();
    bool gone = false, again = false;
    enum status_look_end end =
        status_look_wait(look, false, due_us + arguments->timeout_us, stop_fd);
    while (end != LOOK_STOPPED) {
        enum status_verdict verdict = show(arguments, look, config, again, &gone);
        if (gone)
            return errno == EPIPE ? VERDICT_LED : verdict;
        again = true;
        due_us = clock_monotonic_us() + arguments->interval_us;
        end = status_look_wait(look, true, due_us, stop_fd);
    }
    return VERDICT_LED;
}

/* Deadlines of the poller follow from its interval: two attempts have room within --timeout. */
static int64_t poll_interval_us(const struct arguments *arguments)
{
    int64_t most_us = arguments->watch ? 15 * SECOND_US : 5 * SECOND_US;
    int64_t us = arguments->watch ? arguments->interval_us : arguments->timeout_us / 4;
    int64_t least_us = arguments->watch ? SECOND_US / 10 : SECOND_US;
    return us < least_us ? least_us : us > most_us ? most_us : us;
}

static int look_and_show(const struct arguments *arguments)
{
    struct config *config = NULL;
    bool gone = false;
    if (!servers_read(&arguments->servers, name, &config))
        return arguments->servers.conninfo ? STATUS_USAGE : VERDICT_UNKNOWN;
    config->poll_interval_us = poll_interval_us(arguments);
    struct status_look *look = status_look_new(config);
    int status = VERDICT_LED;
    (void)signal(SIGPIPE, SIG_IGN);
    if (arguments->watch) {
        status = watch(arguments, look, config);
    } else {
        (void)status_look_wait(look, false, clock_monotonic_us() + arguments->timeout_us, -1);
        status = (int)show(arguments, look, config, false, &gone);
    }
    status_look_free(look);
    return status;
}

int status_run(int argc, char **argv)
{
    struct arguments arguments = {.interval_us = 2 * SECOND_US, .timeout_us = 5 * SECOND_US};
    const struct option_row table[] = {
        {"json", NULL, "One JSON document; runbook/status-json.md names each field.", NULL,
         OPTION_FLAG, &arguments.json},
        {"csv", NULL, "One line a duty, as RFC 4180 has it, after a header.", NULL, OPTION_FLAG,
         &arguments.csv},
        {"watch", NULL, "The text again and again, for any terminal and none.", NULL, OPTION_FLAG,
         &arguments.watch},
        {"interval", "DURATION", "Between two pictures of --watch.", "2s", OPTION_DURATION,
         &arguments.interval_us},
        {"timeout", "DURATION", "How long to wait for servers that do not answer.", "5s",
         OPTION_DURATION, &arguments.timeout_us},
        SERVER_OPTIONS(&arguments.servers),
        {"help", NULL, "Print this and exit.", NULL, OPTION_FLAG, &arguments.help},
        {0},
    };
    struct error err = {0};
    int rest = argc;
    if (!option_parse(table, argc, argv, &rest, &err))
        return command_fail(name, &err, STATUS_USAGE);
    if (arguments.help) {
        print_help(table);
        return EXIT_SUCCESS;
    }
    arguments.duties.items = xcalloc((size_t)argc, sizeof *arguments.duties.items);
    bool ok = true;
    for (; rest < argc && ok; rest++)
        ok = take_operand(&arguments, argv[rest], &err);
    int status = ok && check(&arguments, &err) ? look_and_show(&arguments)
                                               : command_fail(name, &err, STATUS_USAGE);
    free(arguments.duties.items);
    free(arguments.servers.only.items);
    return status;
}
