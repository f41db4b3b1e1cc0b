/* SPDX-License-Identifier: PostgreSQL */
/* Signals as rows. */
#include "candidate/run/signals.h"

#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>

static const struct signal_row {
    int signo;
    enum signal_use use;
} rows[] = {
    {SIGCHLD, SIGNAL_CHILD},   {SIGTERM, SIGNAL_STOP},     {SIGINT, SIGNAL_STOP},
    {SIGQUIT, SIGNAL_STOP},    {SIGHUP, SIGNAL_FORWARD},   {SIGUSR1, SIGNAL_FORWARD},
    {SIGUSR2, SIGNAL_FORWARD}, {SIGCONT, SIGNAL_CONTINUE}, {SIGTSTP, SIGNAL_SUSPEND},
};
enum { ROWS = sizeof rows / sizeof *rows };

static sigset_t mask_before;
static struct sigaction child_before, pipe_before;

int signals_take(void)
{
    sigset_t taken, blocked;
    (void)sigemptyset(&taken);
    for (size_t i = 0; i < ROWS; i++)
        (void)sigaddset(&taken, rows[i].signo);
    blocked = taken;
    (void)sigaddset(&blocked, SIGTTOU); /* a background process may then take the terminal back */
    (void)sigprocmask(SIG_BLOCK, &blocked, &mask_before);
    /* Who started us may ignore SIGCHLD: then no child could be waited for. */
    (void)sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, &child_before);
    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, &pipe_before);
    return signalfd(-1, &taken, SFD_NONBLOCK | SFD_CLOEXEC);
}

void signals_restore(void)
{
    (void)sigaction(SIGCHLD, &child_before, NULL);
    (void)sigaction(SIGPIPE, &pipe_before, NULL);
    (void)sigprocmask(SIG_SETMASK, &mask_before, NULL);
}

enum signal_use signal_use(int signo)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].signo == signo)
            return rows[i].use;
    }
    return SIGNAL_OTHER;
}
