/* SPDX-License-Identifier: PostgreSQL */
/* Golden files of the tests. */
#include "tests/support/golden.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/memory.h"

static bool updating;

void golden_begin(int argc, char **argv)
{
    updating = argc > 1 && strcmp(argv[1], "--update") == 0;
}

static char *write_file(const char *path, const char *text, size_t size)
{
    FILE *file = fopen(path, "w");
    if (!file || fwrite(text, 1, size, file) != size || fclose(file) != 0)
        return xasprintf("could not write %s", path);
    return NULL;
}

/* NULL if there is no such file. */
static char *read_file(const char *path, size_t *ret_size)
{
    char *text = NULL;
    CLEANUP(fclose_filep) FILE *file = fopen(path, "r");
    if (!file)
        return NULL;
    FILE *out = open_memstream(&text, ret_size);
    for (int c = getc(file); c != EOF; c = getc(file))
        (void)putc(c, out);
    (void)fclose(out);
    return text;
}

static int line_length(const char *text)
{
    return (int)strcspn(text, "\n");
}

static char *difference(const char *path, const char *expected, size_t expected_size,
                        const char *text, size_t size)
{
    size_t line = 1, begin = 0, i = 0;
    while (i < size && i < expected_size && text[i] == expected[i]) {
        if (text[i++] == '\n') {
            line++;
            begin = i;
        }
    }
    if (i == size && i == expected_size)
        return NULL;
    return xasprintf("%s:%zu: expected `%.*s`, got `%.*s`", path, line,
                     line_length(expected + begin), expected + begin, line_length(text + begin),
                     text + begin);
}

char *golden_difference(const char *name, const char *text, size_t size)
{
    CLEANUP(free_charp) char *path = xasprintf("%s/tests/golden/%s", SOURCE_DIR, name);
    if (updating)
        return write_file(path, text, size);
    size_t expected_size = 0;
    CLEANUP(free_charp) char *expected = read_file(path, &expected_size);
    if (!expected)
        return xasprintf("could not read %s; --update writes it", path);
    return difference(path, expected, expected_size, text, size);
}
