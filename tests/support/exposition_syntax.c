/* SPDX-License-Identifier: PostgreSQL */
/* Expositions in tests. */
#include "tests/support/exposition_syntax.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "exporter/metrics.h"

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"

static bool skip(const char **at, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0)
        return false;
    *at += length;
    return true;
}

static bool skip_name(const char **at)
{
    size_t length = strspn(*at, NAME_CHARACTERS);
    bool valid = length > 0 && !(**at >= '0' && **at <= '9');
    *at += length;
    return valid;
}

static bool skip_quoted(const char **at)
{
    if (!skip(at, "\""))
        return false;
    while (**at && **at != '"' && **at != '\n') {
        if (**at == '\\' && !strchr("\\\"n", *++*at))
            return false;
        ++*at;
    }
    return skip(at, "\"");
}

static bool skip_labels(const char **at)
{
    do {
        if (!skip_name(at) || !skip(at, "=") || !skip_quoted(at))
            return false;
    } while (skip(at, ","));
    return skip(at, "}");
}

static bool skip_number(const char **at)
{
    if (skip(at, "NaN") || skip(at, "+Inf") || skip(at, "-Inf"))
        return true;
    size_t length = strspn(*at, "+-.e0123456789");
    *at += length;
    return length > 0;
}

static bool good_line(const char *line)
{
    const char *at = line;
    if (skip(&at, "# HELP ") || skip(&at, "# TYPE ") || skip(&at, "# UNIT "))
        return skip_name(&at) && skip(&at, " ");
    if (skip(&at, "# EOF\n"))
        return *at == '\0';
    return skip_name(&at) && (!skip(&at, "{") || skip_labels(&at)) && skip(&at, " ") &&
           skip_number(&at) && *at == '\n';
}

const char *exposition_bad_line(const char *text, size_t size)
{
    const char *line = text;
    for (size_t i = 0; i < size;) {
        size_t length = text_utf8_length(text + i, size - i);
        if (length == 0 || (text + i == line && !good_line(line)))
            return line;
        if (text[i] == '\n')
            line = text + i + 1;
        i += length;
    }
    return line == text + size ? NULL : line;
}

char *exposition_render(const struct picture *picture, enum exposition_format format)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    metrics_render(picture, -1, format, out);
    if (format == FORMAT_OPENMETRICS)
        (void)fputs("# EOF\n", out);
    (void)fclose(out);
    return text;
}

const char *exposition_sample(const char *text, const char *head)
{
    size_t length = strlen(head);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, head, length) == 0)
            return line + length;
    }
    return NULL;
}
