/* SPDX-License-Identifier: PostgreSQL */
/* Advisory lock keys: decoding, printing, deriving. */
#include "pg/key.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <openssl/sha.h>

#include "base/text.h"

enum { DUTY_NAME_MAX = 48 };

struct lock_key lock_key_from_int8(int64_t key)
{
    uint64_t bits = (uint64_t)key;
    return (struct lock_key){(uint32_t)(bits >> 32), (uint32_t)bits, LOCK_OBJSUBID_INT8};
}

struct lock_key lock_key_from_pair(int32_t a, int32_t b)
{
    return (struct lock_key){(uint32_t)a, (uint32_t)b, LOCK_OBJSUBID_PAIR};
}

int64_t lock_key_to_int8(struct lock_key key)
{
    return (int64_t)(((uint64_t)key.classid << 32) | key.objid);
}

bool lock_key_equal(struct lock_key a, struct lock_key b)
{
    return lock_key_compare(a, b) == 0;
}

int lock_key_compare(struct lock_key a, struct lock_key b)
{
    if (a.objsubid != b.objsubid)
        return a.objsubid < b.objsubid ? -1 : 1;
    if (a.classid != b.classid)
        return a.classid < b.classid ? -1 : 1;
    if (a.objid != b.objid)
        return a.objid < b.objid ? -1 : 1;
    return 0;
}

void lock_key_format(struct lock_key key, char out[LOCK_KEY_TEXT_SIZE])
{
    if (key.objsubid == LOCK_OBJSUBID_INT8)
        (void)snprintf(out, LOCK_KEY_TEXT_SIZE, "%" PRId64, lock_key_to_int8(key));
    else if (key.objsubid == LOCK_OBJSUBID_PAIR)
        (void)snprintf(out, LOCK_KEY_TEXT_SIZE, "%" PRId32 ",%" PRId32, (int32_t)key.classid,
                       (int32_t)key.objid);
    else
        (void)snprintf(out, LOCK_KEY_TEXT_SIZE, "objsubid:%u,classid:%" PRIu32 ",objid:%" PRIu32,
                       key.objsubid, key.classid, key.objid);
}

static bool parse_int4(const char *text, size_t size, int32_t *ret_value)
{
    char copy[16];
    int64_t value = 0;
    if (size >= sizeof copy)
        return false;
    memcpy(copy, text, size);
    copy[size] = '\0';
    if (!text_to_int64(copy, &value) || value < INT32_MIN || value > INT32_MAX)
        return false;
    *ret_value = (int32_t)value;
    return true;
}

bool lock_key_parse(const char *text, struct lock_key *ret_key)
{
    const char *comma = strchr(text, ',');
    int64_t key = 0;
    int32_t a = 0, b = 0;
    if (!comma) {
        if (!text_to_int64(text, &key))
            return false;
        *ret_key = lock_key_from_int8(key);
        return true;
    }
    if (!parse_int4(text, (size_t)(comma - text), &a) ||
        !parse_int4(comma + 1, strlen(comma + 1), &b))
        return false;
    *ret_key = lock_key_from_pair(a, b);
    return true;
}

/* The length of one part of a duty's name at text: [a-z0-9][a-z0-9._-]*, 0 if there is none. */
static size_t name_part(const char *text)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    if (strspn(text, first) == 0)
        return 0;
    return strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789._-");
}

bool duty_name_valid(const char *name)
{
    size_t namespace = name_part(name);
    if (namespace == 0 || name[namespace] != '/')
        return false;
    size_t rest = name_part(name + namespace + 1);
    return rest > 0 && name[namespace + 1 + rest] == '\0' && strlen(name) <= DUTY_NAME_MAX;
}

bool lock_key_derive(const char *environment, const char *duty, int version,
                     struct lock_key *ret_key, struct error *err)
{
    if (version != 1)
        return error_set(err, ERROR_USAGE,
                         "could not derive a key: version %d is not known, only 1", version);
    if (!duty_name_valid(duty))
        return error_set(
            err, ERROR_USAGE,
            "could not derive a key: \"%s\" is not namespace/name of [a-z0-9._-], at most %d bytes",
            duty, DUTY_NAME_MAX);
    if (!*environment)
        return error_set(err, ERROR_USAGE,
                         "could not derive a key of \"%s\": the environment is empty", duty);
    char text[1024];
    int size = snprintf(text, sizeof text, "pgleader:1:%s:%s", environment, duty);
    if (size < 0 || (size_t)size >= sizeof text)
        return error_set(err, ERROR_USAGE,
                         "could not derive a key: the environment's name is too long");
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256((const unsigned char *)text, (size_t)size, digest);
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | digest[i];
    *ret_key = lock_key_from_int8((int64_t)bits);
    return true;
}
