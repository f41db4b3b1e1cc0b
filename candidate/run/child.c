/* SPDX-License-Identifier: PostgreSQL */
/* The child before it is another program. */
#include "candidate/run/child.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "candidate/run/signals.h"

/* The socket is closed by a successful exec, or carries its error. */
static void be_child(int fd, char *const *argv, char *const *environment)
{
    char go = 0;
    (void)setpgid(0, 0);
    if (recv(fd, &go, sizeof go, 0) != (ssize_t)sizeof go)
        _exit(126);
    signals_restore();
    (void)execvpe(argv[0], argv, environment);
    int why = errno;
    (void)send(fd, &why, sizeof why, MSG_NOSIGNAL);
    _exit(why == ENOENT ? 127 : 126);
}

bool child_fork(char *const *argv, char *const *environment, struct child *ret_child,
                struct error *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return error_set_errno(err, errno, "could not start \"%s\"", argv[0]);
    pid_t pid = fork();
    if (pid < 0) {
        int why = errno;
        (void)close(ends[0]);
        (void)close(ends[1]);
        return error_set_errno(err, why, "could not start \"%s\"", argv[0]);
    }
    if (pid == 0) {
        (void)close(ends[0]); /* or it would not see our end */
        be_child(ends[1], argv, environment);
    }
    (void)close(ends[1]);
    (void)setpgid(pid, pid); /* both sides, whichever is first */
    *ret_child = (struct child){.pid = pid, .fd = ends[0]};
    return true;
}

void child_let_go(const struct child *child)
{
    (void)send(child->fd, "", 1, MSG_NOSIGNAL);
}

int child_why_not_executed(struct child *child)
{
    int why = 0;
    if (recv(child->fd, &why, sizeof why, MSG_DONTWAIT) != (ssize_t)sizeof why)
        why = 0;
    (void)close(child->fd);
    child->fd = -1;
    return why;
}
