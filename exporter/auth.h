/* SPDX-License-Identifier: PostgreSQL */
/* Basic authentication (RFC 7617) of users whose passwords are kept as bcrypt hashes. bcrypt is
 * slow by design, so it runs on a thread of its own, one password at a time; who asks is answered
 * from memory, or waits, or is turned away at once when too many wait. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "exporter/web_config.h"

enum { AUTH_NAME_SIZE = 256, AUTH_PASSWORD_SIZE = 512 };

/* A name and a password, NUL-terminated. */
struct credentials {
    char name[AUTH_NAME_SIZE];
    char password[AUTH_PASSWORD_SIZE];
};

/* Reads the value of an Authorization header. False when it is not well-formed Basic, holds a NUL,
 * or is longer than fits; then *ret_credentials is all zeroes. */
bool credentials_parse(const char *authorization, struct credentials *ret_credentials) MUSTCHECK;

enum auth_verdict {
    AUTH_UNDECIDED, /* the waiter was parked; it is woken with another verdict */
    AUTH_GRANTED,
    AUTH_REFUSED,
    AUTH_BUSY, /* too many wait, or the server stops */
};

/* One who asks; lives in the asker's record. */
struct auth_waiter {
    enum auth_verdict verdict;
    struct auth_waiter *next;
};

struct auth;

/* Starts the thread. park is called on auth_check's thread before the waiter can be woken; wake on
 * any thread, once its verdict stands. Both are called with a lock held: they must not call back.
 */
struct auth *auth_new(void (*park)(struct auth_waiter *waiter),
                      void (*wake)(struct auth_waiter *waiter), struct error *err) MUSTCHECK;

/* Judges an Authorization header (NULL: there is none) by the users of config. origin names the
 * client's address: no address can fill the queue alone. One thread at a time. */
enum auth_verdict auth_check(struct auth *auth, const struct web_config *config,
                             const char *authorization, uint64_t origin,
                             struct auth_waiter *waiter);

/* Wakes whoever waits with AUTH_BUSY, which is the answer from then on to what is not in memory.
 * Returns soon, even where a password is just being hashed. */
void auth_stop(struct auth *auth);
void auth_free(struct auth *auth); /* after auth_stop; NULL is fine */
