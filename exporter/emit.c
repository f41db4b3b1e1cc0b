/* SPDX-License-Identifier: PostgreSQL */
/* Numbers and label values as the exposition formats spell them. */
#include "exporter/emit.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"

enum { DIGITS_MAX = 20 }; /* of a uint64_t */

static size_t digits(char *out, uint64_t value)
{
    char reversed[DIGITS_MAX];
    size_t n = 0;
    do {
        reversed[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    for (size_t i = 0; i < n; i++)
        out[i] = reversed[n - 1 - i];
    return n;
}

/* Also right for INT64_MIN, whose negation an int64_t cannot hold. */
static uint64_t magnitude(int64_t value)
{
    return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

size_t emit_integer(char out[EMIT_NUMBER_SIZE], int64_t value)
{
    size_t n = 0;
    if (value < 0)
        out[n++] = '-';
    return n + digits(out + n, magnitude(value));
}

size_t emit_seconds(char out[EMIT_NUMBER_SIZE], int64_t us)
{
    size_t n = 0;
    uint64_t rest = magnitude(us) % SECOND_US;
    if (us < 0)
        out[n++] = '-';
    n += digits(out + n, magnitude(us) / SECOND_US);
    if (rest == 0)
        return n;
    out[n++] = '.';
    for (uint64_t unit = SECOND_US / 10; rest; unit /= 10) {
        out[n++] = (char)('0' + rest / unit);
        rest %= unit;
    }
    return n;
}

size_t emit_real(char out[EMIT_NUMBER_SIZE], double value)
{
    static const double exact_limit = 9007199254740992.0; /* 2^53 */
    const char *word = isnan(value) ? "NaN" : isinf(value) ? (value > 0 ? "+Inf" : "-Inf") : NULL;
    if (word) {
        size_t length = strlen(word);
        memcpy(out, word, length);
        return length;
    }
    if (fabs(value) < exact_limit && value == (double)(int64_t)value)
        return emit_integer(out, (int64_t)value);
    int length = snprintf(out, EMIT_NUMBER_SIZE, "%.15g", value);
    if (strtod(out, NULL) != value)
        length = snprintf(out, EMIT_NUMBER_SIZE, "%.17g", value);
    return (size_t)length;
}

static bool plain(unsigned char c)
{
    return c < 0x80 && c != '\\' && c != '"' && c != '\n';
}

/* Writes the character at text that is not plain; returns its bytes. */
static size_t special(FILE *out, const char *text)
{
    size_t length = 1;
    switch (*text) {
    case '\\':
        (void)fputs_unlocked("\\\\", out);
        break;
    case '"':
        (void)fputs_unlocked("\\\"", out);
        break;
    case '\n':
        (void)fputs_unlocked("\\n", out);
        break;
    default:
        length = text_utf8_length(text, strnlen(text, 4));
        if (length == 0)
            (void)fputs_unlocked("\xEF\xBF\xBD", out);
        else
            (void)fwrite_unlocked(text, 1, length, out);
    }
    return length ? length : 1;
}

void emit_label_value(FILE *out, const char *text)
{
    while (text && *text) {
        const char *end = text;
        while (*end && plain((unsigned char)*end))
            end++;
        (void)fwrite_unlocked(text, 1, (size_t)(end - text), out);
        text = *end ? end + special(out, end) : end;
    }
}
