/* SPDX-License-Identifier: PostgreSQL */
/* A finished answer: bytes that several connections may be sending at once. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>

struct body {
    atomic_int references;
    size_t size;
    char *data; /* from malloc; owned */
};

/* Takes ownership of data (from malloc); one reference. */
struct body *body_new(char *data, size_t size);
struct body *body_ref(struct body *body);
void body_unref(struct body *body); /* NULL is fine */
