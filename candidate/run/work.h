/* SPDX-License-Identifier: PostgreSQL */
/* The command that runs while we lead, and everything that descends from it: started, signalled,
 * ended, and over only when nothing of it is left. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "candidate/run/child.h"
#include "candidate/run/guard.h"

struct work_options {
    char *const *argv;
    int64_t kill_after_us;
    void *context;
    void (*remark)(void *context, const char *text); /* for the log */
};

struct work {
    struct work_options options;
    struct guard *guard;
    struct child child;  /* pid 0: nothing runs */
    bool ended;          /* the command itself; what it left may still run */
    bool killing;        /* the time after SIGTERM is over */
    bool wants_terminal; /* it is stopped, since it is in the terminal's background */
    int wait_status;     /* once it has ended */
    int why_not;         /* the errno of an exec that failed */
    int64_t kill_us;     /* CLOCK_BOOTTIME: when SIGKILL is due; 0: it is not asked to stop */
};

/* Fails where no process can be made; that the command cannot be executed shows as its end. */
bool work_start(struct work *work, char *const *environment, int64_t generation,
                struct error *err) MUSTCHECK;
bool work_runs(const struct work *work);

/* To its process group. */
void work_signal(const struct work *work, int signo);

/* SIGTERM to the group, unless it was sent a signal already, and SIGKILL after kill_after. */
void work_stop(struct work *work, bool signalled);

/* To be called after SIGCHLD: true if the work is over now. Reaps every child that is not the
 * guard: what left the process group is ours too, since we are its subreaper. */
bool work_look(struct work *work);

/* Deadlines; how long until the next, or -1. */
void work_tick(struct work *work);
int work_wait_ms(const struct work *work);
