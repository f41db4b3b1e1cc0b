/* SPDX-License-Identifier: PostgreSQL */
/* One session, one thing at a time on it, each with a deadline. */
#include <stdlib.h>

#include "tui/yield_internal.h"
#include "tui/yield_read.h"

static const int64_t connect_within_us = 10 * SECOND_US;
static const int64_t read_within_us = 5 * SECOND_US;
static const int64_t statement_within_us = 15 * SECOND_US;

void yield_close(struct yield *yield)
{
    pg_batch_free(STEAL(yield->batch));
    arena_free(STEAL(yield->questions));
    pg_answer_free(STEAL(yield->answer));
    pg_conn_close(STEAL(yield->conn));
    yield->io = IO_NONE;
}

static void lose(struct yield *yield, const struct error *err)
{
    yield_close(yield);
    yield_lost(yield, err);
}

static void start_connecting(struct yield *yield)
{
    struct error err = {0};
    const struct config_server *server = yield->order.server;
    const struct pg_conn_options options = {
        .conninfo = server->conninfo,
        .application_name = "pgleader",
        .password = server->password,
        .password_file = server->password_file,
        .silent_after_s = YIELD_SILENT_AFTER_S,
    };
    yield->conn = pg_conn_start(&options, &err);
    yield->io = IO_CONNECTING;
    yield->due_us = clock_monotonic_us() + connect_within_us;
    if (!yield->conn)
        lose(yield, &err);
}

static void go_on_reading(struct yield *yield)
{
    struct error err = {0};
    enum pg_progress progress = pg_batch_step(yield->batch, &err);
    if (progress == PG_AGAIN)
        return;
    if (progress == PG_FAILED) {
        lose(yield, &err);
        return;
    }
    struct yield_facts *facts = yield_facts_take(&yield->target, yield->key, yield->batch, &err);
    pg_batch_free(STEAL(yield->batch));
    arena_free(STEAL(yield->questions));
    yield->io = IO_NONE;
    if (!facts) {
        lose(yield, &err);
        return;
    }
    if (yield->facts != yield->asked)
        yield_facts_free(yield->facts);
    yield->facts = facts;
    yield->read_done_us = clock_monotonic_us();
    yield_took_reading(yield);
}

void yield_read(struct yield *yield)
{
    struct error err = {0};
    struct pg_section sections[YIELD_SECTIONS];
    if (!yield->conn) {
        start_connecting(yield);
        return;
    }
    yield->questions = arena_new();
    bool guarding = yield->view.phase <= PHASE_ASKING;
    yield_sections(&yield->target, yield->key, guarding, yield->questions, sections);
    yield->read_sent_us = clock_monotonic_us();
    yield->due_us = yield->read_sent_us + read_within_us;
    yield->io = IO_READING;
    yield->batch = pg_batch_start(yield->conn, sections, YIELD_SECTIONS, &err);
    if (yield->batch)
        go_on_reading(yield);
    else
        lose(yield, &err);
}

static void go_on_asking(struct yield *yield)
{
    enum pg_progress progress = pg_statement_step(yield->conn, &yield->answer, &yield->why);
    if (progress == PG_AGAIN)
        return;
    struct pg_answer *answer = STEAL(yield->answer);
    const struct error why = yield->why;
    if (progress == PG_DONE) {
        yield->io = IO_NONE;
        yield_took_answer(yield, answer, &why);
    } else {
        lose(yield, &why);
    }
    pg_answer_free(answer);
}

void yield_ask(struct yield *yield, const char *text, int n, const char *const *values)
{
    struct error err = {0};
    yield->io = IO_STATEMENT;
    yield->why = (struct error){0};
    yield->due_us = clock_monotonic_us() + statement_within_us;
    if (!pg_statement_send(yield->conn, text, n, values, &err))
        lose(yield, &err);
}

static void go_on_connecting(struct yield *yield)
{
    struct error err = {0};
    enum pg_progress progress = pg_conn_connect(yield->conn, &err);
    if (progress == PG_FAILED)
        lose(yield, &err);
    if (progress != PG_DONE)
        return;
    yield->io = IO_NONE;
    if (yield->view.phase == PHASE_RECORDING)
        yield_record(yield);
    else
        yield_read(yield);
}

static void listen_idle(struct yield *yield)
{
    struct error err = {0};
    if (yield->conn && !pg_conn_idle(yield->conn, &err))
        lose(yield, &err);
}

static void run_out(struct yield *yield)
{
    static const char *const deeds[] = {
        [IO_CONNECTING] = "connect",
        [IO_READING] = "look who leads",
        [IO_STATEMENT] = "hear what the statement did",
    };
    struct error err = {0};
    if (yield->io == IO_NONE) {
        yield_read(yield);
        return;
    }
    (void)error_set(&err, ERROR_TIMEOUT, "could not %s: no answer in time", deeds[yield->io]);
    lose(yield, &err);
}

void yield_step(struct yield *yield, bool ready)
{
    if (yield->view.phase == PHASE_DONE)
        return;
    if (ready && yield->io == IO_CONNECTING)
        go_on_connecting(yield);
    else if (ready && yield->io == IO_READING)
        go_on_reading(yield);
    else if (ready && yield->io == IO_STATEMENT)
        go_on_asking(yield);
    else if (ready)
        listen_idle(yield);
    if (yield->view.phase != PHASE_DONE && clock_monotonic_us() >= yield->due_us)
        run_out(yield);
}

void yield_wants(const struct yield *yield, struct pollfd *ret_fd)
{
    *ret_fd = (struct pollfd){.fd = -1};
    if (!yield->conn || yield->view.phase == PHASE_DONE)
        return;
    ret_fd->fd = pg_conn_fd(yield->conn);
    ret_fd->events = pg_conn_events(yield->conn);
}

int64_t yield_due_us(const struct yield *yield)
{
    return yield->due_us;
}
