/* SPDX-License-Identifier: PostgreSQL */
/* What this process uses of its machine, from the kernel. */
#pragma once

#include <stdint.h>

/* -1 where the kernel does not say; start_us is TIME_UNKNOWN then. */
struct process {
    int64_t cpu_us; /* user and system */
    int64_t resident_bytes;
    int64_t virtual_bytes;
    int64_t open_fds;
    int64_t max_fds;  /* -1 also without a limit */
    int64_t start_us; /* since the Unix epoch */
};

/* Reads all of it, in some ten microseconds. */
void process_read(struct process *ret_process);
