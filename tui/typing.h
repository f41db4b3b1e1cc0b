/* SPDX-License-Identifier: PostgreSQL */
/* A text that is being typed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* True for the keys that change a text: characters, Backspace, and Ctrl-U, which empties it. */
bool typing_takes(int code);

/* Such a key. What does not fit into size bytes is left out; the text stays UTF-8. */
void typing_key(char *text, size_t size, int code);
