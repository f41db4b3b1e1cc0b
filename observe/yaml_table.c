/* SPDX-License-Identifier: PostgreSQL */
/* Reads a map by its table: one converter a type, one message a mistake. */
#include "observe/yaml_table.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"

enum { MAX_FIELDS = 32, MAX_KEY = 40 };

/* Each converter writes *out and returns NULL, or says why the text will not do. */
typedef const char *(*converter)(struct yaml_reader *reader, const struct yaml_field *field,
                                 const struct yaml_node *node, void *out);

static const char *to_text(struct yaml_reader *reader, const struct yaml_field *field,
                           const struct yaml_node *node, void *out)
{
    if (!*node->text && !field->check)
        return "is empty";
    *(const char **)out = arena_strdup(reader->keep, node->text);
    return NULL;
}

static bool is_integer(const char *text)
{
    text += *text == '-' || *text == '+';
    return *text && text[strspn(text, "0123456789")] == '\0';
}

static const char *to_int64(const struct yaml_node *node, int64_t *out)
{
    const char *digits = node->text + (*node->text == '-' || *node->text == '+');
    if (!is_integer(node->text))
        return "is not a whole number in decimal digits";
    if (!node->plain)
        return "is text, because of its quotes, and a number is wanted";
    if (digits[0] == '0' && digits[1])
        return "begins with a zero, which some read as octal";
    return text_to_int64(node->text, out) ? NULL : "is out of range";
}

static const char *to_int(struct yaml_reader *reader, const struct yaml_field *field,
                          const struct yaml_node *node, void *out)
{
    (void)reader, (void)field;
    int64_t value = 0;
    const char *why = to_int64(node, &value);
    if (!why && (value < INT32_MIN || value > INT32_MAX))
        why = "is out of range";
    if (!why)
        *(int32_t *)out = (int32_t)value;
    return why;
}

static const char *to_bool(struct yaml_reader *reader, const struct yaml_field *field,
                           const struct yaml_node *node, void *out)
{
    (void)reader, (void)field;
    bool yes = strcmp(node->text, "true") == 0;
    if (!yes && strcmp(node->text, "false") != 0)
        return "is neither true nor false";
    if (!node->plain)
        return "is text, because of its quotes";
    *(bool *)out = yes;
    return NULL;
}

static const char *to_duration(struct yaml_reader *reader, const struct yaml_field *field,
                               const struct yaml_node *node, void *out)
{
    (void)reader, (void)field;
    if (text_to_duration_us(node->text, out))
        return NULL;
    return is_integer(node->text) ? "has no unit" : "is not a duration";
}

static const char *to_choice(struct yaml_reader *reader, const struct yaml_field *field,
                             const struct yaml_node *node, void *out)
{
    (void)reader;
    for (unsigned i = 0; field->choices[i]; i++) {
        if (strcmp(field->choices[i], node->text) == 0) {
            *(unsigned *)out = i;
            return NULL;
        }
    }
    return "is none of the words that stand here";
}

/* Exactly n digits; moves *text past them. */
static bool take_digits(const char **text, int n, int *ret_value)
{
    int value = 0;
    for (int i = 0; i < n; i++, (*text)++) {
        if (**text < '0' || **text > '9')
            return false;
        value = 10 * value + (**text - '0');
    }
    *ret_value = value;
    return true;
}

static bool take_char(const char **text, const char *any)
{
    if (!**text || !strchr(any, **text))
        return false;
    (*text)++;
    return true;
}

/* "Z", "+01:00", "-0330" or "+01", in seconds. */
static bool take_zone(const char **text, int *ret_seconds)
{
    int sign = **text == '-' ? -1 : 1, hours = 0, minutes = 0;
    *ret_seconds = 0;
    if (take_char(text, "Zz"))
        return true;
    if (!take_char(text, "+-") || !take_digits(text, 2, &hours))
        return false;
    bool colon = take_char(text, ":");
    if ((colon || **text) && !take_digits(text, 2, &minutes))
        return false;
    *ret_seconds = sign * (hours * 3600 + minutes * 60);
    return hours < 24 && minutes < 60;
}

static bool take_time_of_day(const char **text, struct tm *tm)
{
    if (!take_digits(text, 2, &tm->tm_hour) || !take_char(text, ":") ||
        !take_digits(text, 2, &tm->tm_min))
        return false;
    if (take_char(text, ":")) {
        if (!take_digits(text, 2, &tm->tm_sec))
            return false;
        if (take_char(text, "."))
            *text += strspn(*text, "0123456789"); /* fractions of a second are not kept */
    }
    return tm->tm_hour < 24 && tm->tm_min < 60 && tm->tm_sec < 60;
}

/* ISO 8601 as RFC 3339 narrows it: date, time and zone. */
static const char *to_time(struct yaml_reader *reader, const struct yaml_field *field,
                           const struct yaml_node *node, void *out)
{
    (void)reader, (void)field;
    const char *text = node->text;
    struct tm tm = {0};
    int zone = 0, month = 0;
    if (!take_digits(&text, 4, &tm.tm_year) || !take_char(&text, "-") ||
        !take_digits(&text, 2, &month) || !take_char(&text, "-") ||
        !take_digits(&text, 2, &tm.tm_mday) || !take_char(&text, "Tt ") ||
        !take_time_of_day(&text, &tm))
        return "is not a date and time";
    text += *text == ' ';
    if (!*text)
        return "has no time zone";
    if (!take_zone(&text, &zone) || *text)
        return "is not a date and time";
    tm.tm_year -= 1900;
    tm.tm_mon = month - 1;
    int day = tm.tm_mday;
    time_t seconds = timegm(&tm); /* 31 February becomes 3 March */
    if (tm.tm_mday != day || tm.tm_mon != month - 1)
        return "is a day that no calendar has";
    *(int64_t *)out = ((int64_t)seconds - zone) * SECOND_US;
    return NULL;
}

static const converter converters[] = {
    [YAML_TEXT] = to_text,         [YAML_INT] = to_int,   [YAML_BOOL] = to_bool,
    [YAML_DURATION] = to_duration, [YAML_TIME] = to_time, [YAML_CHOICE] = to_choice,
};

/* Every type fits; filled by a converter, copied to its place only when the check agrees. */
union value {
    const char *text;
    int64_t number;
    int32_t integer;
    unsigned choice;
    bool truth;
    const struct yaml_node *node;
};

static size_t value_size(enum yaml_type type)
{
    static const size_t sizes[] = {
        [YAML_TEXT] = sizeof(char *),       [YAML_INT] = sizeof(int32_t),
        [YAML_BOOL] = sizeof(bool),         [YAML_DURATION] = sizeof(int64_t),
        [YAML_TIME] = sizeof(int64_t),      [YAML_CHOICE] = sizeof(unsigned),
        [YAML_NODE] = sizeof(const void *), [YAML_UNSUPPORTED] = 0,
    };
    return sizes[type];
}

static const char *kind_name(enum yaml_kind kind)
{
    return kind == YAML_MAP ? "a map" : kind == YAML_LIST ? "a list" : "a single value";
}

bool yaml_expect(struct yaml_reader *reader, const struct yaml_node *node, enum yaml_kind kind,
                 const char *what)
{
    if (node->kind == kind || node->kind == YAML_BROKEN)
        return node->kind == kind;
    yaml_problem(reader, node->line, "could not read %s: %s is wanted here, not %s", what,
                 kind_name(kind), yaml_is_null(node) ? "nothing" : kind_name(node->kind));
    return false;
}

bool yaml_read_int64(struct yaml_reader *reader, const struct yaml_node *node, const char *what,
                     int64_t min, int64_t max, const char *help, int64_t *ret_value)
{
    if (node->kind == YAML_BROKEN)
        return false;
    int64_t value = 0;
    const char *why = node->kind == YAML_SCALAR ? to_int64(node, &value) : "is not a number";
    if (!why && (value < min || value > max))
        why = "is out of range";
    if (!why) {
        *ret_value = value;
        return true;
    }
    yaml_problem(reader, node->line, "could not read \"%s\": %s %s; write %s",
                 node->key ? node->key : what,
                 node->kind == YAML_SCALAR ? yaml_show(reader, node->text, "it") : "it", why, help);
    return false;
}

/* The number of edits (a letter more, less, or other; two swapped) from a to b. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t rows[3][MAX_KEY + 2], la = strlen(a), lb = strlen(b);
    for (size_t j = 0; j <= lb; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t *row = rows[i % 3], *above = rows[(i - 1) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
            best = above[j] + 1 < best ? above[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                two_above[j - 2] + 1 < best)
                best = two_above[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[la % 3][lb];
}

static const char *nearest(const struct yaml_table *table, const char *key)
{
    const char *best = NULL;
    size_t least = 3;
    if (strlen(key) > MAX_KEY)
        return NULL;
    for (const struct yaml_field *f = table->fields; f->name; f++) {
        size_t distance = edit_distance(f->name, key);
        if (f->type != YAML_UNSUPPORTED && distance < least && 2 * distance < strlen(f->name)) {
            least = distance;
            best = f->name;
        }
    }
    return best;
}

static void report_unknown(struct yaml_reader *reader, const struct yaml_table *table,
                           const struct yaml_node *node)
{
    if (reader->n_problems >= YAML_PROBLEMS) {
        reader->n_problems++;
        return;
    }
    const char *shown = yaml_show(reader, node->key, "a key");
    const char *near = nearest(table, node->key);
    if (near) {
        yaml_problem(reader, node->line, "could not use %s: %s has no such key; did you mean %s?",
                     shown, table->what, near);
        return;
    }
    const char *known = "";
    for (const struct yaml_field *f = table->fields; f->name; f++) {
        if (f->type != YAML_UNSUPPORTED)
            known = arena_printf(reader->arena, "%s%s%s", known, *known ? ", " : "", f->name);
    }
    yaml_problem(reader, node->line, "could not use %s: %s has no such key; it has %s", shown,
                 table->what, known);
}

static const char *convert(struct yaml_reader *reader, const struct yaml_field *field,
                           const struct yaml_node *node, void *out)
{
    union value value = {0};
    const char *why = NULL;
    if (yaml_is_null(node))
        return "has no value";
    if (field->type == YAML_NODE)
        value.node = node;
    else if (node->kind != YAML_SCALAR)
        return node->kind == YAML_MAP ? "is a map" : "is a list";
    else
        why = converters[field->type](reader, field, node, &value);
    if (!why && field->check)
        why = field->check(&value);
    if (!why)
        memcpy((char *)out + field->offset, &value, value_size(field->type));
    return why;
}

static void read_field(struct yaml_reader *reader, const struct yaml_field *field,
                       const struct yaml_node *node, void *out)
{
    if (node->kind == YAML_BROKEN)
        return;
    if (field->type == YAML_UNSUPPORTED) {
        yaml_problem(reader, node->line, "could not use \"%s\": it is not supported; %s",
                     field->name, field->help);
        return;
    }
    const char *why = convert(reader, field, node, out);
    if (!why)
        return;
    bool show = node->kind == YAML_SCALAR && *node->text && !yaml_is_null(node) && !field->secret;
    const char *shown = show ? yaml_show(reader, node->text, "it") : "it";
    yaml_problem(reader, node->line, "could not read \"%s\": %s %s; write %s", field->name, shown,
                 why, field->help);
}

static void fill_defaults(struct yaml_reader *reader, const struct yaml_table *table, void *out)
{
    for (const struct yaml_field *f = table->fields; f->name; f++) {
        struct yaml_node node = {.kind = YAML_SCALAR, .plain = true, .text = f->fallback};
        if (f->fallback && convert(reader, f, &node, out))
            abort(); /* the table contradicts itself */
    }
}

/* The index of the field of that name, or -1. */
static int find_field(const struct yaml_table *table, const char *key)
{
    for (int i = 0; table->fields[i].name; i++) {
        if (strcmp(table->fields[i].name, key) == 0)
            return i;
    }
    return -1;
}

void yaml_read_table(struct yaml_reader *reader, const struct yaml_node *map,
                     const struct yaml_table *table, void *out)
{
    int first_line[MAX_FIELDS] = {0};
    fill_defaults(reader, table, out);
    if (!yaml_expect(reader, map, YAML_MAP, table->what))
        return;
    for (const struct yaml_node *node = map->first; node; node = node->next) {
        int i = find_field(table, node->key);
        if (i < 0 && node->kind != YAML_BROKEN)
            report_unknown(reader, table, node);
        else if (i >= 0 && first_line[i])
            yaml_problem(reader, node->line,
                         "could not use \"%s\" again: it stands on line %d already; remove one",
                         node->key, first_line[i]);
        else if (i >= 0)
            read_field(reader, &table->fields[i], node, out);
        if (i >= 0 && !first_line[i])
            first_line[i] = node->line;
    }
    for (int i = 0; table->fields[i].name; i++) {
        if (table->fields[i].required && !first_line[i])
            yaml_problem(reader, map->line, "could not read %s: \"%s\" is missing; write %s",
                         table->what, table->fields[i].name, table->fields[i].help);
    }
}
