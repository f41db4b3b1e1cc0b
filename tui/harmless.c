/* SPDX-License-Identifier: PostgreSQL */
/* The text is UTF-8 already: pg/ and the configuration see to that. */
#include "tui/harmless.h"

#include <stdbool.h>

void print_harmless(FILE *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        bool wide_control =
            c == 0xc2 && (unsigned char)text[1] >= 0x80 && (unsigned char)text[1] < 0xa0;
        (void)putc(c < ' ' || c == 0x7f || wide_control ? '?' : c, out);
        text += wide_control;
    }
}
