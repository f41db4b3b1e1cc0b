/* SPDX-License-Identifier: PostgreSQL */
/* The command line of `pgleader yield`, its question on a terminal, and its loop. */
#include "tui/yield_command.h"

#include <locale.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "tui/command.h"
#include "tui/harmless.h"
#include "tui/yield.h"
#include "tui/yield_find.h"
#include "tui/yield_log.h"
#include "tui/yield_show.h"

enum { STATUS_RETURNED = 10, STATUS_VACANT, STATUS_NOT_CONFIRMED, STATUS_REFUSED, STATUS_UNKNOWN };
enum { TYPED_SIZE = 512 };

static const char name[] = "yield";
static const int64_t answer_within_us = MINUTE_US;

struct arguments {
    struct server_options servers;
    struct option_list override;
    const char *duty, *reason, *confirm;
    int64_t grace_us, wait_us;
    uint32_t overrides;
    bool dry_run, json, help;
};

struct dialog {
    const struct arguments *arguments;
    struct yield *yield;
    const struct yield_view *view;
    bool begun;  /* the first picture was dealt with */
    bool asking; /* a person is typing */
    bool shown;  /* a dry run has all it wants */
    int64_t until_us;
    int stop_fd;
};

static void print_help(const struct option_row *table)
{
    (void)puts("Usage: pgleader yield [OPTION]... DUTY --reason=TEXT [CONNINFO]\n"
               "Moves the leadership of DUTY away from who leads it now: asks the leader if it "
               "listens, and ends\nits session if it does not, or does not yield in time.\n\n"
               "On a terminal it asks for a confirmation; elsewhere --confirm is required. "
               "--dry-run --json\nprints the text as `confirm`.\n");
    option_print_help(table, stdout);
    (void)puts(
        "\nGuards that --override may name: no-successor, cool-down, pooled, audit.\n"
        "Exit status: 0 moved; 10 the same instance won again; 11 vacant; 12 not confirmed "
        "(asked or\nsignalled, still held); 13 refused by a guard, or cancelled: nothing was "
        "sent; 14 sent, or maybe\nsent, outcome unknown; 64 bad command line; 69 server "
        "unavailable and 77 no permission, both only\nif nothing was sent. With --dry-run 0 "
        "it would send, 13 it would refuse.");
}

static bool take_overrides(struct arguments *arguments, struct error *err)
{
    for (int i = 0; i < arguments->override.n; i++) {
        enum guard_id id = guard_find_overridable(arguments->override.items[i]);
        if (id == GUARDS) {
            (void)error_set(err, ERROR_USAGE,
                            "could not override \"%s\": that cannot be overridden",
                            arguments->override.items[i]);
            error_hint(err, "Only no-successor, cool-down, pooled and audit can.");
            return false;
        }
        arguments->overrides |= 1U << id;
    }
    return true;
}

static bool is_blank(const char *text)
{
    return !text || text[strspn(text, " \t\r\n")] == '\0';
}

static bool check(const struct arguments *arguments, struct error *err)
{
    bool terminal = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    if (!arguments->duty)
        return error_set(err, ERROR_USAGE, "could not yield: no DUTY is named");
    if (arguments->grace_us > HOUR_US)
        return error_set(err, ERROR_USAGE, "could not yield: --grace is at most 1h");
    if (arguments->wait_us > DAY_US)
        return error_set(err, ERROR_USAGE, "could not yield: --wait is at most 24h");
    if (arguments->dry_run)
        return true;
    if (is_blank(arguments->reason) || strlen(arguments->reason) > 1000)
        return error_set(err, ERROR_USAGE,
                         "could not yield: --reason is required, at most 1000 bytes");
    if (arguments->confirm || terminal)
        return true;
    (void)error_set(err, ERROR_USAGE,
                    "could not yield: --confirm is required where there is no terminal");
    error_hint(err, "`pgleader yield DUTY --dry-run --json` prints it as `confirm`.");
    return false;
}

static bool take_operands(struct arguments *arguments, int n, char **operands, struct error *err)
{
    if (n > 2)
        return error_set(err, ERROR_USAGE,
                         "could not read \"%s\": one DUTY and one CONNINFO at "
                         "most",
                         operands[2]);
    arguments->duty = n > 0 ? operands[0] : NULL;
    arguments->servers.conninfo = n > 1 ? operands[1] : NULL;
    return take_overrides(arguments, err) && check(arguments, err);
}

/* The local log takes what no ledger does; a person sees each step. */
static void on_step(void *context, const struct yield_step *step)
{
    const struct dialog *dialog = context;
    const struct yield_target *target = dialog->view ? dialog->view->target : NULL;
    if (target && step->audit && dialog->view->intent < 0)
        yield_log(target, dialog->arguments->reason, step->sentence);
    if (dialog->arguments->json)
        return;
    (void)printf("%8.3f s  ", (double)step->after_us / SECOND_US);
    print_harmless(stdout, step->sentence);
    (void)putchar('\n');
    (void)fflush(stdout);
}

static void ask(struct dialog *dialog)
{
    struct arena *arena = arena_new();
    const char *token = yield_token(dialog->view->target, arena);
    (void)tcflush(STDIN_FILENO, TCIFLUSH);
    yield_show_question(dialog->view, stderr);
    (void)fputs("Type \"", stderr);
    print_harmless(stderr, dialog->view->target->duty);
    (void)fprintf(stderr, " %s\" to confirm, within 60 s; Ctrl-C cancels: ", token ? token : "");
    (void)fflush(stderr);
    dialog->asking = true;
    dialog->until_us = clock_monotonic_us() + answer_within_us;
    arena_free(arena);
}

/* The first picture: a dry run is content, a person is asked. */
static void begin(struct dialog *dialog)
{
    bool privilege = false;
    dialog->begun = true;
    if (dialog->arguments->dry_run)
        dialog->shown = true;
    else if (guards_failed(&dialog->view->guards, &privilege))
        yield_refuse(dialog->yield);
    else
        ask(dialog);
}

static void hear(struct dialog *dialog)
{
    char typed[TYPED_SIZE] = "";
    ssize_t size = read(STDIN_FILENO, typed, sizeof typed - 1);
    dialog->asking = false;
    if (size <= 0) {
        yield_cancel(dialog->yield);
        return;
    }
    typed[strcspn(typed, "\r\n")] = '\0';
    yield_confirm(dialog->yield, typed, NULL);
}

/* What was frozen is over: there is nothing left to confirm. */
static void watch_question(struct dialog *dialog)
{
    bool unread = !dialog->view->facts || dialog->view->facts->ledger_unread;
    if (dialog->view->phase != PHASE_ASKING)
        return;
    if (!unread && guards_changed(&dialog->view->guards)) {
        (void)fputs("\nWhat is above has changed meanwhile.\n", stderr);
        dialog->asking = false;
        yield_refuse(dialog->yield);
    } else if (clock_monotonic_us() >= dialog->until_us) {
        (void)fputs("\nNo answer.\n", stderr);
        dialog->asking = false;
        yield_cancel(dialog->yield);
    }
}

static int timeout_ms(const struct dialog *dialog)
{
    int64_t due = yield_due_us(dialog->yield);
    if (dialog->asking && dialog->until_us < due)
        due = dialog->until_us;
    int64_t left = due - clock_monotonic_us();
    return left <= 0 ? 0 : (int)((left + 999) / 1000);
}

static void drive(struct dialog *dialog)
{
    while (dialog->view->phase != PHASE_DONE && !dialog->shown) {
        struct pollfd fds[3] = {
            [1] = {.fd = dialog->asking ? STDIN_FILENO : -1, .events = POLLIN},
            [2] = {.fd = dialog->stop_fd, .events = POLLIN},
        };
        yield_wants(dialog->yield, &fds[0]);
        if (poll(fds, 3, timeout_ms(dialog)) < 0)
            continue;
        if (fds[2].revents) {
            struct signalfd_siginfo taken;
            (void)!read(dialog->stop_fd, &taken, sizeof taken);
            dialog->asking = false;
            yield_cancel(dialog->yield);
            continue;
        }
        yield_step(dialog->yield, fds[0].revents != 0);
        if (dialog->view->phase == PHASE_ASKING && !dialog->begun)
            begin(dialog);
        else if (dialog->asking && fds[1].revents)
            hear(dialog);
        else if (dialog->asking)
            watch_question(dialog);
    }
}

static int status_of(const struct dialog *dialog)
{
    static const int outcomes[YIELD_OUTCOMES] = {
        [YIELD_MOVED] = EXIT_SUCCESS,     [YIELD_RETURNED] = STATUS_RETURNED,
        [YIELD_VACANT] = STATUS_VACANT,   [YIELD_NOT_CONFIRMED] = STATUS_NOT_CONFIRMED,
        [YIELD_UNKNOWN] = STATUS_UNKNOWN, [YIELD_REFUSED] = STATUS_REFUSED,
    };
    bool privilege = false;
    if (dialog->shown)
        return guards_failed(&dialog->view->guards, &privilege) ? STATUS_REFUSED : EXIT_SUCCESS;
    switch (dialog->view->end) {
    case END_OUTCOME:
        return outcomes[dialog->view->outcome];
    case END_UNAVAILABLE:
        return STATUS_UNAVAILABLE;
    case END_NO_PERMISSION:
        return STATUS_NO_PERMISSION;
    case END_REFUSED:
    case END_CANCELLED:
        break;
    }
    return STATUS_REFUSED;
}

/* A refusal says what to do about each guard; an outcome, what becomes of the worker. */
static void explain(const struct dialog *dialog)
{
    const struct yield_view *view = dialog->view;
    struct arena *arena = arena_new();
    for (int i = 0; i < GUARDS && view->end != END_OUTCOME && view->end != END_CANCELLED; i++) {
        const struct guard *row = &view->guards.rows[i];
        if (row->state != GUARD_FAILED || !view->asked)
            continue;
        (void)fprintf(stderr, "guard %s: ", guard_code(row->id));
        print_harmless(stderr, row->sentence);
        (void)fputs("\nhint: ", stderr);
        print_harmless(stderr, row->remedy);
        (void)putc('\n', stderr);
    }
    if (view->end == END_OUTCOME) {
        (void)fputs("worker: ", stdout);
        print_harmless(stdout, yield_fate_sentence(view->target, view->asked, arena));
        (void)putchar('\n');
    }
    arena_free(arena);
}

static int report(const struct dialog *dialog)
{
    int status = status_of(dialog);
    if (dialog->arguments->json)
        yield_show_json(dialog->view, dialog->shown, status, stdout);
    else if (dialog->shown)
        yield_show_question(dialog->view, stdout);
    else
        explain(dialog);
    if (dialog->view->end == END_UNAVAILABLE && !dialog->shown) {
        (void)fprintf(stderr, "pgleader %s: ", name);
        print_harmless(stderr, dialog->view->sentence);
        (void)putc('\n', stderr);
    }
    if (fflush(stdout) != 0)
        (void)fputs("pgleader yield: could not write the result\n", stderr);
    return status;
}

static int stop_signals(void)
{
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGHUP);
    (void)sigaddset(&signals, SIGQUIT);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    return signalfd(-1, &signals, SFD_CLOEXEC);
}

static int yield_duty(const struct arguments *arguments)
{
    struct yield_place place;
    struct dialog dialog = {.arguments = arguments, .stop_fd = -1};
    int status = yield_find(&arguments->servers, arguments->duty, &place);
    if (status == 0) {
        struct pg_session *session = STEAL(place.session);
        const struct yield_order order = {
            .server = place.server,
            .snapshot = place.snapshot,
            .duty = place.duty,
            .reason = arguments->reason,
            .confirm = arguments->confirm,
            .confirmed = arguments->confirm && !arguments->dry_run,
            .session = session,
            .overrides = arguments->overrides,
            .grace_us = arguments->grace_us,
            .wait_us = arguments->wait_us,
            .context = &dialog,
            .step = on_step,
        };
        (void)signal(SIGPIPE, SIG_IGN);
        dialog.stop_fd = stop_signals();
        dialog.yield = yield_new(&order);
        dialog.view = yield_look(dialog.yield);
        drive(&dialog);
        status = report(&dialog);
        yield_free(dialog.yield);
        (void)close(dialog.stop_fd);
    }
    yield_place_done(&place);
    return status;
}

int yield_run(int argc, char **argv)
{
    struct arguments arguments = {.grace_us = 10 * SECOND_US, .wait_us = 30 * SECOND_US};
    const struct option_row table[] = {
        {"reason", "TEXT", "Why, for the audit.", NULL, OPTION_STRING, &arguments.reason},
        {"confirm", "\"DUTY TOKEN\"",
         "The typed confirmation. TOKEN is the generation, or pid:PID@BACKEND_START without one.",
         NULL, OPTION_STRING, &arguments.confirm},
        {"grace", "TIME", "How long a leader that listens may take to yield by itself.", "10s",
         OPTION_DURATION, &arguments.grace_us},
        {"wait", "TIME", "How long to watch for a successor.", "30s", OPTION_DURATION,
         &arguments.wait_us},
        {"override", "CODE", "Pass over that guard; repeatable.", NULL, OPTION_LIST,
         &arguments.override},
        {"dry-run", NULL, "Run every guard and send nothing.", NULL, OPTION_FLAG,
         &arguments.dry_run},
        {"json", NULL, "One JSON object on standard output; runbook/yield.md documents it.", NULL,
         OPTION_FLAG, &arguments.json},
        SERVER_OPTIONS(&arguments.servers),
        {"help", NULL, "This text.", NULL, OPTION_FLAG, &arguments.help},
        {0},
    };
    struct error err = {0};
    int rest = 0, status = STATUS_USAGE;
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    bool read = option_parse(table, argc, argv, &rest, &err);
    if (read && arguments.help) {
        print_help(table);
        status = EXIT_SUCCESS;
    } else if (read && take_operands(&arguments, argc - rest, argv + rest, &err)) {
        status = yield_duty(&arguments);
    } else {
        status = command_fail(name, &err, STATUS_USAGE);
    }
    free(arguments.override.items);
    free(arguments.servers.only.items);
    return status;
}
