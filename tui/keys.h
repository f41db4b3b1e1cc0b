/* SPDX-License-Identifier: PostgreSQL */
/* The one table of keys: what a key does, what the footer offers and what help says are the same
 * rows. */
#pragma once

#include <stddef.h>

enum screen_id {
    SCREEN_LIST,
    SCREEN_DUTY,
    SCREEN_EVENTS,
    SCREEN_LOCKS,
    SCREEN_YIELD, /* the dialog: nothing was sent */
    SCREEN_WATCH, /* of a yield that is under way, or has been */
    SCREEN_HELP,
    SCREENS
};

/* Keys that are no characters; the others are their code points. */
enum key_code {
    CODE_NONE = -1,
    CODE_TAB = 0x09,
    CODE_ESCAPE = 0x1B,
    CODE_UP = 0x200000,
    CODE_DOWN,
    CODE_LEFT,
    CODE_RIGHT,
    CODE_PAGE_UP,
    CODE_PAGE_DOWN,
    CODE_HOME,
    CODE_END,
    CODE_ENTER,
    CODE_BACKSPACE,
    CODE_BACKTAB,
    CODE_F1,
    CODE_F4 = CODE_F1 + 3,
    CODE_F5 = CODE_F1 + 4,
    CODE_F6 = CODE_F1 + 5,
    CODE_F9 = CODE_F1 + 8,
    CODE_F10,
    CODE_GONE, /* the terminal is */
};

#define CODE_CONTROL(letter) ((letter)-0x40)

enum action {
    ACTION_NONE,
    ACTION_DOWN,
    ACTION_UP,
    ACTION_HALF_DOWN,
    ACTION_HALF_UP,
    ACTION_PAGE_DOWN,
    ACTION_PAGE_UP,
    ACTION_FIRST,
    ACTION_LAST,
    ACTION_OPEN,
    ACTION_BACK,
    ACTION_QUIT,
    ACTION_FIND,
    ACTION_FIND_NEXT,
    ACTION_FIND_PREVIOUS,
    ACTION_FILTER,
    ACTION_SORT,
    ACTION_SHIFT_LEFT,
    ACTION_SHIFT_RIGHT,
    ACTION_COMMAND,
    ACTION_COPY,
    ACTION_REFRESH,
    ACTION_INVERT,
    ACTION_PAUSE,
    ACTION_FASTER,
    ACTION_SLOWER,
    ACTION_EVENTS,
    ACTION_LOCKS,
    ACTION_TIMES,
    ACTION_SAVE,
    ACTION_YIELD,
    ACTION_NEXT_FIELD,
    ACTION_PREVIOUS_FIELD,
    ACTION_PRESS,
    ACTION_REDRAW,
    ACTION_HELP,
    ACTIONS,
};

enum { KEYS_A_ROW = 4 };

struct key_row {
    int codes[KEYS_A_ROW]; /* 0: no more */
    enum action action;
    unsigned screens;   /* bits of enum screen_id */
    const char *keys;   /* as help names them: "j Down" */
    const char *footer; /* "/ Find", or NULL: help alone has it */
    const char *help;
};

/* Ended by a row without keys. */
extern const struct key_row key_rows[];

/* What the key does on that screen. */
enum action keys_action(enum screen_id screen, int code);
