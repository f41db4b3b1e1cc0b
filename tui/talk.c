/* SPDX-License-Identifier: PostgreSQL */
/* Waits in poll(2) until the session has its answer or the deadline passes. */
#include "tui/talk.h"

#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "tui/command.h"

enum { SILENT_AFTER_S = 10 };

/* False when the deadline has passed. */
static bool wait_for_server(const struct talk *talk, struct error *err)
{
    int64_t left_us = talk->deadline_us - clock_monotonic_us();
    struct pollfd fd = {.fd = pg_conn_fd(talk->conn), .events = pg_conn_events(talk->conn)};
    if (left_us <= 0)
        return error_set(err, ERROR_TIMEOUT, "could not hear from the server: no answer in time");
    (void)poll(&fd, 1, (int)(left_us / 1000) + 1);
    return true;
}

bool talk_open(const struct config_server *server, int64_t within_us, struct talk *ret_talk,
               struct error *err)
{
    const struct pg_conn_options options = {
        .conninfo = server->conninfo,
        .application_name = "pgleader",
        .silent_after_s = SILENT_AFTER_S,
        .password = server->password,
        .password_file = server->password_file,
    };
    struct talk talk = {.deadline_us = clock_monotonic_us() + within_us};
    enum pg_progress progress = PG_AGAIN;
    talk.conn = pg_conn_start(&options, err);
    if (!talk.conn)
        return false;
    while ((progress = pg_conn_connect(talk.conn, err)) == PG_AGAIN) {
        if (!wait_for_server(&talk, err))
            break;
    }
    if (progress != PG_DONE) {
        talk_close(&talk);
        return false;
    }
    *ret_talk = talk;
    return true;
}

struct pg_batch *talk_ask(struct talk *talk, const struct pg_section *sections, size_t n,
                          struct error *err)
{
    struct pg_batch *batch = pg_batch_start(talk->conn, sections, n, err);
    enum pg_progress progress = PG_AGAIN;
    while (batch && (progress = pg_batch_step(batch, err)) == PG_AGAIN) {
        if (!wait_for_server(talk, err))
            break;
    }
    if (batch && progress == PG_DONE)
        return batch;
    pg_batch_free(batch);
    return NULL;
}

void talk_close(struct talk *talk)
{
    pg_conn_close(talk->conn);
    talk->conn = NULL;
}

int talk_status(const struct error *err)
{
    /* invalid password or role, insufficient privilege */
    bool denied = strncmp(err->sqlstate, "28", 2) == 0 || strcmp(err->sqlstate, "42501") == 0;
    return denied ? STATUS_NO_PERMISSION : STATUS_UNAVAILABLE;
}
