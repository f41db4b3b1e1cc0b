/* SPDX-License-Identifier: PostgreSQL */
/* Bytes with a count of those who hold them. */
#include "exporter/body.h"

#include <stdlib.h>

#include "base/memory.h"

struct body *body_new(char *data, size_t size)
{
    struct body *body = xmalloc(sizeof *body);
    atomic_init(&body->references, 1);
    body->size = size;
    body->data = data;
    return body;
}

struct body *body_ref(struct body *body)
{
    atomic_fetch_add_explicit(&body->references, 1, memory_order_relaxed);
    return body;
}

void body_unref(struct body *body)
{
    if (!body || atomic_fetch_sub_explicit(&body->references, 1, memory_order_acq_rel) != 1)
        return;
    free(body->data);
    free(body);
}
