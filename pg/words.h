/* SPDX-License-Identifier: PostgreSQL */
/* libpq tells the SQLSTATE of a refused connection only inside verbose words. */
#pragma once

enum { SQLSTATE_SIZE = 6 };

/* Makes verbose words (PQERRORS_VERBOSE) what they would have been by default: takes out each
 * line's SQLSTATE, of which the last goes to sqlstate ("" if there is none), and the places in the
 * server's source. */
void words_take_sqlstate(char *words, char sqlstate[SQLSTATE_SIZE]);
