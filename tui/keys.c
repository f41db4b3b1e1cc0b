/* SPDX-License-Identifier: PostgreSQL */
/* Keys as less, vim, htop and k9s have them. None that ends a session stands among those that
 * move: K, d, x, y, Delete and Backspace do nothing. */
#include "tui/keys.h"

#define ON(screen) (1U << (screen))
#define EVERYWHERE (ON(SCREENS) - 1)
#define LIST ON(SCREEN_LIST)
#define DUTY ON(SCREEN_DUTY)
#define DIALOG ON(SCREEN_YIELD)
#define BELOW (EVERYWHERE & ~LIST & ~DIALOG)
#define HELPED (EVERYWHERE & ~ON(SCREEN_HELP))
#define DATA (HELPED & ~DIALOG)

const struct key_row key_rows[] = {
    {{CODE_ENTER, CODE_RIGHT},
     ACTION_OPEN,
     LIST,
     "Enter Right",
     "Enter Detail",
     "all that is known of the duty under the cursor"},
    {{CODE_ESCAPE, CODE_LEFT, 'q'},
     ACTION_BACK,
     BELOW,
     "Esc Left q",
     "Esc Back",
     "back to where you came from"},
    {{'j', CODE_DOWN}, ACTION_DOWN, EVERYWHERE, "j Down", NULL, "one line down"},
    {{'k', CODE_UP}, ACTION_UP, EVERYWHERE, "k Up", NULL, "one line up"},
    {{CODE_CONTROL('D')}, ACTION_HALF_DOWN, EVERYWHERE, "Ctrl-D", NULL, "half a page down"},
    {{CODE_CONTROL('U')}, ACTION_HALF_UP, EVERYWHERE, "Ctrl-U", NULL, "half a page up"},
    {{CODE_PAGE_DOWN, CODE_CONTROL('F')},
     ACTION_PAGE_DOWN,
     EVERYWHERE,
     "PgDn Ctrl-F",
     NULL,
     "a page down"},
    {{CODE_PAGE_UP, CODE_CONTROL('B')},
     ACTION_PAGE_UP,
     EVERYWHERE,
     "PgUp Ctrl-B",
     NULL,
     "a page up"},
    {{'g', CODE_HOME}, ACTION_FIRST, EVERYWHERE, "g Home", NULL, "the first line"},
    {{'G', CODE_END}, ACTION_LAST, EVERYWHERE, "G End", NULL, "the last line"},
    {{'/'}, ACTION_FIND, LIST, "/", "/ Find", "find a duty, owner or state; Enter goes there"},
    {{'n'}, ACTION_FIND_NEXT, LIST, "n", NULL, "the next one found"},
    {{'N'}, ACTION_FIND_PREVIOUS, LIST, "N", NULL, "the one before"},
    {{'\\', CODE_F4},
     ACTION_FILTER,
     LIST,
     "\\ F4",
     "\\ Filter",
     "show only what holds a text; Esc shows all again"},
    {{'>', CODE_F6},
     ACTION_SORT,
     LIST,
     "> F6",
     "> Sort",
     "choose the order: attention, duty, owner, held or wait, by letter or arrow"},
    {{'I'}, ACTION_INVERT, LIST, "I", NULL, "sort the other way round"},
    {{'['}, ACTION_SHIFT_LEFT, LIST, "[", NULL, "back to the columns before"},
    {{']'},
     ACTION_SHIFT_RIGHT,
     LIST,
     "]",
     NULL,
     "the columns that have no room; the first one stays"},
    {{':'}, ACTION_COMMAND, DATA, ":", NULL, "a command line; the commands stand below"},
    {{'c'},
     ACTION_COPY,
     LIST | DUTY | ON(SCREEN_WATCH),
     "c",
     NULL,
     "copy to the terminal's clipboard (OSC 52): the duty's name; in its detail the psql line "
     "that finds its owner; in the watch of a yield the outcome"},
    {{'R', CODE_F5}, ACTION_REFRESH, DATA, "R F5", NULL, "look at every server now"},
    {{' ', 'Z'},
     ACTION_PAUSE,
     DATA & ~ON(SCREEN_WATCH),
     "Space Z",
     "Space Pause",
     "keep this picture on the screen; again: go on"},
    {{'Y', CODE_F9},
     ACTION_YIELD,
     LIST | DUTY,
     "Y F9",
     "Y Yield",
     "move the duty elsewhere, if --allow-yield was given: asks first"},
    {{'e'}, ACTION_EVENTS, DATA, "e", "e Events", "what changed since this screen was opened"},
    {{'u'}, ACTION_LOCKS, DATA, "u", "u Locks", "advisory locks that no duty names"},
    {{'t'}, ACTION_TIMES, DATA, "t", "t Times", "times in UTC, in local time, or as ages"},
    {{'+', '='}, ACTION_FASTER, DATA, "+", NULL, "look more often"},
    {{'-'}, ACTION_SLOWER, DATA, "-", NULL, "look less often"},
    {{'S'}, ACTION_SAVE, EVERYWHERE, "S", NULL, "write this screen to a file, as text"},
    {{CODE_ESCAPE, 'q'},
     ACTION_BACK,
     DIALOG,
     "Esc",
     "Esc Cancel",
     "in the yield dialog: cancel, from any field; nothing is sent"},
    {{CODE_TAB},
     ACTION_NEXT_FIELD,
     DIALOG,
     "Tab",
     "Tab Next",
     "the next field of the yield dialog"},
    {{CODE_BACKTAB}, ACTION_PREVIOUS_FIELD, DIALOG, "Shift-Tab", NULL, "the field before"},
    {{CODE_ENTER},
     ACTION_PRESS,
     DIALOG,
     "Enter",
     "Enter on [ Yield ] sends",
     "the same; on [ Yield ] it sends, and nowhere else"},
    {{CODE_CONTROL('L')}, ACTION_REDRAW, EVERYWHERE, "Ctrl-L", NULL, "draw the screen anew"},
    {{'?', 'h', CODE_F1}, ACTION_HELP, HELPED, "? h F1", "? Help", "this page"},
    {{'q', CODE_ESCAPE, CODE_F10}, ACTION_QUIT, LIST, "q", "q Quit", "end pgleader"},
    {{'Q'},
     ACTION_QUIT,
     EVERYWHERE,
     "Q Ctrl-C",
     NULL,
     "end pgleader, from anywhere; in the yield dialog Ctrl-C cancels"},
    {.keys = NULL},
};

enum action keys_action(enum screen_id screen, int code)
{
    for (const struct key_row *row = key_rows; row->keys; row++) {
        for (int i = 0; i < KEYS_A_ROW && row->codes[i]; i++) {
            if (row->codes[i] == code && row->screens & ON(screen))
                return row->action;
        }
    }
    return ACTION_NONE;
}
