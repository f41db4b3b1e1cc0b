/* SPDX-License-Identifier: PostgreSQL */
/* Reads a small file whole. */
#include "observe/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

static bool refuse(struct error *err, int errnum)
{
    char buffer[128];
    return error_set(err, ERROR_SYSTEM, "%s", strerror_r(errnum, buffer, sizeof buffer));
}

/* Reads until the end or until size bytes are there; -1 with errno set on failure. */
static ssize_t read_all(int fd, char *buffer, size_t size)
{
    size_t used = 0;
    while (used < size) {
        ssize_t got = read(fd, buffer + used, size - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        used += (size_t)got;
    }
    return (ssize_t)used;
}

bool file_read(const char *path, size_t limit, char **ret_text, size_t *ret_size, struct error *err)
{
    /* O_NONBLOCK: opening a FIFO that nobody writes to would wait for ever. */
    CLEANUP(close_fdp) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return refuse(err, errno);
    if (S_ISDIR(st.st_mode))
        return refuse(err, EISDIR);
    if (!S_ISREG(st.st_mode))
        return error_set(err, ERROR_SYSTEM, "it is not a regular file");
    if (st.st_size > (off_t)limit)
        return error_set(err, ERROR_SYSTEM, "it has more than %zu bytes", limit);

    /* Files of /proc and /sys say size 0 or a page; what they hold is read up to the limit. */
    size_t room = st.st_size > 0 ? (size_t)st.st_size + 1 : limit + 1;
    CLEANUP(free_charp) char *text = xmalloc(room + 1);
    ssize_t size = read_all(fd, text, room);
    if (size < 0)
        return refuse(err, errno);
    if ((size_t)size > limit)
        return error_set(err, ERROR_SYSTEM, "it has more than %zu bytes", limit);
    text[size] = '\0';
    *ret_text = STEAL(text);
    *ret_size = (size_t)size;
    return true;
}
