/* SPDX-License-Identifier: PostgreSQL */
/* Counts instances. Sessions are sorted by instance, so that a literal prefix is a range and
 * distinct ones are neighbours; a pattern that a whole fleet shares is counted once. */
#include "observe/candidates.h"

#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

struct pattern_count {
    const char *pattern;
    int32_t instances;
};

/* The rows that one duty adds to its pattern's: few. */
struct gathering {
    const struct lock_row **rows;
    size_t n, room;
};

struct candidates {
    const struct sessions *sessions;
    bool kit;       /* some session is named as the kit names its own */
    void *patterns; /* tsearch(3) of struct pattern_count */
    struct gathering extra;
};

void candidates_free(struct candidates *candidates)
{
    if (!candidates)
        return;
    tdestroy(candidates->patterns, free);
    free(candidates->extra.rows);
    free(candidates);
}

/* The first session whose name is not before the prefix. */
static size_t first_of_prefix(const struct sessions *sessions, const char *prefix, size_t size)
{
    size_t low = 0, high = sessions->n_names;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strncmp(lock_row_name(sessions->names[middle]), prefix, size) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool has_prefix(const struct sessions *sessions, size_t at, const char *prefix, size_t size)
{
    return at < sessions->n_names && strncmp(lock_row_name(sessions->names[at]), prefix, size) == 0;
}

struct candidates *candidates_new(const struct sessions *sessions)
{
    static const char prefix[] = "pgleader:";
    size_t size = strlen(prefix);
    struct candidates *candidates = xcalloc(1, sizeof *candidates);
    candidates->sessions = sessions;
    candidates->kit = has_prefix(sessions, first_of_prefix(sessions, prefix, size), prefix, size);
    return candidates;
}

static int32_t count_pattern(const struct sessions *sessions, const char *pattern)
{
    size_t size = strcspn(pattern, "%_\\");
    const struct lock_row *last = NULL;
    int32_t instances = 0;
    for (size_t i = first_of_prefix(sessions, pattern, size);
         has_prefix(sessions, i, pattern, size); i++) {
        const struct lock_row *row = sessions->names[i];
        if (!text_like(lock_row_name(row), pattern))
            continue;
        instances += !last || lock_row_compare_instance(last, row) != 0;
        last = row;
    }
    return instances;
}

static int compare_patterns(const void *a, const void *b)
{
    return strcmp(((const struct pattern_count *)a)->pattern,
                  ((const struct pattern_count *)b)->pattern);
}

static int32_t pattern_instances(struct candidates *candidates, const char *pattern)
{
    struct pattern_count wanted = {.pattern = pattern};
    void *found = tfind(&wanted, &candidates->patterns, compare_patterns);
    if (found)
        return (*(struct pattern_count *const *)found)->instances;
    struct pattern_count *count = xmalloc(sizeof *count);
    *count = (struct pattern_count){pattern, count_pattern(candidates->sessions, pattern)};
    if (!tsearch(count, &candidates->patterns, compare_patterns))
        abort();
    return count->instances;
}

static void gather(struct gathering *gathering, const struct lock_row *row)
{
    if (gathering->n == gathering->room) {
        gathering->room = gathering->room ? 2 * gathering->room : 16;
        gathering->rows =
            xreallocarray(gathering->rows, gathering->room, sizeof(struct lock_row *));
    }
    gathering->rows[gathering->n++] = row;
}

static int compare_gathered(const void *a, const void *b)
{
    return lock_row_compare_instance(*(const struct lock_row *const *)a,
                                     *(const struct lock_row *const *)b);
}

/* Distinct instances among the gathered rows that the pattern does not count already. */
static int32_t count_extra(struct gathering *gathering, const char *pattern)
{
    int32_t instances = 0;
    if (gathering->n > 1)
        qsort(gathering->rows, gathering->n, sizeof(struct lock_row *), compare_gathered);
    for (size_t i = 0; i < gathering->n; i++) {
        const struct lock_row *row = gathering->rows[i];
        bool repeated = i > 0 && lock_row_compare_instance(gathering->rows[i - 1], row) == 0;
        bool counted = pattern && row->pid > 0 && text_like(lock_row_name(row), pattern);
        instances += !repeated && !counted;
    }
    return instances;
}

static void gather_kit(struct candidates *candidates, const char *duty)
{
    const struct sessions *sessions = candidates->sessions;
    char prefix[128];
    if (!candidates->kit)
        return;
    size_t size = (size_t)snprintf(prefix, sizeof prefix, "pgleader:%.100s:", duty);
    for (size_t i = first_of_prefix(sessions, prefix, size); has_prefix(sessions, i, prefix, size);
         i++)
        gather(&candidates->extra, sessions->names[i]);
}

int32_t candidates_count(struct candidates *candidates, const char *duty, const char *pattern,
                         const struct lock_row *const *rows, size_t n_rows, int32_t *ret_by_name)
{
    int32_t matched = pattern ? pattern_instances(candidates, pattern) : 0;
    candidates->extra.n = 0;
    gather_kit(candidates, duty);
    *ret_by_name = matched + (int32_t)candidates->extra.n;
    for (size_t i = 0; i < n_rows; i++)
        gather(&candidates->extra, rows[i]);
    return matched + count_extra(&candidates->extra, pattern);
}
