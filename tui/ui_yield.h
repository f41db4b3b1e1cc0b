/* SPDX-License-Identifier: PostgreSQL */
/* What the person has typed into the yield dialog. Nothing is sent from here. */
#pragma once

#include "tui/yield.h"

enum { FORM_TEXT_SIZE = 256 };

/* In the order of Tab. Cancel comes first: what is pressed without looking does no harm. */
enum form_field { FORM_CANCEL, FORM_OVERRIDE, FORM_REASON, FORM_CONFIRM, FORM_YIELD, FORM_FIELDS };

struct yield_form {
    const struct yield_view *view; /* NULL: nothing is yielded */
    enum form_field focus;
    char texts[FORM_FIELDS][FORM_TEXT_SIZE]; /* of those that are typed */
    bool confirmed;                          /* handed over: a fresh reading decides */
    bool timed_out;                          /* nobody pressed a key for so long */
    bool over;                               /* it was drawn as done */
    bool follow;                             /* the field is to be on the page */
    int64_t left_us; /* until the dialog closes, or the grace or the watch is over; -1: none runs */
    int64_t age_us;  /* of the newest reading, now or when it was over; -1: there is none */
};

void form_open(struct yield_form *form, const struct yield_view *view);

/* It asks, or has ended before anything was sent: the dialog. Otherwise it is watched. */
bool form_is_dialog(const struct yield_form *form);

/* It asks, and fields can be filled. */
bool form_is_open(const struct yield_form *form);

/* What the person must type: "DUTY TOKEN"; NULL where nothing can be named. */
const char *form_wanted(const struct yield_form *form, struct arena *arena);

/* There is something that may be overridden, or has been. */
bool form_has_override(const struct yield_form *form);

/* The guards that are overridden by name, one bit each. */
uint32_t form_overrides(const struct yield_form *form);

/* Why [ Yield ] does nothing yet; NULL: it would. */
const char *form_obstacle(const struct yield_form *form, struct arena *arena);

void form_move(struct yield_form *form, int by);

/* The cursor is in a field that is typed into. */
bool form_takes_text(const struct yield_form *form);

/* A key that the field under the cursor takes; false: it is none. */
bool form_type(struct yield_form *form, int code);
