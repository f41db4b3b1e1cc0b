/* SPDX-License-Identifier: PostgreSQL */
/* The door of the web server: a thread that accepts connections, bounds their number, and closes
 * those that take too long. It reads and writes none of them. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/listen.h"

/* What an open connection is at; each has a time after which it is closed, whatever dribbles in. */
enum visit {
    VISIT_NEW,     /* no whole request header yet, nor a TLS handshake */
    VISIT_REQUEST, /* a request is being read, judged or answered */
    VISIT_IDLE,    /* answered at least once; waits for the next request */
};

/* An open connection; stands inside the web server's own record of it. */
struct visitor {
    int fd;
    _Atomic enum visit visit;
    _Atomic int64_t deadline_us; /* by CLOCK_MONOTONIC */
    bool listed;                 /* false once it was told to go */
    struct visitor *prev, *next;
};

struct door_callbacks {
    void *context;
    /* Takes the socket over. True if the visitor will enter and leave; false if it was closed. */
    bool (*admit)(void *context, int fd, const struct sockaddr *address, socklen_t size);
    /* Before an admission and once a second while `ticks` or while there are visitors; at most once
     * a second. */
    void (*tick)(void *context);
    bool ticks;
};

struct door;

/* The sockets stay the caller's and must live longer. At most max_visitors are in: for one more,
 * the longest there that waits is told to go. */
struct door *door_new(const struct listeners *listeners, size_t max_visitors,
                      const struct door_callbacks *callbacks);

/* Starts the thread. */
bool door_open(struct door *door, struct error *err) MUSTCHECK;

/* Ends the thread, if there is one; nobody is admitted afterwards. Those inside can still move and
 * leave. */
void door_shut(struct door *door);
void door_free(struct door *door); /* after door_shut; NULL is fine */

/* From the web server's thread. A visitor's socket is shut down (not closed) by the door when its
 * time has passed, and stays open until door_leave has returned. */
void door_enter(struct door *door, struct visitor *visitor, int fd);
void door_move(struct visitor *visitor, enum visit visit);
void door_leave(struct door *door, struct visitor *visitor);
