/* SPDX-License-Identifier: PostgreSQL */
/* The locale of the environment, or what it says of characters. */
#include "tui/charset.h"

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The name by which setlocale looks; NULL: none. */
static const char *locale_name(void)
{
    static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *name = getenv(variables[i]);
        if (name && *name)
            return name;
    }
    return NULL;
}

/* ssh carries the name of a locale to hosts that do not have it: the terminal behind it is the same
 * nevertheless. */
void charset_take(void)
{
    if (setlocale(LC_CTYPE, ""))
        return;
    const char *name = locale_name(), *charset = name ? strchr(name, '.') : NULL;
    if (charset &&
        (strncasecmp(charset, ".UTF-8", 6) == 0 || strncasecmp(charset, ".utf8", 5) == 0))
        (void)setlocale(LC_CTYPE, "C.UTF-8");
}
