/* SPDX-License-Identifier: PostgreSQL */
/* What is on its way to the terminal. A terminal may be stopped, or be one that nobody reads any
 * more: then bytes wait here, and the program does not. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct outlet {
    int fd; /* of its own, and non-blocking, so that the shell's stays as it is */
    char *bytes;
    size_t n, sent, room;
};

/* To what fd is open on. */
void outlet_open(struct outlet *outlet, int fd);
void outlet_close(struct outlet *outlet); /* what still waits is dropped */

/* Takes what a file holds, and empties it. */
void outlet_take(struct outlet *outlet, int file);

/* Takes what a pipe holds, whose end does not wait for more. */
void outlet_take_pipe(struct outlet *outlet, int from);

/* Takes bytes. */
void outlet_add(struct outlet *outlet, const char *bytes, size_t size);

/* Writes what the terminal takes now; true if nothing is left to write. */
bool outlet_flush(struct outlet *outlet);

/* The same, for so long at most. */
bool outlet_drain(struct outlet *outlet, int64_t most_us);
