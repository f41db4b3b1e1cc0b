/* SPDX-License-Identifier: PostgreSQL */
/* The lines of the main list: which duties of a picture, in which order. */
#pragma once

#include "observe/publish.h"
#include "tui/verdict.h"

enum list_order { ORDER_ATTENTION, ORDER_DUTY, ORDER_OWNER, ORDER_HELD, ORDER_WAIT, ORDERS };
extern const char *const list_order_names[ORDERS];

struct list_row {
    size_t server;           /* index in the picture */
    const struct duty *duty; /* NULL: the line of a server, above its duties */
    bool fresh;
    enum urgency urgency;
};

/* Points into the picture. */
struct list {
    struct list_row *rows;
    size_t n;
    size_t n_duties; /* before the filter */
    size_t counts[URGENCY_GONE + 1];
    int64_t taken_us; /* of the picture; with the next three what it was made of */
    enum list_order order;
    bool inverted;
    char *filter;
};

/* filter: "" is everything. Servers have lines of their own where there are several. */
void list_build(const struct picture *picture, enum list_order order, bool inverted,
                const char *filter, struct list *ret_list);
void list_done(struct list *list);

/* True if list_build of these would give the same list again. */
bool list_is_of(const struct list *list, const struct picture *picture, enum list_order order,
                bool inverted, const char *filter);

/* True if the duty, its owner, its key or its state holds the text, whatever the case. */
bool list_row_matches(const struct list_row *row, const char *text);

/* The name of who leads: what a person would call it. "" where there is none. */
const char *duty_holder(const struct duty *duty);

/* A session's name without what it only repeats: "node-a" of "pgleader:jobs/invoices:node-a", which
 * is how the kit names its sessions. */
const char *instance_name(const char *duty, const char *name);
