/* SPDX-License-Identifier: PostgreSQL */
/* Fields, and when they suffice. */
#include "tui/ui_yield.h"

#include <string.h>

#include "base/text.h"
#include "tui/typing.h"

static const char blanks[] = " ,";

void form_open(struct yield_form *form, const struct yield_view *view)
{
    *form = (struct yield_form){.view = view, .left_us = -1, .age_us = -1};
}

bool form_is_dialog(const struct yield_form *form)
{
    const struct yield_view *view = form->view;
    return view && (view->phase <= PHASE_ASKING || (view->phase >= PHASE_RECORDING &&
                                                    view->end != END_OUTCOME && view->intent < 0));
}

bool form_is_open(const struct yield_form *form)
{
    return form->view && form->view->phase <= PHASE_ASKING && !form->confirmed;
}

const char *form_wanted(const struct yield_form *form, struct arena *arena)
{
    const char *token = yield_token(form->view->target, arena);
    return token ? arena_printf(arena, "%s %s", form->view->target->duty, token) : NULL;
}

bool form_has_override(const struct yield_form *form)
{
    for (int i = 0; i < GUARDS; i++) {
        enum guard_state state = form->view->guards.rows[i].state;
        if (guard_overridable((enum guard_id)i) && form->view->facts &&
            (state == GUARD_FAILED || state == GUARD_OVERRIDDEN))
            return true;
    }
    return *form->texts[FORM_OVERRIDE] != '\0';
}

/* The next word off *text, or NULL. */
static const char *next_word(const char **text, struct arena *arena)
{
    const char *word = *text + strspn(*text, blanks);
    size_t n = strcspn(word, blanks);
    *text = word + n;
    return n > 0 ? arena_strndup(arena, word, n) : NULL;
}

uint32_t form_overrides(const struct yield_form *form)
{
    struct arena *arena = arena_new();
    const char *text = form->texts[FORM_OVERRIDE], *word = NULL;
    uint32_t bits = 0;
    while ((word = next_word(&text, arena))) {
        enum guard_id id = guard_find_overridable(word);
        bits |= id == GUARDS ? 0 : 1U << id;
    }
    arena_free(arena);
    return bits;
}

static const char *wrong_override(const struct yield_form *form, struct arena *arena)
{
    const char *text = form->texts[FORM_OVERRIDE], *word = NULL;
    while ((word = next_word(&text, arena))) {
        if (guard_find_overridable(word) == GUARDS)
            return word;
    }
    return NULL;
}

const char *form_obstacle(const struct yield_form *form, struct arena *arena)
{
    bool privilege = false;
    const char *reason = form->texts[FORM_REASON];
    const char *wanted = form_wanted(form, arena);
    const char *wrong = wrong_override(form, arena);
    if (form->view->phase < PHASE_ASKING)
        return "nothing was read yet";
    const struct guard *failed = guards_failed(&form->view->guards, &privilege);
    if (wrong)
        return arena_printf(arena, "\"%s\" cannot be overridden", wrong);
    if (failed)
        return arena_printf(arena, "guard %s refuses", guard_code(failed->id));
    if (reason[strspn(reason, " ")] == '\0')
        return "a reason is missing";
    if (!text_equal(form->texts[FORM_CONFIRM], wanted))
        return *form->texts[FORM_CONFIRM] ? "what is typed is not what leads"
                                          : "the confirmation is not typed";
    return NULL;
}

void form_move(struct yield_form *form, int by)
{
    int to = (int)form->focus;
    do {
        to = (to + by + FORM_FIELDS) % FORM_FIELDS;
    } while (to == FORM_OVERRIDE && !form_has_override(form));
    form->focus = (enum form_field)to;
    form->follow = true;
}

bool form_takes_text(const struct yield_form *form)
{
    return form_is_open(form) && form->focus != FORM_CANCEL && form->focus != FORM_YIELD;
}

bool form_type(struct yield_form *form, int code)
{
    if (!form_takes_text(form) || !typing_takes(code))
        return false;
    typing_key(form->texts[form->focus], FORM_TEXT_SIZE, code);
    form->follow = true;
    return true;
}
