/* SPDX-License-Identifier: PostgreSQL */
/* Nothing here waits but poll(2), and servers are another thread's: whatever they do, keys are
 * answered. */
#include "tui/app.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <time.h>

#include "base/memory.h"
#include "pg/conninfo.h"
#include "tui/command.h"
#include "tui/copy.h"
#include "tui/lookout.h"
#include "tui/screen.h"
#include "tui/term.h"
#include "tui/yielding.h"

enum { FD_KEYBOARD, FD_SIGNALS, FD_SCREEN, FD_YIELD, FD_NEWS, FD_COUNT };
enum { LONGEST_WAIT_MS = 1000 }; /* by then a picture that was fresh may be old */

struct app {
    const struct app_options *options;
    struct board *board;
    struct lookout *lookout;
    struct journal journal;
    int64_t *journaled_us; /* for each server: the good poll whose events are in the journal */
    struct picture picture;
    struct ui ui;
    struct yielding *yielding;
    char **connects; /* for each server, what psql connects by */
    size_t n_connects;
    struct terminal *term;
    struct grid *drawn; /* what the terminal shows; NULL: nothing of ours */
    int signals;
    int64_t due_us; /* when the screen changes by itself */
    bool dirty;
    bool ending;
    int status;
};

static void end(struct app *app, int status)
{
    app->ending = true;
    app->status = status;
}

/* Blocked before any thread is started, so that only the loop sees them. */
static int open_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT};
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        (void)sigaddset(&set, numbers[i]);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void note_events(struct app *app, const struct picture *picture)
{
    for (size_t i = 0; i < picture->n; i++) {
        const struct published *published = picture->servers[i];
        if (!published->snapshot || published->success_monotonic_us <= app->journaled_us[i])
            continue;
        app->journaled_us[i] = published->success_monotonic_us;
        for (size_t e = 0; e < published->snapshot->n_events; e++)
            journal_add(&app->journal, published->server, &published->snapshot->events[e],
                        published->snapshot->read_upper_us);
    }
}

/* Takes what the lookout has left, if it is new or no longer fresh. */
static void look(struct app *app)
{
    struct picture picture;
    board_take(app->board, &picture);
    note_events(app, &picture);
    bool news = picture.serial != app->picture.serial ||
                memcmp(picture.fresh, app->picture.fresh, picture.n * sizeof *picture.fresh) != 0;
    if (app->ui.paused || !news) {
        picture_done(&picture);
        return;
    }
    struct picture old = app->picture;
    app->picture = picture;
    picture_done(&old);
    app->dirty = true;
}

/* A terminal that has not taken the last picture gets the next one when it has. */
static void draw(struct app *app)
{
    int width = 0, height = 0;
    int64_t now = clock_monotonic_us();
    term_size(app->term, &width, &height);
    yielding_settle(app->yielding, now);
    ui_settle(&app->ui, &app->picture, width, height);
    if (term_busy(app->term) >= 0)
        return;
    struct grid *grid = grid_new(width, height, term_unicode());
    screen_render(&app->ui, &app->picture, now, grid);
    if (!app->drawn || !grid_equal(app->drawn, grid))
        term_draw(app->term, grid);
    grid_free(app->drawn);
    app->drawn = grid;
    app->due_us = screen_due_us(&app->ui, &app->picture, now);
    app->dirty = false;
}

static void draw_anew(struct app *app)
{
    grid_free(STEAL(app->drawn));
    term_redraw(app->term);
    app->dirty = true;
}

/* The screen as text, into a new file: as it is named, or by the time in the working directory. */
static void save(struct app *app)
{
    char path[UI_TEXT_SIZE];
    time_t now = time(NULL);
    struct tm tm;
    if (!app->drawn || !gmtime_r(&now, &tm) ||
        strftime(path, sizeof path, "pgleader-%Y%m%dT%H%M%SZ.txt", &tm) == 0)
        return;
    if (*app->ui.path)
        (void)snprintf(path, sizeof path, "%s", app->ui.path);
    CLEANUP(fclose_filep) FILE *file = fopen(path, "wxe");
    if (file)
        grid_print(app->drawn, file);
    bool written = file && fflush(file) == 0 && !ferror(file);
    if (written)
        ui_say(&app->ui, "This screen is in %s", path);
    else
        ui_say(&app->ui, "Could not write %s: %s", path, strerror(errno));
    if (file && !written)
        (void)unlink(path);
}

/* Nobody tells whether the terminal took it. */
static void copy(struct app *app)
{
    CLEANUP(free_charp) char *text = copy_text(&app->ui, &app->picture, app->connects);
    if (!text) {
        ui_say(&app->ui, "Nothing to copy: the cursor is on no duty");
        return;
    }
    CLEANUP(free_charp) char *sequence = copy_sequence(text);
    term_send(app->term, sequence);
    ui_say(&app->ui, "Given to the terminal's clipboard: %s", text);
}

static void refresh(struct app *app)
{
    lookout_hurry(app->lookout);
    ui_say(&app->ui, app->ui.paused ? "Looking again; Space shows what is found" : "Looking again");
}

/* The servers keep their sessions and pictures. */
static void change_interval(struct app *app)
{
    struct config *config = NULL;
    if (!servers_read(&app->options->servers, "top", &config)) {
        ui_say(&app->ui, "Could not read the configuration again; its mistakes are shown at the "
                         "end");
        return;
    }
    config->poll_interval_us = app->ui.interval_us;
    if (config->n_servers != app->picture.n) {
        config_free(config);
        ui_say(&app->ui, "The configuration has changed: start pgleader again");
        return;
    }
    lookout_set_config(app->lookout, config);
}

static void yield_wish(struct app *app, enum ui_wish wish)
{
    if (wish == WISH_YIELD_OPEN) {
        yielding_open(app->yielding, &app->picture);
        term_forget_keys(app->term); /* the dialog was not on the screen when they were pressed */
    } else if (wish == WISH_YIELD_SEND) {
        yielding_send(app->yielding);
    } else {
        yielding_end(app->yielding);
    }
}

/* Ctrl-C in the dialog cancels it and no more. */
static void interrupt(struct app *app)
{
    if (app->ui.screen != SCREEN_YIELD) {
        end(app, 128 + SIGINT);
        return;
    }
    if (ui_key(&app->ui, &app->picture, CODE_ESCAPE) == WISH_YIELD_END)
        yielding_end(app->yielding);
    app->dirty = true;
}

/* False: there is nothing to do besides drawing. */
static bool grant(struct app *app, enum ui_wish wish)
{
    if (wish == WISH_QUIT)
        end(app, EXIT_SUCCESS);
    else if (wish == WISH_INTERVAL)
        change_interval(app);
    else if (wish == WISH_SAVE)
        save(app);
    else if (wish == WISH_COPY)
        copy(app);
    else if (wish == WISH_REFRESH)
        refresh(app);
    else if (wish == WISH_REDRAW)
        draw_anew(app);
    else if (wish >= WISH_YIELD_OPEN)
        yield_wish(app, wish);
    return wish != WISH_NONE;
}

static void keyboard(struct app *app, short revents)
{
    int waiting = 0, code = CODE_NONE;
    bool gone = revents & (POLLHUP | POLLERR | POLLNVAL);
    if (ioctl(STDIN_FILENO, FIONREAD, &waiting) != 0 || (waiting == 0 && revents & POLLIN))
        gone = true;
    if (gone) {
        end(app, 128 + SIGHUP);
        return;
    }
    while (!app->ending && (code = term_key(app->term)) != CODE_NONE) {
        enum ui_wish wish = ui_key(&app->ui, &app->picture, code);
        app->dirty = true;
        yielding_key(app->yielding);
        if (grant(app, wish))
            continue;
        if (app->ui.list.n > 0)
            draw(app); /* the next key acts on what this one has made */
    }
}

static void signals(struct app *app)
{
    struct signalfd_siginfo info;
    while (read(app->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGWINCH) {
            term_resize(app->term);
            draw_anew(app);
        } else if (info.ssi_signo == SIGTSTP) {
            term_suspend(app->term);
        } else if (info.ssi_signo == SIGCONT) {
            term_resume(app->term);
            draw_anew(app);
        } else if (info.ssi_signo == SIGINT) {
            interrupt(app);
        } else {
            end(app, 128 + (int)info.ssi_signo);
        }
    }
}

/* Milliseconds until there is something to do besides what descriptors say. */
static int timeout_of(const struct app *app, bool busy)
{
    if (app->dirty && !busy)
        return 0;
    int64_t yield_us = yielding_due_us(app->yielding);
    int64_t due_us = !busy && app->due_us < yield_us ? app->due_us : yield_us;
    int64_t left = due_us - clock_monotonic_us();
    int64_t ms = left <= 0 ? 0 : left / 1000 + 1;
    return ms < LONGEST_WAIT_MS ? (int)ms : LONGEST_WAIT_MS;
}

static void loop(struct app *app)
{
    struct pollfd fds[FD_COUNT];
    while (!app->ending) {
        if (app->dirty || clock_monotonic_us() >= app->due_us)
            draw(app);
        fds[FD_KEYBOARD] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
        fds[FD_SIGNALS] = (struct pollfd){.fd = app->signals, .events = POLLIN};
        yielding_wants(app->yielding, &fds[FD_YIELD]);
        int busy = term_busy(app->term);
        fds[FD_SCREEN] = (struct pollfd){.fd = busy, .events = POLLOUT};
        fds[FD_NEWS] = (struct pollfd){.fd = lookout_fd(app->lookout), .events = POLLIN};
        int ready = poll(fds, FD_COUNT, timeout_of(app, busy >= 0));
        if (ready > 0 && fds[FD_SIGNALS].revents)
            signals(app);
        if (ready > 0 && fds[FD_KEYBOARD].revents && !app->ending)
            keyboard(app, fds[FD_KEYBOARD].revents);
        if (app->ending)
            break;
        app->dirty |=
            yielding_step(app->yielding, &app->picture, ready > 0 && fds[FD_YIELD].revents);
        if (ready > 0 && fds[FD_NEWS].revents)
            lookout_seen(app->lookout);
        look(app);
    }
}

static void note_connects(struct app *app, const struct config *config)
{
    app->n_connects = config->n_servers;
    app->connects = xcalloc(config->n_servers + 1, sizeof *app->connects);
    for (size_t i = 0; i < config->n_servers; i++)
        app->connects[i] = conninfo_public(config->servers[i].conninfo);
}

static bool open_app(struct app *app, struct config *config, struct error *err)
{
    config->poll_interval_us = app->options->interval_us;
    app->board = board_new();
    app->journaled_us = xcalloc(config->n_servers + 1, sizeof *app->journaled_us);
    board_set_servers(app->board, config);
    note_connects(app, config);
    app->lookout = lookout_new(app->board, config, err);
    board_take(app->board, &app->picture);
    ui_init(&app->ui, &app->journal, app->options->interval_us);
    app->ui.may_yield = app->options->allow_yield;
    app->yielding =
        yielding_new(&app->options->servers, &app->options->yielding, &app->ui, &app->journal);
    app->dirty = true;
    return app->lookout != NULL;
}

static void close_app(struct app *app)
{
    yielding_free(app->yielding);
    grid_free(app->drawn);
    ui_done(&app->ui);
    picture_done(&app->picture);
    journal_done(&app->journal);
    for (size_t i = 0; i < app->n_connects; i++)
        free(app->connects[i]);
    free(app->connects);
    free(app->journaled_us);
    lookout_free(app->lookout);
    board_free(app->board);
    (void)close(app->signals);
}

int app_run(const struct app_options *options, struct config *config)
{
    /* One heap for all threads, and large blocks go back to the system. */
    (void)mallopt(M_ARENA_MAX, 1);
    (void)mallopt(M_MMAP_THRESHOLD, 256 * 1024);
    struct app *app = xcalloc(1, sizeof *app);
    struct error err = {0};
    app->options = options;
    app->signals = open_signals();
    bool opened = open_app(app, config, &err) && term_open(&app->term, &err);
    if (opened)
        loop(app);
    term_close(app->term);
    close_app(app);
    int status = app->status;
    free(app);
    return opened ? status : command_fail("top", &err, STATUS_UNAVAILABLE);
}
