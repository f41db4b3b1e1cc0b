/* SPDX-License-Identifier: PostgreSQL */
/* Keys to UTF-8. */
#include "tui/typing.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tui/keys.h"

/* The last character off, all of its bytes. */
static void erase(char *text)
{
    size_t n = strlen(text);
    while (n > 0 && ((unsigned char)text[n - 1] & 0xC0) == 0x80)
        n--;
    text[n ? n - 1 : 0] = '\0';
}

static void append(char *text, size_t size, int code)
{
    char utf8[5] = {0};
    uint32_t point = (uint32_t)code;
    int more = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    static const unsigned char heads[] = {0, 0xC0, 0xE0, 0xF0};
    for (int i = more; i > 0; i--, point >>= 6)
        utf8[i] = (char)(0x80 | (point & 0x3F));
    utf8[0] = (char)(heads[more] | point);
    size_t n = strlen(text);
    if (n + strlen(utf8) < size)
        (void)snprintf(text + n, size - n, "%s", utf8);
}

bool typing_takes(int code)
{
    return code == CODE_BACKSPACE || code == CODE_CONTROL('U') || (code >= 0x20 && code < CODE_UP);
}

void typing_key(char *text, size_t size, int code)
{
    if (code == CODE_BACKSPACE)
        erase(text);
    else if (code == CODE_CONTROL('U'))
        text[0] = '\0';
    else if (typing_takes(code))
        append(text, size, code);
}
