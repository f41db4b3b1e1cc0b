/* SPDX-License-Identifier: PostgreSQL */
/* The candidate of libpgleader: what its callers' threads and its own thread share. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "candidate/library_internal.h"

struct cancels;

struct pgleader {
    struct library_setup setup;
    struct lead *lead; /* the thread's own, once it runs */
    struct cancels *cancels;
    pthread_t thread;
    atomic_bool started;
    pid_t owner;
    int wake_fd, abort_fd;

    /* Read without a lock; written by the thread. */
    _Atomic int64_t term;        /* the generation that may work, 0: none */
    _Atomic int64_t deadline_us; /* of that term, CLOCK_BOOTTIME */
    atomic_int state;            /* also changed under the mutex, for those who wait */

    /* Requests to the thread; a signal handler may write `stop`. */
    atomic_bool stop, abandoned;
    _Atomic int64_t yield;

    pthread_mutex_t mutex; /* guards what follows, and `changed` */
    pthread_cond_t changed;
    int64_t generation; /* whose work has not stopped yet, 0: none */
    bool losing;        /* it is lost or handed over */
    bool stopped;       /* its work is said to have stopped */

    /* The thread's own. */
    int64_t terms; /* without a ledger they are counted down from -1 */
    int64_t lost_us, pressed_us;
    bool stop_taken, overdue;
    struct error last_error;
    struct pgleader_error end_error; /* written before the state becomes ENDED */
};

/* Lets the lead's callbacks be the thread's. */
void library_thread_prepare(struct pgleader *p);

/* Drives the candidate until its end. */
void *library_thread(void *candidate);

/* True in a callback of that candidate's. */
bool library_in_thread(const struct pgleader *p);
