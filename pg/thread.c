/* SPDX-License-Identifier: PostgreSQL */
/* Detached threads with a small stack. */
#include "pg/thread.h"

#include <pthread.h>
#include <stddef.h>

enum { STACK_SIZE = 512 * 1024 };

bool thread_run_detached(void *(*run)(void *), void *argument)
{
    pthread_attr_t attributes;
    pthread_t thread;
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attributes, STACK_SIZE);
    bool ok = pthread_create(&thread, &attributes, run, argument) == 0;
    (void)pthread_attr_destroy(&attributes);
    return ok;
}
