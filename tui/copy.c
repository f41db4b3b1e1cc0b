/* SPDX-License-Identifier: PostgreSQL */
/* State to text, and text to OSC 52. */
#include "tui/copy.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "tui/find_owner.h"

char *copy_text(const struct ui *ui, const struct picture *picture, char *const *connects)
{
    const struct list_row *row = ui_row(ui);
    const struct yield_view *view = ui->form.view;
    if (ui->screen == SCREEN_WATCH && view)
        return xasprintf("yield of %s on %s: %s", view->target->duty, view->target->server,
                         view->phase == PHASE_DONE ? view->sentence : "under way");
    if (!row)
        return NULL;
    if (ui->screen != SCREEN_DUTY || row->duty->mechanism != MECHANISM_LOCK)
        return xstrdup(row->duty->name);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    find_owner_print(row->duty->key, row->server < picture->n ? connects[row->server] : NULL, out);
    (void)fclose(out);
    return text;
}

static char *base64(const char *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = strlen(text);
    char *out = xcalloc(n / 3 + 2, 4), *at = out;
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        unsigned bits = (unsigned)(unsigned char)text[i] << 16;
        bits |= left > 1 ? (unsigned)(unsigned char)text[i + 1] << 8 : 0;
        bits |= left > 2 ? (unsigned)(unsigned char)text[i + 2] : 0;
        *at++ = digits[bits >> 18];
        *at++ = digits[bits >> 12 & 63];
        *at++ = (char)(left > 1 ? digits[bits >> 6 & 63] : '=');
        *at++ = (char)(left > 2 ? digits[bits & 63] : '=');
    }
    return out;
}

char *copy_sequence(const char *text)
{
    CLEANUP(free_charp) char *coded = base64(text);
    return xasprintf("\033]52;c;%s\a", coded);
}
