/* SPDX-License-Identifier: PostgreSQL */
/* Advisory lock keys as pg_locks shows them, and the key that a duty's name derives. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { LOCK_OBJSUBID_INT8 = 1, LOCK_OBJSUBID_PAIR = 2 };
enum { LOCK_KEY_TEXT_SIZE = 64 };

/* The first half of the pairs that the ledger's own functions lock for a moment; never a duty. */
enum { LOCK_LEDGER_CLASSID = 1885826148 };

/* One lock of one database. Any other objsubid is an extension's own and is never decoded. */
struct lock_key {
    uint32_t classid;
    uint32_t objid;
    uint16_t objsubid;
};

struct lock_key lock_key_from_int8(int64_t key);
struct lock_key lock_key_from_pair(int32_t a, int32_t b);

/* The signed int8 of a key with objsubid 1. */
int64_t lock_key_to_int8(struct lock_key key);

bool lock_key_equal(struct lock_key a, struct lock_key b);
int lock_key_compare(struct lock_key a,
                     struct lock_key b); /* for qsort: objsubid, classid, objid */

/* "742118", "12,-7", or "objsubid:21,classid:1,objid:2" for an extension's. */
void lock_key_format(struct lock_key key, char out[LOCK_KEY_TEXT_SIZE]);

/* Reads "742118" or "12,-7"; false for anything else. */
bool lock_key_parse(const char *text, struct lock_key *ret_key) MUSTCHECK;

/* True for namespace/name, each part [a-z0-9][a-z0-9._-]*, at most 48 bytes in all. */
bool duty_name_valid(const char *name);

/* Key derivation version 1: the first 8 bytes, big-endian, of
 * sha256("pgleader:1:" || environment || ":" || duty), as a signed int8. The ledger's SQL function
 * derive_key gives the same. Fails for another version or an invalid name (ERROR_USAGE). */
bool lock_key_derive(const char *environment, const char *duty, int version,
                     struct lock_key *ret_key, struct error *err) MUSTCHECK;
