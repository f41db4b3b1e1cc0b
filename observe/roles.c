/* SPDX-License-Identifier: PostgreSQL */
/* A small sorted table of role names. */
#include "observe/roles.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"

static const int64_t refresh_us = 15 * MINUTE_US;

struct role {
    int64_t oid;
    const char *name; /* NULL: asked for */
};

struct roles {
    struct arena *names;
    struct role *rows; /* by oid */
    size_t n;
    bool unknown;
    int64_t learnt_us;
};

static const struct pg_column role_columns[] = {
    {"oid", PG_INT8, offsetof(struct role, oid)},
    {"name", PG_TEXT, offsetof(struct role, name)},
    {0},
};

struct roles *roles_new(void)
{
    return xcalloc(1, sizeof(struct roles));
}

void roles_free(struct roles *roles)
{
    if (!roles)
        return;
    arena_free(roles->names);
    free(roles->rows);
    free(roles);
}

static int compare_roles(const void *a, const void *b)
{
    const struct role *x = a, *y = b;
    return (x->oid > y->oid) - (x->oid < y->oid);
}

static struct role *find_role(const struct roles *roles, int64_t oid)
{
    struct role wanted = {.oid = oid};
    return roles->n ? bsearch(&wanted, roles->rows, roles->n, sizeof *roles->rows, compare_roles)
                    : NULL;
}

const char *roles_name(struct roles *roles, int64_t oid)
{
    if (oid < 0)
        return NULL;
    struct role *found = find_role(roles, oid);
    if (found)
        return found->name;
    roles->rows = xreallocarray(roles->rows, roles->n + 1, sizeof *roles->rows);
    roles->rows[roles->n++] = (struct role){.oid = oid};
    qsort(roles->rows, roles->n, sizeof *roles->rows, compare_roles);
    roles->unknown = true;
    return NULL;
}

bool roles_wanted(const struct roles *roles, int64_t now_us)
{
    return roles->unknown || (roles->n > 0 && now_us - roles->learnt_us > refresh_us);
}

const char *roles_question(const struct roles *roles, struct arena *arena)
{
    CLEANUP(free_charp) char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    for (size_t i = 0; i < roles->n; i++)
        (void)fprintf(out, "%s%lld", i ? "," : "{", (long long)roles->rows[i].oid);
    (void)fputs(roles->n ? "}" : "{}", out);
    (void)fclose(out);
    return arena_strndup(arena, text, size);
}

bool roles_learn(struct roles *roles, const struct pg_answer *answer, int64_t now_us,
                 struct error *err)
{
    struct arena *names = arena_new();
    void *rows = NULL;
    size_t n = 0;
    if (!pg_answer_decode(answer, role_columns, sizeof(struct role), names, &rows, &n, err)) {
        arena_free(names);
        return false;
    }
    for (size_t i = 0; i < roles->n; i++)
        roles->rows[i].name = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct role *read = (const struct role *)rows + i;
        struct role *known = find_role(roles, read->oid);
        if (known)
            known->name = read->name;
    }
    arena_free(roles->names);
    roles->names = names;
    roles->unknown = false;
    roles->learnt_us = now_us;
    return true;
}
