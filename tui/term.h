/* SPDX-License-Identifier: PostgreSQL */
/* The terminal: the only module that knows curses. Whatever ends the program, the terminal is as it
 * was before. */
#pragma once

#include "base/error.h"
#include "tui/grid.h"
#include "tui/keys.h"

struct terminal;

/* True if standard input and output are a terminal that can move its cursor. */
bool term_usable(void);

/* Takes the terminal. Standard error is kept aside meanwhile, and shown by term_close. */
bool term_open(struct terminal **ret_term, struct error *err) MUSTCHECK;
void term_close(struct terminal *term); /* NULL is fine */

/* True if the locale's characters are Unicode. */
bool term_unicode(void);

/* The size as the kernel has it now. */
void term_size(const struct terminal *term, int *ret_width, int *ret_height);

/* After SIGWINCH. */
void term_resize(struct terminal *term);

/* Draws what is different; all of it after term_redraw. Never waits for the terminal. */
void term_draw(struct terminal *term, const struct grid *grid);
void term_redraw(struct terminal *term);

/* While the terminal has not taken all that was drawn: the descriptor to wait for until it can be
 * written to. -1: it has. */
int term_busy(struct terminal *term);

/* A code of enum key_code or a character; CODE_NONE: no key is pressed. Never waits but for the
 * rest of an escape sequence (25 ms). */
int term_key(struct terminal *term);

/* A sequence that draws nothing and moves nothing, after all that was drawn before. */
void term_send(struct terminal *term, const char *sequence);

/* What was typed ahead is forgotten. */
void term_forget_keys(struct terminal *term);

/* Gives the terminal back and stops, as Ctrl-Z wants it. */
void term_suspend(struct terminal *term);

/* After SIGCONT: takes it again, whoever stopped the program. */
void term_resume(struct terminal *term);
