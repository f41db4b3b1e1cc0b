/* SPDX-License-Identifier: PostgreSQL */
/* Reads "FATAL:  28P01: password authentication failed". */
#include "pg/words.h"

#include <stdbool.h>
#include <string.h>

enum { LENGTH = SQLSTATE_SIZE - 1 };

static bool is_sqlstate(const char *text, size_t size)
{
    return size >= LENGTH + 2 && strspn(text, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == LENGTH &&
           text[LENGTH] == ':' && text[LENGTH + 1] == ' ';
}

/* Where the line's SQLSTATE begins: behind the severity, and nowhere in what the message quotes. */
static char *find_sqlstate(char *line, size_t size)
{
    static const char after_severity[] = ":  ";
    char *colon = memmem(line, size, after_severity, sizeof after_severity - 1);
    char *text = colon ? colon + sizeof after_severity - 1 : NULL;
    return text && is_sqlstate(text, size - (size_t)(text - line)) ? text : NULL;
}

void words_take_sqlstate(char *words, char sqlstate[SQLSTATE_SIZE])
{
    static const char location[] = "LOCATION:  ";
    char *out = words;
    *sqlstate = '\0';
    for (char *line = words; *line;) {
        size_t size = strcspn(line, "\n");
        size_t whole = size + (line[size] == '\n');
        char *next = line + whole;
        char *found = find_sqlstate(line, size);
        if (found) {
            size_t before = (size_t)(found - line);
            memcpy(sqlstate, found, LENGTH);
            sqlstate[LENGTH] = '\0';
            memmove(found, found + LENGTH + 2, whole - before - LENGTH - 2);
            whole -= LENGTH + 2;
        }
        if (strncmp(line, location, sizeof location - 1) != 0) {
            memmove(out, line, whole);
            out += whole;
        }
        line = next;
    }
    *out = '\0';
}
