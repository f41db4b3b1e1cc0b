/* SPDX-License-Identifier: PostgreSQL */
/* One row of the page's table of duties. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

struct duty;
struct published;

/* A duty on its server; of a server that is not fresh only names are told. */
struct page_duty {
    const struct published *server;
    const struct duty *duty;
    bool fresh;
    bool named; /* the row says which server it is on */
};

/* Unknown where the server is not fresh or could not be read. */
const char *page_duty_state(const struct page_duty *row);

/* Somebody should look at it: any state of a named duty but led, except on a standby. */
bool page_duty_in_trouble(const struct page_duty *row);

void page_duty_render(const struct page_duty *row, FILE *out);
