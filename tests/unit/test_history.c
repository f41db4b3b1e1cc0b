/* SPDX-License-Identifier: PostgreSQL */
/* What history makes of a sequence of readings: which rule, between which bounds, and what is told
 * of it. No database: each reading is written by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/text.h"
#include "observe/history.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Times below are milliseconds after this instant, and 0 is "not known". */
#define ORIGIN_US INT64_C(1700000000000000)
enum { BOOT = 1, READINGS = 8 };

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
    int64_t boot; /* of the server; 0 is BOOT */
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
    struct reading readings[READINGS]; /* up to the first with upper 0 */
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

static const struct scenario scenarios[] = {
    {
        "the first owner ever seen, after a vacancy",
        .readings = {{POLL(1)}, {POLL(2), A}},
        .told = {"acquired", {1000, 2010}, {0, 0}, NEVER, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "an observer's start is no change, and the session's start bounds the age",
        .readings = {{POLL(1), A}, {POLL(3), A}},
        .told = {"", {10, 1010}, {0, 0}, NEVER, -1, 2000, 1000, "first seen held", DUTY_LED},
    },
    {
        "an observer's start on a vacant duty is no change",
        .readings = {{POLL(1)}, {POLL(2)}},
        .told = {"", {0, 0}, {0, 0}, NEVER, -1, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "a loss lies between the two readings",
        .readings = {{POLL(1)}, {POLL(2), A}, {POLL(4)}, {POLL(5)}},
        .told = {"acquired lost", {1000, 2010}, {2000, 4010}, NEVER, 0, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "the length of a term that was seen whole is at least the inner distance",
        .readings = {{POLL(1)}, {POLL(2), A}, {POLL(3), A}, {POLL(9), A}, {POLL(10)}},
        .told =
            {"acquired lost", {1000, 2010}, {9000, 10010}, NEVER, 6990, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "a term that was first seen held has no known length",
        .readings = {{POLL(1), A}, {POLL(9), A}, {POLL(10)}},
        .told = {"lost", {10, 1010}, {9000, 10010}, NEVER, -1, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "a takeover after a vacancy that three readings saw",
        .readings = {{POLL(1), A}, {POLL(2)}, {POLL(3)}, {POLL(4)}, {POLL(5), B}},
        .told = {"lost takeover",
                 {4000, 5010},
                 {1000, 2010},
                 {1990, 4010},
                 -1,
                 0,
                 1010,
                 "seen",
                 DUTY_LED},
    },
    {
        "a takeover between two readings took from nothing to all of the time between",
        .readings = {{POLL(1), A}, {POLL(2), B}},
        .told = {"takeover", {1000, 2010}, {1000, 2010}, {0, 1010}, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "the session of the new owner began after the loss: its acquisition did too",
        .readings = {{POLL(1), A}, {POLL(2)}, {POLL(5), LED(6, 4500, "b", "10.0.0.2")}},
        .told = {"lost takeover",
                 {4500, 5010},
                 {1000, 2010},
                 {2490, 4010},
                 -1,
                 0,
                 510,
                 "seen",
                 DUTY_LED},
    },
    {
        "a session that began after the reading by some other clock bounds nothing",
        .readings = {{POLL(1)}, {POLL(2), LED(5, 9000, "a", "10.0.0.1")}},
        .told = {"acquired", {1000, 2010}, {0, 0}, NEVER, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "the same instance in another session has returned, and that is no takeover",
        .readings = {{POLL(1), A}, {POLL(2), LED(8, 1500, "a", "10.0.0.1")}},
        .told = {"returned", {1500, 2010}, {1000, 2010}, NEVER, -1, 0, 510, "seen", DUTY_LED},
    },
    {
        "the same instance after a vacancy has returned too",
        .readings = {{POLL(1), A}, {POLL(2)}, {POLL(3), LED(8, 10, "a", "10.0.0.1")}},
        .told = {"lost returned", {2000, 3010}, {1000, 2010}, NEVER, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "the same session after a vacancy has returned: it may lock again",
        .readings = {{POLL(1), A}, {POLL(2)}, {POLL(3), A}},
        .told = {"lost returned", {2000, 3010}, {1000, 2010}, NEVER, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "the same name at another address is another instance",
        .readings = {{POLL(1), A}, {POLL(2), LED(8, 10, "a", "10.9.9.9")}},
        .told = {"takeover", {1000, 2010}, {1000, 2010}, {0, 1010}, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "an address that we may not see is no sign of another instance",
        .readings = {{POLL(1), A}, {POLL(2), LED(8, 10, "a", NULL)}},
        .told = {"returned", {1000, 2010}, {1000, 2010}, NEVER, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "sessions without a name are never the same instance",
        .readings = {{POLL(1), LED(5, 10, "", "10.0.0.1")}, {POLL(2), LED(8, 10, "", "10.0.0.1")}},
        .told = {"takeover", {1000, 2010}, {1000, 2010}, {0, 1010}, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "a pid that is used again by another session is another owner",
        .readings = {{POLL(1), A}, {POLL(2), LED(5, 1700, "b", "10.0.0.1")}},
        .told = {"takeover", {1700, 2010}, {1000, 2010}, {0, 1010}, -1, 0, 310, "seen", DUTY_LED},
    },
    {
        "a start that cannot be seen any more is not a change",
        .readings = {{POLL(1)},
                     {POLL(2), A},
                     {POLL(3), LED(5, 0, "a", "10.0.0.1")},
                     {POLL(4), LED(5, 0, "a", "10.0.0.1")}},
        .told = {"acquired", {1000, 2010}, {0, 0}, NEVER, -1, 2000, 1010, "seen", DUTY_LED},
    },
    {
        "a start that becomes visible bounds an age that had no bound",
        .readings = {{POLL(1), LED(5, 0, "a", "10.0.0.1")}, {POLL(2), A}},
        .told = {"", {10, 1010}, {0, 0}, NEVER, -1, 1000, 1000, "first seen held", DUTY_LED},
    },
    {
        "without privileges an age that nobody saw begin has no upper bound",
        .readings = {{POLL(1), LED(5, 0, "a", "10.0.0.1")}, {POLL(2), LED(5, 0, "a", "10.0.0.1")}},
        .told = {"", {0, 1010}, {0, 0}, NEVER, -1, 1000, -1, "first seen held", DUTY_LED},
    },
    {
        "a pid used again while its start could not be seen: nobody knows when it changed",
        .readings = {{POLL(1), A},
                     {POLL(2), LED(5, 0, "a", "10.0.0.1")},
                     {POLL(4), LED(5, 1700, "b", "10.0.0.1")}},
        .told = {"takeover", {1700, 4010}, {0, 4010}, {0, -1}, -1, 0, 2310, "seen", DUTY_LED},
    },
    {
        "another pid after a reading without starts is bounded as usual",
        .readings = {{POLL(1), A},
                     {POLL(2), LED(5, 0, "a", "10.0.0.1")},
                     {POLL(4), LED(6, 0, "b", "10.0.0.2")}},
        .told = {"takeover", {2000, 4010}, {2000, 4010}, {0, 2010}, -1, 0, 2010, "seen", DUTY_LED},
    },
    {
        "a gap is told once, and a takeover inside it has the gap's bounds",
        .readings =
            {{POLL(1), A}, {POLL(2), .unread = true}, {POLL(3), .unread = true}, {POLL(9), B}},
        .told = {"unknown takeover",
                 {1000, 9010},
                 {1000, 9010},
                 {0, 8010},
                 -1,
                 0,
                 8010,
                 "seen",
                 DUTY_LED},
    },
    {
        "the same owner on both sides of a gap has not changed",
        .readings = {{POLL(1), A}, {POLL(2), .unread = true}, {POLL(3), A}},
        .told = {"unknown", {10, 1010}, {0, 0}, NEVER, -1, 2000, 1000, "first seen held", DUTY_LED},
    },
    {
        "a second gap is told again",
        .readings = {{POLL(1)}, {POLL(2), .unread = true}, {POLL(3)}, {POLL(4), .unread = true}},
        .told = {"unknown unknown", {0, 0}, {0, 0}, NEVER, -1, -1, -1, NULL, DUTY_UNKNOWN},
    },
    {
        "a duty that was never read has not become unknown; its first reading is a first sight",
        .readings = {{POLL(1), .unread = true}, {POLL(2), .unread = true}, {POLL(3), A}},
        .told = {"", {10, 3010}, {0, 0}, NEVER, -1, 0, 3000, "first seen held", DUTY_LED},
    },
    {
        "a standby that is promoted: locks of before the promotion were never read",
        .readings = {{POLL(1), .unread = true}, {POLL(2)}, {POLL(3), B}},
        .told = {"acquired", {2000, 3010}, {0, 0}, NEVER, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "a duty that gets another key is a new duty",
        .readings = {{POLL(1), A}, {POLL(2), B, .key = 77}},
        .told = {"", {20, 2010}, {0, 0}, NEVER, -1, 0, 1990, "first seen held", DUTY_LED},
    },
    {
        "a duty that was not listed for a poll is a new duty",
        .readings = {{POLL(1), A}, {POLL(2), .missing = true}, {POLL(3), B}},
        .told = {"", {20, 3010}, {0, 0}, NEVER, -1, 0, 2990, "first seen held", DUTY_LED},
    },

    /* the server */
    {
        "a restart ends the owner's session, and the duty is vacant",
        .readings = {{POLL(1), A}, {POLL(3), .boot = 2500}},
        .told = {"restarted", {10, 1010}, {1000, 3010}, NEVER, -1, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "after a restart the same instance leads: one change, restarted",
        .readings = {{POLL(1), A}, {POLL(3), LED(5, 2600, "a", "10.0.0.1"), .boot = 2500}},
        .told = {"restarted", {2600, 3010}, {1000, 3010}, NEVER, -1, 0, 410, "seen", DUTY_LED},
    },
    {
        "after a restart the same pid is another session also where no start can be seen",
        .readings = {{POLL(1), LED(5, 0, "a", "10.0.0.1")},
                     {POLL(3), LED(5, 0, "a", "10.0.0.1"), .boot = 2500}},
        .told = {"restarted", {1000, 3010}, {1000, 3010}, NEVER, -1, 0, 2010, "seen", DUTY_LED},
    },
    {
        "after a restart another instance leads: a takeover",
        .readings = {{POLL(1), A}, {POLL(3), LED(6, 2600, "b", "10.0.0.2"), .boot = 2500}},
        .told = {"takeover", {2600, 3010}, {1000, 3010}, {0, 2010}, -1, 0, 410, "seen", DUTY_LED},
    },
    {
        "a restart during a vacancy is no change of the duty",
        .readings = {{POLL(1), A},
                     {POLL(2)},
                     {POLL(4), .boot = 3500},
                     {POLL(5), LED(5, 10, "a", "10.0.0.1"), .boot = 3500}},
        .told = {"lost returned", {4000, 5010}, {1000, 2010}, NEVER, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "a restart inside a gap is still seen at its end",
        .readings = {{POLL(1), A},
                     {POLL(3), .unread = true, .boot = 2500},
                     {POLL(4), .boot = 2500}},
        .told =
            {"unknown restarted", {10, 1010}, {1000, 4010}, NEVER, -1, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "another server that ran already has another clock: only its own readings are bounds",
        .readings = {{POLL(5), LED(5, 10, "a", "10.0.0.1"), .boot = 1},
                     {POLL(6), .boot = 2000},
                     {POLL(7), .boot = 2000},
                     {POLL(8), LED(6, 20, "b", "10.0.0.2"), .boot = 2000}},
        .told = {"restarted takeover",
                 {7000, 8010},
                 {0, 6010},
                 {990, -1},
                 -1,
                 0,
                 1010,
                 "seen",
                 DUTY_LED},
    },
    {
        "a clock that was set back makes no takeover long: a direct one",
        .readings = {{POLL(600), A}, {POLL(2), B}},
        .told = {"takeover", {0, 2010}, {0, 2010}, {0, -1}, -1, 0, -1, "seen", DUTY_LED},
    },
    {
        "a clock that was set back during a vacancy makes no takeover short",
        .readings = {{POLL(600), A}, {POLL(601)}, {POLL(2)}, {POLL(3), B}},
        .told = {"lost takeover", {2000, 3010}, {0, 0}, {0, -1}, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "a clock that was set back under an owner leaves an age of at least 0",
        .readings = {{POLL(600)}, {POLL(601), A}, {POLL(2), A}, {POLL(3), A}},
        .told = {"acquired", {0, 2010}, {0, 0}, NEVER, -1, 1000, -1, "first seen held", DUTY_LED},
    },

    /* the ledger: the acquisition */
    {
        "a term that began after the grant bounds the acquisition from above",
        .readings = {{POLL(1), A}, {POLL(2), B, .term = {2, 6, 20, 1400, .instance = "b"}}},
        .told = {"takeover", {1000, 1400}, {1000, 2010}, {0, 400}, -1, 610, 0, "ledger", DUTY_LED},
    },
    {
        "a term that is read one poll later sharpens as well",
        .readings = {{POLL(1), A},
                     {POLL(2), B},
                     {POLL(3), B, .term = {2, 6, 20, 1400, .instance = "b"}},
                     {POLL(4), B, .term = {2, 6, 20, 1400, .instance = "b"}}},
        .told = {"takeover", {1000, 1400}, {1000, 2010}, {0, 400}, -1, 2610, 0, "ledger", DUTY_LED},
    },
    {
        "what the ledger said stays true when it cannot be read for a while",
        .readings = {{POLL(1), A},
                     {POLL(2), B, .term = {2, 6, 20, 1400, .instance = "b"}},
                     {POLL(3), B}},
        .told = {"takeover", {1000, 1400}, {1000, 2010}, {0, 400}, -1, 1610, 400, "seen", DUTY_LED},
    },
    {
        "a term begun long after the lock was seen held does not make its owner young",
        .readings = {{POLL(1), A},
                     {POLL(2), B},
                     {POLL(60), B, .term = {2, 6, 20, 59000, .instance = "b"}}},
        .told =
            {"takeover", {1000, 2010}, {1000, 2010}, {0, 1010}, -1, 58000, 1010, "seen", DUTY_LED},
    },
    {
        "nor where it was first seen held",
        .readings = {{POLL(2), B}, {POLL(60), B, .term = {2, 6, 20, 59000, .instance = "b"}}},
        .told = {"", {20, 2010}, {0, 0}, NEVER, -1, 58000, 1990, "first seen held", DUTY_LED},
    },
    {
        "a term of an earlier tenure of the same session is not of this one",
        .readings = {{POLL(5), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(6), B, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(7), A, .term = {1, 5, 10, 500, .instance = "a"}}},
        .told = {"takeover takeover",
                 {6000, 7010},
                 {6000, 7010},
                 {0, 1010},
                 0,
                 0,
                 1010,
                 "seen",
                 DUTY_LED},
    },
    {
        "an observer that has just started reads the acquisition in the ledger",
        .readings = {{POLL(60), B, .term = {2, 6, 20, 1400, .instance = "b"}}},
        .told = {"", {20, 1400}, {0, 0}, NEVER, -1, 58610, 0, "ledger", DUTY_LED},
    },
    {
        "and keeps it as a bound where the ledger cannot be read any more",
        .readings = {{POLL(60), B, .term = {2, 6, 20, 1400, .instance = "b"}}, {POLL(61), B}},
        .told = {"", {20, 1400}, {0, 0}, NEVER, -1, 59610, 1380, "first seen held", DUTY_LED},
    },
    {
        "the open term of a session that is gone is not believed",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(2), B, .term = {1, 5, 10, 500, .instance = "a"}}},
        .told = {"takeover", {1000, 2010}, {1000, 2010}, {0, 1010}, 500, 0, 1010, "seen", DUTY_LED},
    },
    {
        "a term of the same pid and another start is not believed",
        .readings = {{POLL(1)}, {POLL(2), A, .term = {1, 5, 9, 1500, .instance = "a"}}},
        .told = {"acquired", {1000, 2010}, {0, 0}, NEVER, -1, 0, 1010, "seen", DUTY_LED},
    },

    /* the ledger: the loss */
    {
        "an owner that ended its term bounds the loss from below",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(2), .term = {1, 5, 10, 500, .ended = 1800, .reason = "shutdown"}}},
        .told = {"lost", {10, 500}, {1800, 2010}, NEVER, 1300, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "also where that is read only later, and then the takeover is sharper",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(2)},
                     {POLL(3), B, .term = {2, 6, 20, 2700, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 1800, .reason = "shutdown"}}},
        .told = {"lost takeover",
                 {2000, 2700},
                 {1800, 2010},
                 {0, 900},
                 1300,
                 310,
                 0,
                 "ledger",
                 DUTY_LED},
    },
    {
        "an end that is older than the reading which saw it held bounds nothing",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .ended = 900, .reason = "shutdown"}},
                     {POLL(2), .term = {1, 5, 10, 500, .ended = 900, .reason = "shutdown"}}},
        .told = {"lost", {10, 1010}, {1000, 2010}, NEVER, 400, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "a term that its successor superseded says nothing of the loss",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(3), B, .term = {2, 6, 20, 2700, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 2700, .reason = "superseded"}}},
        .told =
            {"takeover", {1000, 2700}, {1000, 3010}, {0, 1700}, 500, 310, 0, "ledger", DUTY_LED},
    },
    {
        "the end of a term that lay between is not the end of the one that was seen",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(9), B, .term = {30, 6, 20, 8700, .refused = 8500, .instance = "b"},
                      .previous = {20, .acquired = 3000, .ended = 8000, .reason = "shutdown"}},
                     {POLL(10), B, .term = {30, 6, 20, 8700, .refused = 8500, .instance = "b"},
                      .previous = {20, .acquired = 3000, .ended = 8000, .reason = "shutdown"}}},
        .told =
            {"takeover", {1000, 8700}, {1000, 9010}, {0, 7700}, 500, 1310, 0, "ledger", DUTY_LED},
    },
    {
        "a refusal says that it was still held, where no term lay between; generations may jump",
        .readings = {{POLL(1), A, .term = {100, 5, 10, 500, .instance = "a"}},
                     {POLL(3), B, .term = {900, 6, 20, 2700, .refused = 2400, .instance = "b"},
                      .previous = {100, .acquired = 500, .ended = 2700, .reason = "superseded"}}},
        .told =
            {"takeover", {1000, 2700}, {2400, 3010}, {0, 300}, 1900, 310, 0, "ledger", DUTY_LED},
    },
    {
        "a refusal counts also where its term is read a poll later",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(3), B},
                     {POLL(4), B, .term = {2, 6, 20, 2700, .refused = 2400, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 2700, .reason = "superseded"}}},
        .told =
            {"takeover", {1000, 2700}, {2400, 3010}, {0, 300}, 500, 1310, 0, "ledger", DUTY_LED},
    },
    {
        "a refusal after the duty was seen vacant was by somebody whom nobody saw",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(2), .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(9), B, .term = {2, 6, 20, 8700, .refused = 8400, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 8700, .reason = "superseded"}}},
        .told = {"lost takeover",
                 {2000, 8700},
                 {1000, 2010},
                 {0, 7700},
                 500,
                 310,
                 0,
                 "ledger",
                 DUTY_LED},
    },
    {
        "a refusal by an owner without a term, seen between, is not the loss of the term before",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(2), C, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(4), B, .term = {2, 6, 20, 3700, .refused = 3400, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 3700, .reason = "superseded"}}},
        .told = {"takeover takeover",
                 {2000, 3700},
                 {2000, 4010},
                 {0, 1700},
                 0,
                 310,
                 0,
                 "ledger",
                 DUTY_LED},
    },
    {
        "a refusal over a restart may be another server's",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(4), LED(6, 2100, "b", "10.0.0.2"), .boot = 2000,
                      .term = {2, 6, 2100, 3700, .refused = 3400, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 3700, .reason = "superseded"}}},
        .told =
            {"takeover", {2100, 3700}, {1000, 4010}, {0, 2700}, 500, 310, 0, "ledger", DUTY_LED},
    },
    {
        "a refusal that is older than the server is another server's",
        .readings = {{POLL(1), A, .term = {1, 5, 10, 500, .instance = "a"}},
                     {POLL(3), .boot = 2000},
                     {POLL(4), LED(6, 2100, "b", "10.0.0.2"), .boot = 2000,
                      .term = {2, 6, 2100, 3700, .refused = 1900, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 3700, .reason = "superseded"}}},
        .told = {"restarted takeover",
                 {3000, 3700},
                 {1000, 3010},
                 {0, 2700},
                 500,
                 310,
                 0,
                 "ledger",
                 DUTY_LED},
    },
    {
        "the exporter's own restart: the ledger tells of the last takeover",
        .readings = {{POLL(60), B, .term = {2, 6, 20, 1400, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 1300, .reason = "shutdown",
                                   .instance = "a"}}},
        .told = {"", {20, 1400}, {0, 0}, {0, 100}, 800, 58610, 0, "ledger", DUTY_LED},
    },
    {
        "or its refusal, where the owner before did not end its term",
        .readings = {{POLL(60), B, .term = {2, 6, 20, 1400, .refused = 1150, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 1400, .reason = "superseded",
                                   .instance = "a"}}},
        .told = {"", {20, 1400}, {0, 0}, {0, 250}, -1, 58610, 0, "ledger", DUTY_LED},
    },
    {
        "but not a refusal that is older than the server",
        .readings = {{POLL(60), LED(6, 20, "b", "10.0.0.2"), .boot = 1200,
                      .term = {2, 6, 20, 1400, .refused = 1150, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 1400, .reason = "superseded",
                                   .instance = "a"}}},
        .told = {"", {20, 1400}, {0, 0}, NEVER, -1, 58610, 0, "ledger", DUTY_LED},
    },
    {
        "and not where the same instance led before",
        .readings = {{POLL(60), B, .term = {2, 6, 20, 1400, .instance = "b"},
                      .previous = {1, .acquired = 500, .ended = 1300, .reason = "shutdown",
                                   .instance = "b"}}},
        .told = {"", {20, 1400}, {0, 0}, NEVER, 800, 58610, 0, "ledger", DUTY_LED},
    },
    {
        "a takeover that was seen is not replaced by one that is recorded",
        .readings = {{POLL(1), A},
                     {POLL(3), B},
                     {POLL(4), B, .term = {9, 6, 20, 2900, .instance = "b"},
                      .previous = {8, .acquired = 500, .ended = 700, .reason = "shutdown",
                                   .instance = "x"}}},
        .told =
            {"takeover", {1000, 2900}, {1000, 3010}, {0, 1900}, -1, 1110, 0, "ledger", DUTY_LED},
    },
    {
        "a vacant duty's last term is read in the ledger by an observer that has just started",
        .readings = {{POLL(60), .term = {1, 5, 10, 500, .ended = 900, .reason = "shutdown"}}},
        .told = {"", {0, 0}, {0, 0}, NEVER, 400, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "an old recorded term is not the length of a later one without a term",
        .readings = {{POLL(1), .term = {1, 9, 10, 500, .ended = 900, .reason = "shutdown"}},
                     {POLL(2), A, .term = {1, 9, 10, 500, .ended = 900, .reason = "shutdown"}},
                     {POLL(60), A, .term = {1, 9, 10, 500, .ended = 900, .reason = "shutdown"}},
                     {POLL(61), .term = {1, 9, 10, 500, .ended = 900, .reason = "shutdown"}}},
        .told = {"acquired lost",
                 {1000, 2010},
                 {60000, 61010},
                 NEVER,
                 57990,
                 -1,
                 -1,
                 NULL,
                 DUTY_VACANT},
    },

    /* contested */
    {
        "a live session whose term another's lock contradicts, once, may be a moment's difference",
        .readings = {{POLL(1), B}, {POLL(2), B, .term = {1, 5, 10, 500}, .alive = true}},
        .told = {"", {20, 1010}, {0, 0}, NEVER, -1, 1000, 990, "first seen held", DUTY_LED},
    },
    {
        "the same pair in two polls running is contested",
        .readings = {{POLL(1), B, .term = {1, 5, 10, 500}, .alive = true},
                     {POLL(2), B, .term = {1, 5, 10, 500}, .alive = true}},
        .told = {"", {20, 1010}, {0, 0}, NEVER, -1, 1000, 990, "first seen held", DUTY_CONTESTED},
    },
    {
        "another owner is another pair",
        .readings = {{POLL(1), B, .term = {1, 5, 10, 500}, .alive = true},
                     {POLL(2), C, .term = {1, 5, 10, 500}, .alive = true}},
        .told = {"takeover", {1000, 2010}, {1000, 2010}, {0, 1010}, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "another term is another pair",
        .readings = {{POLL(1), B, .term = {1, 5, 10, 500}, .alive = true},
                     {POLL(2), B, .term = {2, 8, 10, 500}, .alive = true}},
        .told = {"", {20, 1010}, {0, 0}, NEVER, -1, 1000, 990, "first seen held", DUTY_LED},
    },
    {
        "polls with a gap between are not running",
        .readings = {{POLL(1), B, .term = {1, 5, 10, 500}, .alive = true},
                     {POLL(2), .unread = true},
                     {POLL(3), B, .term = {1, 5, 10, 500}, .alive = true}},
        .told = {"unknown", {20, 1010}, {0, 0}, NEVER, -1, 2000, 990, "first seen held", DUTY_LED},
    },

    /* leases */
    {
        "a lease that ran out was lost when its row says",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 3500},
         {POLL(2), .name = "a", .expires = 4500},
         {POLL(5), .name = "a", .expires = 4500}},
        {"lost", {0, 1010}, {4500, 5010}, NEVER, -1, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "a lease that was renewed and then ran out inside a gap: the row of now counts",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 3500}, {POLL(9), .name = "a", .expires = 7700}},
        {"lost", {0, 1010}, {7700, 9010}, NEVER, -1, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "a lease that another has now may have been released before it would have run out",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 4000}, {POLL(9), .name = "b", .expires = 20000}},
        {"takeover", {1000, 9010}, {1000, 9010}, {0, 8010}, -1, 0, 8010, "seen", DUTY_LED},
    },
    {
        "a lease that is renewed has not changed",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 4000}, {POLL(3), .name = "a", .expires = 6000}},
        {"", {0, 1010}, {0, 0}, NEVER, -1, 2000, -1, "first seen held", DUTY_LED},
    },
    {
        "the same holder with another acquisition has returned",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 4000, .acquired = 500},
         {POLL(8), .name = "a", .expires = 9000, .acquired = 7100}},
        {"returned", {7100, 8010}, {1000, 8010}, NEVER, 500, 910, 0, "lease", DUTY_LED},
    },
    {
        "an acquisition time that becomes visible is no change",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 4000},
         {POLL(2), .name = "a", .expires = 5000, .acquired = 500}},
        {"", {500, 1010}, {0, 0}, NEVER, -1, 1510, 0, "lease", DUTY_LED},
    },
    {
        "a lease that ran out and was taken again by the same holder between two readings, where "
        "the row has no acquisition time, cannot be told from one that was held",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 2000}, {POLL(8), .name = "a", .expires = 9000}},
        {"", {0, 1010}, {0, 0}, NEVER, -1, 7000, -1, "first seen held", DUTY_LED},
    },
    {
        "a lease's own acquisition precedes the commit that made it visible",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 1500},
         {POLL(2), .name = "a", .expires = 1500},
         {POLL(3), .name = "b", .expires = 9000, .acquired = 2600}},
        {"lost takeover", {2600, 3010}, {1500, 2010}, {590, 1510}, -1, 410, 0, "lease", DUTY_LED},
    },
    {
        "an acquisition of before the vacancy that was seen is not of this lease",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 1500, .acquired = 500},
         {POLL(2), .name = "a", .expires = 1500, .acquired = 500},
         {POLL(3), .name = "a", .expires = 9000, .acquired = 500}},
        {"lost returned", {2000, 3010}, {1500, 2010}, NEVER, 1000, 0, 1010, "seen", DUTY_LED},
    },
    {
        "an acquisition in the future is some other clock's",
        MECHANISM_LEASE,
        {{POLL(1)}, {POLL(2), .name = "a", .expires = 9000, .acquired = 5000}},
        {"acquired", {1000, 2010}, {0, 0}, NEVER, -1, 0, 1010, "seen", DUTY_LED},
    },
    {
        "a lease outlives the server's restart",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 9000},
         {POLL(4), .name = "a", .expires = 9000, .boot = 3000}},
        {"", {0, 1010}, {0, 0}, NEVER, -1, 3000, -1, "first seen held", DUTY_LED},
    },
    {
        "a lease that ran out while the server restarted was lost, not restarted",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 2000},
         {POLL(4), .name = "a", .expires = 2000, .boot = 3000}},
        {"lost", {0, 1010}, {2000, 4010}, NEVER, -1, -1, -1, NULL, DUTY_VACANT},
    },
    {
        "a lease taken again by its holder over a restart has returned",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 2000, .acquired = 500},
         {POLL(4), .name = "a", .expires = 9000, .acquired = 3500, .boot = 3000}},
        {"returned", {3500, 4010}, {1000, 4010}, NEVER, 500, 510, 0, "lease", DUTY_LED},
    },
    {
        "a term ended by the holder of a lease that had not run out bounds the loss",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 4000, .term = {1, .acquired = 500, .instance = "a"}},
         {POLL(3), .name = "b", .expires = 9000, .term = {2, .acquired = 2500, .instance = "b"},
          .previous = {1, .acquired = 500, .ended = 2000, .reason = "released"}}},
        {"takeover", {2500, 3010}, {2000, 3010}, {0, 1010}, 1500, 510, 0, "ledger", DUTY_LED},
    },
    {
        "a term ended by the holder of a lease that may have run out before bounds nothing",
        MECHANISM_LEASE,
        {{POLL(1), .name = "a", .expires = 1700, .term = {1, .acquired = 500, .instance = "a"}},
         {POLL(3), .name = "b", .expires = 9000, .term = {2, .acquired = 2500, .instance = "b"},
          .previous = {1, .acquired = 500, .ended = 2000, .reason = "released"}}},
        {"takeover", {2500, 3010}, {1000, 3010}, {0, 2010}, 1500, 510, 0, "ledger", DUTY_LED},
    },
    {
        "an observer that has just started does not take a late end for the loss of a lease",
        MECHANISM_LEASE,
        {{POLL(60), .name = "b", .expires = 99000, .term = {2, .acquired = 2500, .instance = "b"},
          .previous = {1, .acquired = 500, .ended = 2000, .reason = "released", .instance = "a"}}},
        {"", {2500, 60010}, {0, 0}, NEVER, 1500, 57510, 0, "ledger", DUTY_LED},
    },
};

static int64_t instant(int64_t ms)
{
    return ms ? ORIGIN_US + ms * 1000 : TIME_UNKNOWN;
}

static struct term term_of(const struct given_term *given)
{
    return (struct term){
        .generation = given->generation ? given->generation : -1,
        .pid = given->pid ? given->pid : -1,
        .backend_start_us = instant(given->start),
        .acquired_us = instant(given->acquired),
        .last_refused_us = instant(given->refused),
        .ended_us = instant(given->ended),
        .end_reason = given->reason,
        .instance = given->instance,
    };
}

/* Strings are copied: a trail must not point into the picture before. */
static void read_lock(struct duty *duty, const struct reading *reading, struct arena *arena)
{
    duty->owners = reading->pid != 0;
    if (!duty->owners)
        return;
    duty->owner = (struct owner){
        .pid = reading->pid,
        .backend_start_us = instant(reading->start),
        .acquired_us = TIME_UNKNOWN,
        .holder = arena_strdup(arena, reading->name),
        .application_name = arena_strdup(arena, reading->name),
        .client_addr = arena_strdup(arena, reading->address),
    };
}

static void read_lease(struct duty *duty, const struct reading *reading, struct arena *arena)
{
    duty->owners = reading->expires > reading->upper;
    duty->lease_expires_us = instant(reading->expires);
    duty->owner = (struct owner){
        .backend_start_us = TIME_UNKNOWN,
        .acquired_us = instant(reading->acquired),
        .holder = arena_strdup(arena, reading->name ? reading->name : ""),
    };
}

/* As fill_term does it. */
static void match_term(struct duty *duty, bool alive)
{
    bool open = duty->term.generation >= 0 && duty->term.ended_us == TIME_UNKNOWN;
    if (duty->mechanism == MECHANISM_LEASE)
        duty->term_begun =
            open && duty->owners > 0 && text_equal(duty->term.instance, duty->owner.holder);
    else
        duty->term_begun = open && duty->owners > 0 && duty->owner.pid == duty->term.pid &&
                           duty->owner.backend_start_us == duty->term.backend_start_us;
    duty->term_alive = alive;
}

static struct snapshot *picture(const struct reading *reading, enum mechanism mechanism)
{
    struct snapshot *snapshot = snapshot_new();
    snapshot->facts.postmaster_start_us = instant(reading->boot ? reading->boot : BOOT);
    snapshot->read_lower_us = instant(reading->lower);
    snapshot->read_upper_us = instant(reading->upper);
    if (reading->missing)
        return snapshot;
    snapshot->n_duties = 1;
    struct duty *duty = snapshot->duties = arena_array(snapshot->arena, 1, sizeof *duty);
    duty_init(duty);
    duty->name = "jobs/x";
    duty->mechanism = mechanism;
    duty->key = lock_key_from_int8(reading->key ? reading->key : 42);
    duty->key_text = "42";
    if (reading->unread)
        return snapshot;
    duty->read = true;
    duty->read_lower_us = snapshot->read_lower_us;
    duty->read_upper_us = snapshot->read_upper_us;
    duty->term = term_of(&reading->term);
    duty->previous = term_of(&reading->previous);
    (mechanism == MECHANISM_LEASE ? read_lease : read_lock)(duty, reading, snapshot->arena);
    match_term(duty, reading->alive);
    return snapshot;
}

/* Goes through a scenario; the rules that came, as words. The last picture is the caller's. */
static struct snapshot *play(const struct scenario *scenario, char *rules_out, size_t size)
{
    struct snapshot *last = NULL;
    FILE *out = fmemopen(rules_out, size, "w");
    const char *separator = "";
    for (size_t i = 0; i < READINGS && scenario->readings[i].upper; i++) {
        struct snapshot *next = picture(&scenario->readings[i], scenario->mechanism);
        history_advance(last, next);
        snapshot_unref(last);
        last = next;
        for (size_t j = 0; j < next->n_events; j++, separator = " ")
            (void)fprintf(out, "%s%s", separator, rules[next->events[j].rule].id);
    }
    (void)putc('\0', out);
    (void)fclose(out);
    return last;
}

static bool wrong(const char *words, const char *what, int64_t got, int64_t want)
{
    if (got == want)
        return false;
    print_error("%s: %s is %lld, not %lld\n", words, what, (long long)got, (long long)want);
    return true;
}

static bool wrong_words(const char *words, const char *what, const char *got, const char *want)
{
    if (text_equal(got, want))
        return false;
    print_error("%s: %s \"%s\", not \"%s\"\n", words, what, got ? got : "-", want ? want : "-");
    return true;
}

static int64_t ms_of(int64_t us)
{
    return us == TIME_UNKNOWN ? 0 : (us - ORIGIN_US) / 1000;
}

static int64_t span_ms(int64_t us)
{
    return us < 0 ? us : us / 1000;
}

static int check(const struct scenario *scenario)
{
    char got_rules[256];
    struct snapshot *last = play(scenario, got_rules, sizeof got_rules);
    const struct duty *duty = &last->duties[0];
    const struct trail *trail = &duty->trail;
    const struct told *told = &scenario->told;
    const char *words = scenario->words;
    int bad = 0;
    bad += wrong_words(words, "rules are", got_rules, told->rules);
    bad += wrong(words, "acquired from", ms_of(trail->acquired_lower_us), told->acquired[0]);
    bad += wrong(words, "acquired to", ms_of(trail->acquired_upper_us), told->acquired[1]);
    bad += wrong(words, "lost from", ms_of(trail->lost_lower_us), told->lost[0]);
    bad += wrong(words, "lost to", ms_of(trail->lost_upper_us), told->lost[1]);
    bad += wrong(words, "takeover from", span_ms(trail->takeover_lower_us), told->takeover[0]);
    bad += wrong(words, "takeover to", span_ms(trail->takeover_upper_us), told->takeover[1]);
    bad += wrong(words, "last term", span_ms(trail->last_term_us), told->last_term);
    bad += wrong(words, "age", span_ms(duty->age_us), told->age);
    bad += wrong(words, "uncertainty", span_ms(duty->age_uncertainty_us), told->uncertainty);
    bad += wrong_words(words, "source is", duty->acquired_source, told->source);
    bad += wrong(words, "state", (int64_t)duty->state, (int64_t)told->state);
    snapshot_unref(last);
    return bad;
}

static void test_scenarios(void **state)
{
    int bad = 0;
    (void)state;
    for (size_t i = 0; i < COUNT(scenarios); i++)
        bad += check(&scenarios[i]);
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scenarios),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
