/* SPDX-License-Identifier: PostgreSQL */
/* What this process uses of its machine: the clock of its CPU time and /proc/self. */
#include "exporter/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

static int64_t clock_us(clockid_t clock)
{
    struct timespec now;
    if (clock_gettime(clock, &now) != 0)
        return TIME_UNKNOWN;
    return (int64_t)now.tv_sec * SECOND_US + now.tv_nsec / 1000;
}

/* A small file of /proc in one read, as a string; "" when it cannot be read. */
static void read_small(const char *path, char *out, size_t size)
{
    CLEANUP(close_fdp) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);
    out[n < 0 ? 0 : n] = '\0';
}

/* /proc/self/statm begins with the sizes of the address space and of what is resident, in pages. */
static void read_memory(struct process *process)
{
    char text[128];
    char *rest = text, *end = NULL;
    read_small("/proc/self/statm", text, sizeof text);
    int64_t page = sysconf(_SC_PAGESIZE);
    long long virtual = strtoll(rest, &rest, 10);
    long long resident = strtoll(rest, &end, 10);
    if (end == rest)
        return;
    process->virtual_bytes = virtual * page;
    process->resident_bytes = resident * page;
}

static int64_t count_fds(void)
{
    int64_t n = -3; /* ".", ".." and the directory itself */
    DIR *directory = opendir("/proc/self/fd");
    if (!directory)
        return -1;
    while (readdir(directory))
        n++;
    (void)closedir(directory);
    return n;
}

static int64_t start_us = TIME_UNKNOWN;

/* The 22nd field of /proc/self/stat is the start in ticks since boot; the second may hold blanks
 * and ends at the last ")". Read once, so that a step of the clock does not look like a restart. */
static void read_start(void)
{
    char text[1024];
    read_small("/proc/self/stat", text, sizeof text);
    char *field = strrchr(text, ')');
    for (int i = 2; i < 22 && field; i++)
        field = strchr(field + 1, ' ');
    int64_t ticks = sysconf(_SC_CLK_TCK);
    int64_t up = clock_us(CLOCK_BOOTTIME);
    if (field && ticks > 0 && up != TIME_UNKNOWN)
        start_us = clock_us(CLOCK_REALTIME) - up + strtoll(field, NULL, 10) * SECOND_US / ticks;
}

void process_read(struct process *ret_process)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, read_start);
    struct rlimit limit;
    bool limited = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    *ret_process = (struct process){
        .cpu_us = clock_us(CLOCK_PROCESS_CPUTIME_ID),
        .resident_bytes = -1,
        .virtual_bytes = -1,
        .open_fds = count_fds(),
        .max_fds = limited ? (int64_t)limit.rlim_cur : -1,
        .start_us = start_us,
    };
    read_memory(ret_process);
}
