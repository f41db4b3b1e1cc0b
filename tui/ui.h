/* SPDX-License-Identifier: PostgreSQL */
/* What the person has chosen: screen, cursor, filter, order. Keys change it; it never draws. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tui/journal.h"
#include "tui/keys.h"
#include "tui/list.h"
#include "tui/ui_yield.h"

enum { UI_TEXT_SIZE = 128, UI_MESSAGE_SIZE = 160 };

enum ui_entry { ENTRY_NONE, ENTRY_FIND, ENTRY_FILTER, ENTRY_COMMAND, ENTRY_SORT };

struct ui {
    enum screen_id screen, below; /* below: where Esc leads */
    enum screen_id helped;        /* where help was opened */
    const struct journal *journal;

    struct list list;    /* of the picture that is shown */
    bool touched;        /* a key was pressed: from then on the cursor stays with its row */
    char *server, *duty; /* the row under the cursor; NULL: none, or a server's line */
    size_t cursor, top;  /* rows of the list */
    int scroll;          /* lines of any other screen */
    int scroll_most;     /* how far it can go */
    size_t seen_events;  /* of the journal, when the events were last drawn */
    int page;            /* lines of content that fit */
    enum list_order order;
    bool inverted;
    char filter[UI_TEXT_SIZE], find[UI_TEXT_SIZE], path[UI_TEXT_SIZE];
    int shift, shift_most; /* columns of the list that are scrolled away, and could be */

    enum ui_entry entry; /* a text is being typed, or an order chosen */
    char typed[UI_TEXT_SIZE];

    bool may_yield;         /* --allow-yield */
    struct yield_form form; /* of the one yield, if there is one */
    bool warned;            /* that a yield is under way */

    bool paused;
    enum time_style times;
    int64_t interval_us;
    char message[UI_MESSAGE_SIZE]; /* until the next key */
};

/* What a key asks of the program besides a new picture of the screen. */
enum ui_wish {
    WISH_NONE,
    WISH_QUIT,
    WISH_INTERVAL,
    WISH_SAVE, /* to ui->path; "": to a name with the time */
    WISH_COPY,
    WISH_REFRESH,
    WISH_REDRAW,
    WISH_YIELD_OPEN, /* a yield of ui_row, to be asked about */
    WISH_YIELD_SEND, /* what was typed is confirmed */
    WISH_YIELD_END,  /* cancelled, or seen to its end */
};

void ui_init(struct ui *ui, const struct journal *journal, int64_t interval_us);
void ui_done(struct ui *ui);

/* A key, on the picture that is shown. */
enum ui_wish ui_key(struct ui *ui, const struct picture *picture, int code);

/* After a key, a new picture or another size: builds the list anew if need be and puts the cursor
 * on the duty it was on. The list points into the picture until the next call. */
void ui_settle(struct ui *ui, const struct picture *picture, int width, int height);

/* The duty under the cursor, or NULL where it is no longer there. */
const struct list_row *ui_row(const struct ui *ui);

/* The yield's screen after it has gone on: from the dialog to the watch, or back where it was
 * refused after all. */
void ui_follow_yield(struct ui *ui);

void ui_say(struct ui *ui, const char *format, ...) PRINTF_LIKE(2, 3);
