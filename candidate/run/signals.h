/* SPDX-License-Identifier: PostgreSQL */
/* The signals that pgleader-run takes for its command, by signalfd. */
#pragma once

#include <stdbool.h>
#include <sys/wait.h>

/* What is done with a signal. */
enum signal_use {
    SIGNAL_OTHER,    /* not taken */
    SIGNAL_CHILD,    /* SIGCHLD */
    SIGNAL_STOP,     /* for the command, and the candidacy ends */
    SIGNAL_FORWARD,  /* for the command; without one it ends the candidacy, as it would a program */
    SIGNAL_CONTINUE, /* for the command; nothing without one */
    SIGNAL_SUSPEND,  /* refused: a suspended candidate would keep the lock and do no work */
};

/* Blocks them and returns the signalfd. A signal that is ignored already (nohup) stays so. */
int signals_take(void);

/* In a child: masks and actions as they were before signals_take. */
void signals_restore(void);

enum signal_use signal_use(int signo);
