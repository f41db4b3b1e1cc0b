/* SPDX-License-Identifier: PostgreSQL */
/* The option table over getopt_long. */
#include "base/option.h"

#include <getopt.h>
#include <stdint.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

static size_t count_rows(const struct option_row *table)
{
    size_t n = 0;
    while (table[n].name)
        n++;
    return n;
}

static struct option *long_options(const struct option_row *table)
{
    size_t n = count_rows(table);
    struct option *options = xcalloc(n + 1, sizeof *options);
    for (size_t i = 0; i < n; i++) {
        options[i] = (struct option){
            .name = table[i].name,
            .has_arg = table[i].type == OPTION_FLAG ? no_argument : required_argument,
        };
    }
    return options;
}

static void list_append(struct option_list *list, const char *item)
{
    list->items = xreallocarray(list->items, (size_t)list->n + 1, sizeof *list->items);
    list->items[list->n++] = item;
}

static bool store(const struct option_row *row, const char *argument, struct error *err)
{
    switch (row->type) {
    case OPTION_FLAG:
        *(bool *)row->value = true;
        return true;
    case OPTION_STRING:
        *(const char **)row->value = argument;
        return true;
    case OPTION_LIST:
        list_append(row->value, argument);
        return true;
    case OPTION_DURATION:
        if (text_to_duration_us(argument, row->value))
            return true;
        return error_set(err, ERROR_USAGE,
                         "could not read --%s=%s: not a duration such as 500ms, 10s or 5m",
                         row->name, argument);
    case OPTION_SIZE:
        if (text_to_int64(argument, row->value) && *(int64_t *)row->value >= 0)
            return true;
        return error_set(err, ERROR_USAGE, "could not read --%s=%s: not a whole number", row->name,
                         argument);
    }
    return false;
}

/* Whether --flag=value was meant. */
static bool is_flag(const struct option_row *table, const char *word)
{
    size_t size = strcspn(word, "=");
    for (; table->name; table++) {
        if (size == strlen(table->name) + 2 && strncmp(word + 2, table->name, size - 2) == 0)
            return table->type == OPTION_FLAG;
    }
    return false;
}

/* What getopt_long(3) does not take; `word` is where it stands, unless it is a short option. */
static bool refuse(const struct option_row *table, int found, const char *word, struct error *err)
{
    if (found == '?' && optopt)
        return error_set(err, ERROR_USAGE, "could not read -%c: no such option", optopt);
    const char *why = found == ':'           ? "it takes a value"
                      : is_flag(table, word) ? "it takes no value"
                                             : "no such option";
    return error_set(err, ERROR_USAGE, "could not read %s: %s", word, why);
}

bool option_parse(const struct option_row *table, int argc, char **argv, int *ret_rest,
                  struct error *err)
{
    struct option *options = long_options(table);
    bool ok = true;
    opterr = 0;
    optind = 0;
    while (ok) {
        int index = -1;
        int found = getopt_long(argc, argv, ":", options, &index);
        if (found == -1)
            break;
        const char *word = optind > 0 && optind <= argc ? argv[optind - 1] : "";
        if (found == ':' || found == '?')
            ok = refuse(table, found, word, err);
        else
            ok = store(&table[index], optarg, err);
    }
    free(options);
    if (!ok)
        error_hint(err, "--help lists the options.");
    *ret_rest = optind;
    return ok;
}

void option_print_help(const struct option_row *table, FILE *out)
{
    for (; table->name; table++) {
        (void)fprintf(out, "  --%s%s%s\n      %s", table->name, table->argument ? "=" : "",
                      table->argument ? table->argument : "", table->help);
        if (table->fallback)
            (void)fprintf(out, " Default: %s.", table->fallback);
        (void)putc('\n', out);
    }
}
