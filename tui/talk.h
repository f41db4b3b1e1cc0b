/* SPDX-License-Identifier: PostgreSQL */
/* A conversation with one server that waits for each answer: for subcommands that look once. */
#pragma once

#include <stdint.h>

#include "observe/config.h"
#include "pg/batch.h"
#include "pg/conn.h"

struct talk {
    struct pg_session *conn;
    int64_t deadline_us; /* CLOCK_MONOTONIC, of the whole conversation */
};

/* Connects. On success talk_close ends it. */
bool talk_open(const struct config_server *server, int64_t within_us, struct talk *ret_talk,
               struct error *err) MUSTCHECK;

/* Asks all sections and waits. NULL when the session is lost or the time is over; else freed by
 * pg_batch_free, before talk_close. */
struct pg_batch *talk_ask(struct talk *talk, const struct pg_section *sections, size_t n,
                          struct error *err) MUSTCHECK;

void talk_close(struct talk *talk); /* zeroed is fine */

/* The exit status that a lost or refused conversation ends with: 69 or 77. */
int talk_status(const struct error *err);
