/* SPDX-License-Identifier: PostgreSQL */
/* What a reading of YAML says of the mistakes that it meets. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "observe/yaml.h"

void yaml_problem(struct yaml_reader *reader, int line, const char *format, ...)
{
    if (reader->n_problems++ >= YAML_PROBLEMS)
        return;
    va_list args;
    va_start(args, format);
    CLEANUP(free_charp) char *text = xvasprintf(format, args);
    va_end(args);
    problems_add(reader->problems, "%s:%d: %s", reader->path, line, text);
}

/* A connection string may stand anywhere by mistake, also as a key: nothing that could be one is
 * ever repeated in a message. */
const char *yaml_show(struct yaml_reader *reader, const char *text, const char *otherwise)
{
    size_t length = strnlen(text, 81);
    if (length > 80 || strpbrk(text, "=@$") || strstr(text, "//") || strcasestr(text, "passw") ||
        reader->n_problems >= YAML_PROBLEMS)
        return otherwise;
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7F)
            return otherwise;
    }
    return arena_printf(reader->arena, "\"%s\"", text);
}

static int compare_lines(const void *a, const void *b, void *path_size)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    long p = strtol(x + *(size_t *)path_size, NULL, 10);
    long q = strtol(y + *(size_t *)path_size, NULL, 10);
    return p != q ? (p > q) - (p < q) : strcmp(x, y);
}

bool yaml_finish(struct yaml_reader *reader)
{
    if (reader->n_problems == 0)
        return true;
    size_t listed = reader->n_problems < YAML_PROBLEMS ? reader->n_problems : YAML_PROBLEMS;
    size_t path_size = strlen(reader->path) + 1;
    qsort_r(reader->problems->items + reader->problems->n - listed, listed, sizeof(char *),
            compare_lines, &path_size);
    if (reader->n_problems > YAML_PROBLEMS)
        problems_add(reader->problems,
                     "%s:1: could not list every mistake: there are %zu, these are %d of them",
                     reader->path, reader->n_problems, YAML_PROBLEMS);
    return false;
}
