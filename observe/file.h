/* SPDX-License-Identifier: PostgreSQL */
/* Reads a small file whole: configuration, passwords, certificates. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* The bytes of a regular file of at most limit bytes, with a NUL behind them that is not counted;
 * *ret_text is from malloc and the caller's. Never blocks on a FIFO or a device. On failure err is
 * ERROR_SYSTEM and its message is the reason alone ("No such file or directory"). */
bool file_read(const char *path, size_t limit, char **ret_text, size_t *ret_size,
               struct error *err) MUSTCHECK;
