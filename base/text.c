/* SPDX-License-Identifier: PostgreSQL */
/* Numbers, durations, UTF-8 and LIKE. */
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

bool text_equal(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

bool text_to_int64(const char *text, int64_t *ret_value)
{
    if (!((*text >= '0' && *text <= '9') || *text == '-' || *text == '+'))
        return false;
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0')
        return false;
    *ret_value = value;
    return true;
}

static const struct unit {
    const char *name;
    int64_t us;
} units[] = {
    {"us", 1}, {"ms", 1000}, {"s", SECOND_US}, {"m", MINUTE_US}, {"h", HOUR_US}, {"d", DAY_US},
};

/* The unit that text begins with, or NULL; *ret_rest is what follows it. */
static const struct unit *unit_at(const char *text, const char **ret_rest)
{
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strlen(units[i].name) == length && strncmp(units[i].name, text, length) == 0) {
            *ret_rest = text + length;
            return &units[i];
        }
    }
    return NULL;
}

bool text_to_duration_us(const char *text, int64_t *ret_us)
{
    int64_t total = 0;
    if (strcmp(text, "0") == 0) {
        *ret_us = 0;
        return true;
    }
    if (!*text)
        return false;
    while (*text) {
        if (*text < '0' || *text > '9')
            return false;
        char *end = NULL;
        errno = 0;
        long long count = strtoll(text, &end, 10);
        const struct unit *unit = errno ? NULL : unit_at(end, &text);
        int64_t part = 0;
        if (!unit || __builtin_mul_overflow((int64_t)count, unit->us, &part) ||
            __builtin_add_overflow(total, part, &total))
            return false;
    }
    *ret_us = total;
    return true;
}

size_t text_utf8_length(const char *text, size_t size)
{
    const unsigned char *s = (const unsigned char *)text;
    if (size == 0)
        return 0;
    if (s[0] < 0x80)
        return 1;
    size_t length = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    if (s[0] < 0xC2 || s[0] > 0xF4 || length > size)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    }
    bool overlong = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xF0 && s[1] < 0x90);
    bool surrogate = s[0] == 0xED && s[1] > 0x9F;
    bool beyond = s[0] == 0xF4 && s[1] > 0x8F;
    return overlong || surrogate || beyond ? 0 : length;
}

size_t text_utf8_sanitize(const char *text, size_t size, char *out)
{
    char *start = out;
    for (size_t i = 0; i < size;) {
        size_t length = text_utf8_length(text + i, size - i);
        if (length) {
            out = mempcpy(out, text + i, length);
            i += length;
        } else {
            out = mempcpy(out, "\xEF\xBF\xBD", 3);
            i++;
        }
    }
    *out = '\0';
    return (size_t)(out - start);
}

/* One pattern element against one byte; *ret_next is the element after it. */
static bool like_one(const char *pattern, char byte, const char **ret_next)
{
    if (*pattern == '_') {
        *ret_next = pattern + 1;
        return true;
    }
    if (*pattern == '\\' && pattern[1])
        pattern++;
    *ret_next = pattern + 1;
    return *pattern == byte;
}

bool text_like(const char *text, const char *pattern)
{
    const char *retry_text = NULL, *retry_pattern = NULL;
    while (*text) {
        const char *next = NULL;
        if (*pattern == '%') {
            retry_pattern = ++pattern;
            retry_text = text;
        } else if (*pattern && like_one(pattern, *text, &next)) {
            pattern = next;
            text++;
        } else if (retry_pattern) {
            pattern = retry_pattern;
            text = ++retry_text;
        } else {
            return false;
        }
    }
    while (*pattern == '%')
        pattern++;
    return *pattern == '\0';
}

void text_html_escape(FILE *out, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&':
            (void)fputs("&amp;", out);
            break;
        case '<':
            (void)fputs("&lt;", out);
            break;
        case '>':
            (void)fputs("&gt;", out);
            break;
        case '"':
            (void)fputs("&quot;", out);
            break;
        case '\'':
            (void)fputs("&#39;", out);
            break;
        default:
            (void)putc(*text, out);
        }
    }
}

void text_json_escape(FILE *out, const char *text)
{
    size_t size = strlen(text);
    for (size_t i = 0; i < size;) {
        unsigned char c = (unsigned char)text[i];
        size_t length = text_utf8_length(text + i, size - i);
        if (length == 0) {
            (void)fputs("\xEF\xBF\xBD", out);
            i++;
            continue;
        }
        if (c == '"' || c == '\\')
            (void)fprintf(out, "\\%c", c);
        else if (c == '\n')
            (void)fputs("\\n", out);
        else if (c < 0x20 || c == 0x7F)
            (void)fprintf(out, "\\u%04x", c);
        else
            (void)fwrite(text + i, 1, length, out);
        i += length;
    }
}
