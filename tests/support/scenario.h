/* SPDX-License-Identifier: PostgreSQL */
/* Scenarios of one duty: a sequence of readings, written by hand, and what history must make of it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "observe/snapshot.h"

/* Times are milliseconds after some instant, and 0 is "not known". */
enum { SCENARIO_BOOT = 1, SCENARIO_READINGS = 8 };

struct given_term {
    int64_t generation; /* 0: none */
    int32_t pid;
    int64_t start, acquired, refused, ended;
    const char *reason, *instance;
};

/* One reading of one duty. pid 0 is a vacant lock. A lease is held while `expires` is after
 * `upper`. */
struct reading {
    int64_t lower, upper;
    int32_t pid;
    int64_t start; /* 0: no privilege to see it */
    const char *name, *address;
    int64_t expires, acquired;
    int64_t boot; /* of the server; 0 is SCENARIO_BOOT */
    bool unread, missing;
    int64_t key; /* 0 is the usual one */
    struct given_term term, previous;
    bool alive; /* the open term's session, which is not the owner, exists */
};

struct told {
    const char *rules; /* of all readings, in order */
    int64_t acquired[2], lost[2];
    int64_t takeover[2]; /* milliseconds, -1 unknown */
    int64_t last_term, age, uncertainty;
    const char *source;
    enum duty_state state;
};

struct scenario {
    const char *words;
    enum mechanism mechanism;
    struct reading readings[SCENARIO_READINGS]; /* up to the first with upper 0 */
    struct told told;
};

#define NEVER                                                                                      \
    {                                                                                              \
        -1, -1                                                                                     \
    }
#define LED(pid_, start_, name_, address_)                                                         \
    .pid = (pid_), .start = (start_), .name = (name_), .address = (address_)
#define A LED(5, 10, "a", "10.0.0.1")
#define B LED(6, 20, "b", "10.0.0.2")
#define C LED(7, 30, "c", "10.0.0.3")
#define POLL(n) .lower = (n)*1000, .upper = (n)*1000 + 10

/* Plays each scenario and prints what differs from what must be told; how much did. */
int scenarios_check(const struct scenario *scenarios, size_t n);
