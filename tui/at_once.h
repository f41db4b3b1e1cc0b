/* SPDX-License-Identifier: PostgreSQL */
/* Several servers at once: one that does not answer delays no other. */
#pragma once

#include <stddef.h>

/* Calls deed with each item, of that size, on a thread of its own, and returns when all are done.
 */
void at_once(void *items, size_t n, size_t size, void (*deed)(void *item));
