/* SPDX-License-Identifier: PostgreSQL */
/* Bytes to a terminal that may not take them. */
#include "tui/outlet.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

/* O_NONBLOCK belongs to the open file, which the shell shares: hence the same terminal is opened
 * once more. Where that is not allowed, as after su, writes may wait. */
void outlet_open(struct outlet *outlet, int fd)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    *outlet = (struct outlet){.fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
    if (outlet->fd < 0)
        outlet->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

void outlet_close(struct outlet *outlet)
{
    free(STEAL(outlet->bytes));
    if (outlet->fd >= 0)
        (void)close(outlet->fd);
    *outlet = (struct outlet){.fd = -1};
}

static void make_room(struct outlet *outlet, size_t size)
{
    if (outlet->n + size <= outlet->room)
        return;
    outlet->room = outlet->n + size;
    outlet->bytes = xreallocarray(outlet->bytes, outlet->room, 1);
}

void outlet_add(struct outlet *outlet, const char *bytes, size_t size)
{
    make_room(outlet, size);
    memcpy(outlet->bytes + outlet->n, bytes, size);
    outlet->n += size;
}

enum { PIECE = 65536 };

void outlet_take_pipe(struct outlet *outlet, int from)
{
    ssize_t n = 0;
    do {
        make_room(outlet, PIECE);
        n = read(from, outlet->bytes + outlet->n, PIECE);
        outlet->n += n > 0 ? (size_t)n : 0;
    } while (n > 0 || (n < 0 && errno == EINTR));
}

void outlet_take(struct outlet *outlet, int file)
{
    struct stat stat;
    if (fstat(file, &stat) != 0)
        return;
    size_t size = (size_t)stat.st_size;
    make_room(outlet, size);
    ssize_t n = pread(file, outlet->bytes + outlet->n, size, 0);
    outlet->n += n > 0 ? (size_t)n : 0;
    (void)ftruncate(file, 0);
    (void)lseek(file, 0, SEEK_SET);
}

bool outlet_flush(struct outlet *outlet)
{
    while (outlet->sent < outlet->n) {
        ssize_t n = write(outlet->fd, outlet->bytes + outlet->sent, outlet->n - outlet->sent);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return false;
        if (n <= 0)
            break; /* it is gone, which the keyboard tells too */
        outlet->sent += (size_t)n;
    }
    outlet->n = outlet->sent = 0;
    return true;
}

bool outlet_drain(struct outlet *outlet, int64_t most_us)
{
    int64_t until_us = clock_monotonic_us() + most_us;
    while (!outlet_flush(outlet)) {
        int64_t left_us = until_us - clock_monotonic_us();
        struct pollfd writable = {.fd = outlet->fd, .events = POLLOUT};
        if (left_us <= 0 || poll(&writable, 1, (int)(left_us / 1000 + 1)) < 0)
            return false;
    }
    return true;
}
