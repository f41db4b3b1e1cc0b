/* SPDX-License-Identifier: PostgreSQL */
/* Bytes that are no UTF-8, of a command line, are no character at all. */
#include "tui/harmless.h"

#include <string.h>

#include "base/text.h"

uint32_t utf8_point(const char *text, size_t length)
{
    static const unsigned char first_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t point = (unsigned char)text[0] & first_bits[length];
    for (size_t i = 1; i < length; i++)
        point = point << 6 | ((unsigned char)text[i] & 0x3F);
    return point;
}

bool point_is_format(uint32_t c)
{
    return c == 0xAD || c == 0x61C || (c >= 0x200B && c <= 0x200F) ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF ||
           (c >= 0xFFF9 && c <= 0xFFFB) || (c >= 0xE0000 && c <= 0xE0FFF);
}

static bool is_harmless(uint32_t c)
{
    return c >= 0x20 && (c < 0x7F || c > 0x9F) && !point_is_format(c);
}

void print_harmless(FILE *out, const char *text)
{
    for (size_t left = strlen(text), size = 0; left > 0; text += size, left -= size) {
        size_t length = text_utf8_length(text, left);
        size = length ? length : 1;
        if (length && is_harmless(utf8_point(text, length)))
            (void)fwrite(text, 1, length, out);
        else
            (void)putc('?', out);
    }
}
