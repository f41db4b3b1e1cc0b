/* SPDX-License-Identifier: PostgreSQL */
/* Any text is a key that comes back as it is written, or is refused; so for names and patterns. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "pg/key.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_key(const char *text)
{
    struct lock_key key, again;
    char written[LOCK_KEY_TEXT_SIZE];
    if (!lock_key_parse(text, &key))
        return;
    lock_key_format(key, written);
    if (!lock_key_parse(written, &again) || !lock_key_equal(key, again))
        abort();
    if (strpbrk(text, " \t\nxe.") || (strchr(text, ',') != NULL) != (key.objsubid == 2))
        abort();
}

static void check_name(const char *text)
{
    struct lock_key key;
    struct error err = {0};
    bool derived = lock_key_derive("prod", text, 1, &key, &err);
    if (derived != duty_name_valid(text) || derived != (err.kind == ERROR_NONE))
        abort();
}

static void check_text(const char *text, size_t size)
{
    char *clean = xmalloc(3 * size + 1);
    size_t length = text_utf8_sanitize(text, size, clean);
    for (size_t i = 0, step = 0; i < length; i += step) {
        if (!(step = text_utf8_length(clean + i, length - i)))
            abort();
    }
    int64_t us = 0;
    if (text_to_duration_us(text, &us) && us < 0)
        abort();
    if (!text_like(text, "%") || (!strchr(text, '\\') && !text_like(text, text)))
        abort();
    free(clean);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = xmalloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    check_key(text);
    check_name(text);
    check_text(text, strlen(text));
    free(text);
    return 0;
}
