/* SPDX-License-Identifier: PostgreSQL */
/* Opens, steps and ends the engine as the dialog wishes, and writes down what it did. */
#include "tui/yielding.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/text.h"
#include "tui/harmless.h"
#include "tui/status_look.h"
#include "tui/yield_log.h"
#include "tui/yield_show.h"

static const int64_t idle_most_us = MINUTE_US;     /* a dialog that nobody looks at closes */
static const int64_t ask_again_us = SECOND_US / 2; /* while it asks, the picture ages */
static const int64_t watch_again_us = SECOND_US / 5;
static const int64_t part_within_us = SECOND_US;

struct yielding {
    const struct server_options *servers;
    const struct yielding_options *options;
    struct ui *ui;
    struct journal *journal;
    struct yield *yield;    /* NULL: none */
    struct config *config;  /* of the server; the poller's own comes and goes */
    struct snapshot *asked; /* what the person saw */
    int64_t key_us;         /* the last key */
    int64_t drawn_us;
    int64_t clock_us; /* the server's clock minus the local monotonic one, as of the last picture */
};

struct yielding *yielding_new(const struct server_options *servers,
                              const struct yielding_options *options, struct ui *ui,
                              struct journal *journal)
{
    struct yielding *yielding = xcalloc(1, sizeof *yielding);
    yielding->servers = servers;
    yielding->options = options;
    yielding->ui = ui;
    yielding->journal = journal;
    return yielding;
}

static const struct config_server *find_server(const struct config *config, const char *name)
{
    for (size_t i = 0; config && i < config->n_servers; i++) {
        if (text_equal(config->servers[i].name, name))
            return &config->servers[i];
    }
    return NULL;
}

/* The dialog that was only looked at leaves no trace; all else does. */
static void on_step(void *context, const struct yield_step *step)
{
    struct yielding *yielding = context;
    const struct yield_form *form = &yielding->ui->form;
    const struct yield_view *view = form->view;
    if (!view || (view->end == END_CANCELLED && !form->confirmed))
        return;
    if (step->audit && view->intent < 0)
        yield_log(view->target, form->texts[FORM_REASON], step->sentence);
    journal_add_step(yielding->journal, view->target->server, view->target->duty, step->sentence,
                     clock_monotonic_us() + yielding->clock_us);
}

static void put_away(struct yielding *yielding)
{
    form_open(&yielding->ui->form, NULL);
    yield_free(STEAL(yielding->yield));
    snapshot_unref(STEAL(yielding->asked));
    config_free(STEAL(yielding->config));
}

static void note_clock(struct yielding *yielding, const struct published *published)
{
    yielding->clock_us = published->snapshot->read_upper_us - published->success_monotonic_us;
}

void yielding_open(struct yielding *yielding, const struct picture *picture)
{
    struct ui *ui = yielding->ui;
    const struct list_row *row = ui_row(ui);
    if (yielding->yield || !row)
        return;
    const struct published *published = picture->servers[row->server];
    if (!status_look_complete(published, row->fresh)) {
        ui_say(ui, "Nothing can be yielded yet: the ledger was not read");
        return;
    }
    const struct config_server *server = NULL;
    if (servers_read(yielding->servers, "top", &yielding->config))
        server = find_server(yielding->config, published->server);
    if (!server) {
        config_free(STEAL(yielding->config));
        ui_say(ui, "The configuration has changed: start pgleader again");
        return;
    }
    yielding->asked = snapshot_ref(published->snapshot);
    note_clock(yielding, published);
    const struct yield_order order = {
        .server = server,
        .snapshot = yielding->asked,
        .duty = row->duty,
        .grace_us = yielding->options->grace_us,
        .wait_us = yielding->options->wait_us,
        .context = yielding,
        .step = on_step,
    };
    yielding->yield = yield_new(&order);
    form_open(&ui->form, yield_look(yielding->yield));
    yielding_key(yielding);
    ui->paused = false;
    ui->warned = false;
    ui->screen = SCREEN_YIELD;
    ui->scroll = 0;
}

void yielding_send(struct yielding *yielding)
{
    const struct yield_form *form = &yielding->ui->form;
    if (yielding->yield)
        yield_confirm(yielding->yield, form->texts[FORM_CONFIRM], form->texts[FORM_REASON]);
}

void yielding_end(struct yielding *yielding)
{
    if (yielding->yield && yielding->ui->form.view->phase <= PHASE_ASKING)
        yield_cancel(yielding->yield);
    put_away(yielding);
}

void yielding_key(struct yielding *yielding)
{
    yielding->key_us = clock_monotonic_us();
}

void yielding_wants(const struct yielding *yielding, struct pollfd *ret_fd)
{
    *ret_fd = (struct pollfd){.fd = -1};
    if (yielding->yield)
        yield_wants(yielding->yield, ret_fd);
}

static bool is_over(const struct yielding *yielding)
{
    return !yielding->yield || yielding->ui->form.view->phase == PHASE_DONE;
}

static int64_t draw_due_us(const struct yielding *yielding)
{
    bool asks = yielding->ui->form.view->phase <= PHASE_ASKING;
    return yielding->drawn_us + (asks ? ask_again_us : watch_again_us);
}

int64_t yielding_due_us(const struct yielding *yielding)
{
    if (is_over(yielding))
        return INT64_MAX;
    int64_t step = yield_due_us(yielding->yield), draw = draw_due_us(yielding);
    return step < draw ? step : draw;
}

/* What was frozen is over, or nobody is there: there is nothing left to confirm. */
static void watch_dialog(struct yielding *yielding)
{
    struct yield_form *form = &yielding->ui->form;
    const struct yield_view *view = form->view;
    if (!form_is_open(form))
        return;
    if (clock_monotonic_us() >= yielding->key_us + idle_most_us) {
        form->timed_out = true;
        yield_cancel(yielding->yield);
    } else if (view->phase == PHASE_ASKING && view->facts && !view->facts->ledger_unread &&
               guards_changed(&view->guards)) {
        yield_refuse(yielding->yield);
    }
}

bool yielding_step(struct yielding *yielding, const struct picture *picture, bool ready)
{
    if (is_over(yielding))
        return false;
    const struct yield_view *view = yielding->ui->form.view;
    int at = picture_find(picture, view->target->server);
    if (at >= 0 && picture->servers[at]->snapshot)
        note_clock(yielding, picture->servers[at]);
    enum yield_phase phase = view->phase;
    size_t n_steps = view->n_steps;
    int64_t read_us = view->read_us;
    yield_step(yielding->yield, ready);
    watch_dialog(yielding);
    ui_follow_yield(yielding->ui);
    bool read = phase <= PHASE_ASKING && view->read_us != read_us;
    return read || view->phase != phase || view->n_steps != n_steps ||
           clock_monotonic_us() >= draw_due_us(yielding);
}

void yielding_settle(struct yielding *yielding, int64_t now_us)
{
    struct yield_form *form = &yielding->ui->form;
    if (!yielding->yield)
        return;
    if (form_is_open(form))
        yield_reconsider(yielding->yield, form_overrides(form));
    int64_t until_us = form_is_open(form)                ? yielding->key_us + idle_most_us
                       : form->view->phase == PHASE_DONE ? 0
                                                         : form->view->until_us;
    form->left_us = until_us == 0 ? -1 : until_us > now_us ? until_us - now_us : 0;
    if (!form->over) /* nobody reads any more then, and what was read last was new */
        form->age_us = form->view->read_us ? now_us - form->view->read_us : -1;
    form->over = form->view->phase == PHASE_DONE;
    yielding->drawn_us = now_us;
}

/* Nobody fills it in or watches it any longer; what it left is recorded if the server answers soon.
 */
static void part(struct yielding *yielding)
{
    const struct yield_view *view = yielding->ui->form.view;
    int64_t until_us = clock_monotonic_us() + part_within_us;
    yield_cancel(yielding->yield);
    while (view->phase != PHASE_DONE && clock_monotonic_us() < until_us) {
        struct pollfd fd;
        yield_wants(yielding->yield, &fd);
        int64_t due_us = yield_due_us(yielding->yield);
        due_us = due_us < until_us ? due_us : until_us;
        int64_t left_us = due_us - clock_monotonic_us();
        int ready = poll(&fd, 1, left_us > 0 ? (int)(left_us / 1000) + 1 : 0);
        yield_step(yielding->yield, ready > 0);
    }
}

/* The last that is said of a dialog or a watch that was open at the end; where nothing was sent,
 * the sentence says so itself. */
static void say_last(const struct yield_view *view)
{
    (void)fputs("pgleader top: yield of ", stderr);
    print_harmless(stderr, view->target->duty);
    (void)fputs(": ", stderr);
    print_harmless(stderr, view->sentence);
    if (view->sent != SENT_NO)
        (void)fprintf(stderr, " Sent: %s.", yield_sent_words(view));
    if (view->intent >= 0 && !view->recorded)
        (void)fputs(" The outcome is not recorded.", stderr);
    (void)fputc('\n', stderr);
}

void yielding_free(struct yielding *yielding)
{
    if (yielding->yield) {
        if (!is_over(yielding))
            part(yielding);
        say_last(yielding->ui->form.view);
    }
    put_away(yielding);
    free(yielding);
}
