/* SPDX-License-Identifier: PostgreSQL */
/* Foreground process groups. */
#include "candidate/run/terminal.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"

static bool pass(pid_t from, pid_t to)
{
    CLEANUP(close_fdp) int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return fd >= 0 && tcgetpgrp(fd) == from && tcsetpgrp(fd, to) == 0;
}

bool terminal_lend(pid_t group)
{
    return pass(getpgrp(), group);
}

/* SIGTTOU is blocked (signals.h): we are in the background here. */
void terminal_take_back(pid_t group)
{
    (void)pass(group, getpgrp());
}
