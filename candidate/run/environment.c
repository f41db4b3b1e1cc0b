/* SPDX-License-Identifier: PostgreSQL */
/* Copies and leaves out. */
#include "candidate/run/environment.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

/* A generation that another pgleader-run gave us would fence the wrong work. */
static const char *const not_inherited[] = {
    "PGLEADER_DUTY=", "PGLEADER_GENERATION=", "PGLEADER_INSTANCE=", "PGLEADER_KEY=",
    "PGLEADER_RUN=",  "NOTIFY_SOCKET=",       "WATCHDOG_PID=",      "WATCHDOG_USEC=",
};

static bool is_inherited(const char *pair)
{
    for (size_t i = 0; i < sizeof not_inherited / sizeof *not_inherited; i++) {
        if (strncmp(pair, not_inherited[i], strlen(not_inherited[i])) == 0)
            return false;
    }
    return true;
}

char **environment_make(char *const *more, int n)
{
    size_t size = 0, used = 0;
    while (environ[size])
        size++;
    char **made = xcalloc(size + (size_t)n + 1, sizeof *made);
    for (char **pair = environ; *pair; pair++) {
        if (is_inherited(*pair))
            made[used++] = *pair;
    }
    for (int i = 0; i < n; i++) {
        if (more[i])
            made[used++] = more[i];
    }
    return made;
}
