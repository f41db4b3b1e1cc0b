/* SPDX-License-Identifier: PostgreSQL */
/* Ownership in a declaration: the variable's destructor runs when it leaves its scope. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MUSTCHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))

/* CLEANUP(f) T *x = NULL;  calls f(&x) at the end of the scope. */
#define CLEANUP(function) __attribute__((cleanup(function)))

/* Gives ownership away: the value, leaving NULL behind. */
#define STEAL(pointer)                                                                             \
    ({                                                                                             \
        __typeof__(pointer) *stolen_from = &(pointer);                                             \
        __typeof__(pointer) stolen = *stolen_from;                                                 \
        *stolen_from = NULL;                                                                       \
        stolen;                                                                                    \
    })

static inline void free_charp(char **p)
{
    free(*p);
}

static inline void fclose_filep(FILE **p)
{
    if (*p)
        (void)fclose(*p);
}

static inline void close_fdp(int *p)
{
    if (*p >= 0)
        (void)close(*p);
}
