/* SPDX-License-Identifier: PostgreSQL */
/* Lease tables and progress tables. */
#include "observe/table_rows.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct pg_column lease_columns[] = {
    {"row", PG_TEXT, offsetof(struct lease_row, row)},
    {"holder", PG_TEXT, offsetof(struct lease_row, holder)},
    {"expires_at", PG_TIME, offsetof(struct lease_row, expires_us)},
    {"acquired_at", PG_TIME, offsetof(struct lease_row, acquired_us)},
    {"generation", PG_INT8, offsetof(struct lease_row, generation)},
    {0},
};

struct progress_row {
    const char *cursor;
};

static const struct pg_column progress_columns[] = {
    {"cursor", PG_TEXT, offsetof(struct progress_row, cursor)},
    {0},
};

static const char *quoted(struct arena *arena, const char *what, const char *name,
                          struct error *err)
{
    const char *result = NULL;
    if (pg_quote_name(arena, name, &result))
        return result;
    (void)error_set(err, ERROR_CONFIG, "could not read %s \"%s\": not a name or schema.name", what,
                    name);
    return NULL;
}

/* What follows the first identifier of a quoted name. */
static const char *skip_quoted(const char *text)
{
    for (text++; *text && (*text != '"' || text[1] == '"'); text++)
        text += *text == '"';
    return *text ? text + 1 : text;
}

/* A table without a schema is one of public: no search path is in force. */
static const char *quoted_table(struct arena *arena, const char *what, const char *name,
                                struct error *err)
{
    const char *result = quoted(arena, what, name, err);
    bool qualified = result && *skip_quoted(result);
    return result && !qualified ? arena_printf(arena, "public.%s", result) : result;
}

/* One identifier without its quotes, where it means the same without them. */
static const char *unquoted(const char *name, size_t size, struct arena *arena)
{
    static const char plain[] = "0123456789abcdefghijklmnopqrstuvwxyz_";
    bool needless = strspn(name + 1, plain) == size - 2 && strspn(name + 1, "0123456789") == 0;
    return needless ? arena_strndup(arena, name + 1, size - 2) : arena_strndup(arena, name, size);
}

const char *table_canonical(const char *name, struct arena *arena)
{
    const char *quoted_name = NULL;
    if (!pg_quote_name(arena, name, &quoted_name))
        return name;
    const char *rest = skip_quoted(quoted_name);
    const char *first = unquoted(quoted_name, (size_t)(rest - quoted_name), arena);
    if (!*rest)
        return arena_printf(arena, "public.%s", first);
    return arena_printf(arena, "%s.%s", first, unquoted(rest + 1, strlen(rest + 1), arena));
}

const char *lease_query(const struct config_lease *lease, struct arena *arena, struct error *err)
{
    const char *table = quoted_table(arena, "the lease table", lease->table, err);
    const char *key =
        table ? quoted(arena, "the lease's key column", lease->key_column, err) : NULL;
    const char *holder =
        key ? quoted(arena, "the lease's holder column", lease->holder_column, err) : NULL;
    const char *expires =
        holder ? quoted(arena, "the lease's expiry column", lease->expires_column, err) : NULL;
    const char *acquired = "NULL", *generation = "NULL";
    if (expires && lease->acquired_column)
        acquired = quoted(arena, "the lease's acquisition column", lease->acquired_column, err);
    if (acquired && lease->generation_column)
        generation = quoted(arena, "the lease's generation column", lease->generation_column, err);
    if (!expires || !acquired || !generation)
        return NULL;
    return arena_printf(
        arena,
        "SELECT %s::text AS row, %s::text AS holder, %s::timestamptz AS expires_at, "
        "%s::timestamptz AS acquired_at, %s::int8 AS generation FROM %s WHERE %s::text = ANY "
        "($1::text[])",
        key, holder, expires, acquired, generation, table, key);
}

static int compare_optional(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "");
}

/* By key, then by acquisition: of several owners the first is the same in every poll, wherever
 * their rows stand. */
static int compare_rows(const void *a, const void *b)
{
    const struct lease_row *x = a, *y = b;
    int order = strcmp(x->row, y->row);
    if (order == 0)
        order = (x->acquired_us > y->acquired_us) - (x->acquired_us < y->acquired_us);
    return order ? order : compare_optional(x->holder, y->holder);
}

bool lease_decode(const struct pg_answer *answer, struct arena *arena, struct lease_rows *ret,
                  struct error *err)
{
    void *rows = NULL;
    size_t n = 0;
    if (!pg_answer_decode(answer, lease_columns, sizeof(struct lease_row), arena, &rows, &n, err))
        return false;
    if (n > 1)
        qsort(rows, n, sizeof(struct lease_row), compare_rows);
    *ret = (struct lease_rows){.rows = rows, .n = n};
    return true;
}

/* The first row of that key, or where it would stand. */
static size_t first_row(const struct lease_rows *rows, const char *row)
{
    size_t low = 0, high = rows->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(rows->rows[middle].row, row) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void lease_fill(const struct lease_rows *rows, const char *row, int64_t clock_us, struct duty *duty,
                struct arena *arena)
{
    duty->read = true;
    for (size_t i = first_row(rows, row); i < rows->n && strcmp(rows->rows[i].row, row) == 0; i++) {
        const struct lease_row *found = &rows->rows[i];
        bool held =
            found->holder && found->expires_us != TIME_UNKNOWN && found->expires_us > clock_us;
        if (duty->owners == 0) {
            duty->lease_expires_us = found->expires_us;
            duty->owner = (struct owner){
                .backend_start_us = TIME_UNKNOWN,
                .acquired_us = found->acquired_us,
                .holder = arena_strdup(arena, found->holder ? found->holder : ""),
            };
            duty->generation = held ? found->generation : -1;
        }
        duty->owners += held;
    }
}

const char *progress_query(const struct config_progress *progress, struct arena *arena,
                           struct error *err)
{
    const char *table = quoted_table(arena, "the progress table", progress->table, err);
    const char *column = table ? quoted(arena, "the progress column", progress->column, err) : NULL;
    if (!column)
        return NULL;
    /* The newline ends a comment that the condition may close with. */
    return arena_printf(arena, "SELECT %s::text AS cursor FROM %s WHERE (%s\n) LIMIT 2", column,
                        table, progress->where ? progress->where : "true");
}

static double number_of(const char *text)
{
    char *end = NULL;
    if (!text || !*text)
        return NAN;
    double number = strtod(text, &end);
    return *end == '\0' && isfinite(number) ? number : NAN;
}

bool progress_fill(const struct pg_answer *answer, struct duty *duty, struct arena *arena,
                   struct error *err)
{
    void *rows = NULL;
    size_t n = 0;
    if (!pg_answer_decode(answer, progress_columns, sizeof(struct progress_row), arena, &rows, &n,
                          err))
        return false;
    if (n > 1)
        return error_set(err, ERROR_QUERY,
                         "could not read the progress of %s: the condition finds several rows",
                         duty->name);
    if (n == 0 || duty->run->present)
        return true;
    const struct progress_row *row = rows;
    struct run *run = arena_copy(arena, duty->run, sizeof *run);
    run->present = true;
    run->cursor = row->cursor;
    run->position = number_of(row->cursor);
    duty->run = run;
    return true;
}

const char *text_array(const char *const *items, size_t n, struct arena *arena)
{
    CLEANUP(free_charp) char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    (void)putc('{', out);
    for (size_t i = 0; i < n; i++) {
        (void)fputs(i ? ",\"" : "\"", out);
        for (const char *c = items[i]; *c; c++) {
            if (*c == '"' || *c == '\\')
                (void)putc('\\', out);
            (void)putc(*c, out);
        }
        (void)putc('"', out);
    }
    (void)putc('}', out);
    (void)fclose(out);
    return arena_strndup(arena, text, size);
}
