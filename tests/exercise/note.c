/* SPDX-License-Identifier: PostgreSQL */
/* Lines of O_APPEND writes: each whole, in the order in which they came. */
#include "tests/exercise/note.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void note_path(const char *file, char *path, size_t size)
{
    const char *dir = getenv("EXERCISE_DIR");
    (void)snprintf(path, size, "%s/%s", dir ? dir : ".", file);
}

int note_open(const char *file)
{
    char path[256];
    note_path(file, path, sizeof path);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd >= 0)
        return fd;
    perror(path);
    exit(1);
}

void note_write(int fd, int64_t at_ns, const char *words)
{
    char line[256], digits[24];
    size_t n = 0, size = strlen(words);
    for (uint64_t rest = (uint64_t)at_ns; n == 0 || rest > 0; rest /= 10)
        digits[n++] = (char)('0' + rest % 10);
    for (size_t i = 0; i < n; i++)
        line[i] = digits[n - 1 - i];
    line[n++] = ' ';
    size = size < sizeof line - n - 1 ? size : sizeof line - n - 1;
    memcpy(line + n, words, size);
    line[n + size] = '\n';
    (void)!write(fd, line, n + size + 1);
}
