/* SPDX-License-Identifier: PostgreSQL */
/* Threads that share nothing but the table that they were told of. */
#include "tui/at_once.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/memory.h"

struct errand {
    void (*deed)(void *item);
    void *item;
    pthread_t thread;
    bool started;
};

static void *run(void *argument)
{
    const struct errand *errand = argument;
    errand->deed(errand->item);
    return NULL;
}

void at_once(void *items, size_t n, size_t size, void (*deed)(void *item))
{
    struct errand *errands = xcalloc(n + 1, sizeof *errands);
    for (size_t i = 0; i < n; i++) {
        errands[i].deed = deed;
        errands[i].item = (char *)items + i * size;
        errands[i].started = pthread_create(&errands[i].thread, NULL, run, &errands[i]) == 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (errands[i].started)
            (void)pthread_join(errands[i].thread, NULL);
        else
            (void)run(&errands[i]); /* no more threads: one after the other */
    }
    free(errands);
}
