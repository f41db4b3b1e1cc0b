/* SPDX-License-Identifier: PostgreSQL */
/* Picture to lines: filter, sort, group. */
#include "tui/list.h"

#include <string.h>

#include "base/memory.h"
#include "base/text.h"

const char *const list_order_names[ORDERS] = {"attention", "duty", "owner", "held", "wait"};

const char *instance_name(const char *duty, const char *name)
{
    static const char kit[] = "pgleader:";
    size_t size = strlen(duty);
    if (strncmp(name, kit, strlen(kit)) != 0 || strncmp(name + strlen(kit), duty, size) != 0)
        return name;
    const char *rest = name + strlen(kit) + size;
    return rest[0] == ':' && rest[1] ? rest + 1 : name;
}

const char *duty_holder(const struct duty *duty)
{
    if (duty->owners <= 0)
        return "";
    if (duty->owner.holder && *duty->owner.holder)
        return instance_name(duty->name, duty->owner.holder);
    return "(no name)";
}

bool list_row_matches(const struct list_row *row, const char *text)
{
    char words[VERDICT_SIZE];
    const struct duty *duty = row->duty;
    if (!*text)
        return true;
    if (!duty)
        return false;
    verdict_words(duty, row->fresh, words);
    return strcasestr(duty->name, text) || strcasestr(duty_holder(duty), text) ||
           strcasestr(words, text) || (duty->key_text && strcasestr(duty->key_text, text));
}

static int compare_int64(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

struct sorting {
    enum list_order order;
    bool inverted;
};

static int compare_rows(const void *a, const void *b, void *context)
{
    const struct list_row *x = a, *y = b;
    const struct sorting *sorting = context;
    int by = 0;
    if (sorting->order == ORDER_OWNER)
        by = strcmp(duty_holder(x->duty), duty_holder(y->duty));
    else if (sorting->order == ORDER_HELD)
        by = compare_int64(y->duty->age_us, x->duty->age_us);
    else if (sorting->order == ORDER_WAIT)
        by = compare_int64(y->duty->oldest_wait_us, x->duty->oldest_wait_us);
    if (by == 0)
        by = strcmp(x->duty->name, y->duty->name);
    return sorting->inverted ? -by : by;
}

enum { RANKS = 2 * (URGENCY_GONE + 1) };

/* Where equally urgent, locks that nobody has named come after the duties that have a name. */
static size_t rank(const struct list_row *row)
{
    return 2 * (size_t)row->urgency + (row->duty->source == SOURCE_DISCOVERY);
}

/* By attention or by name the rows need no comparing: they come by name. */
static void spread(struct list_row *rows, size_t n, const struct sorting *sorting)
{
    size_t next[RANKS] = {0}, at = 0;
    struct list_row *sorted = xcalloc(n, sizeof *sorted);
    for (size_t i = 0; i < n && sorting->order == ORDER_ATTENTION; i++)
        next[rank(&rows[i])]++;
    for (size_t r = 0; r < RANKS; r++) {
        size_t count = next[r];
        next[r] = at;
        at += count;
    }
    for (size_t i = 0; i < n; i++) {
        size_t to = sorting->order == ORDER_ATTENTION ? next[rank(&rows[i])]++ : i;
        sorted[sorting->inverted ? n - 1 - to : to] = rows[i];
    }
    memcpy(rows, sorted, n * sizeof *rows);
    free(sorted);
}

static void sort(struct list_row *rows, size_t n, struct sorting *sorting)
{
    if (sorting->order == ORDER_ATTENTION || sorting->order == ORDER_DUTY)
        spread(rows, n, sorting);
    else if (n > 1)
        qsort_r(rows, n, sizeof *rows, compare_rows, sorting);
}

static size_t all_duties(const struct picture *picture)
{
    size_t n = 0;
    for (size_t i = 0; i < picture->n; i++) {
        if (picture->servers[i] && picture->servers[i]->snapshot)
            n += picture->servers[i]->snapshot->n_duties;
    }
    return n;
}

static void add_server(struct list *list, const struct picture *picture, size_t server,
                       const char *filter)
{
    const struct published *published = picture->servers[server];
    const struct snapshot *snapshot = published ? published->snapshot : NULL;
    for (size_t i = 0; snapshot && i < snapshot->n_duties; i++) {
        struct list_row row = {
            .server = server, .duty = &snapshot->duties[i], .fresh = picture->fresh[server]};
        row.urgency = verdict_urgency(row.duty, row.fresh);
        list->n_duties++;
        list->counts[row.urgency]++;
        if (list_row_matches(&row, filter))
            list->rows[list->n++] = row;
    }
}

/* The most urgent of its duties; a server that gives no picture may have any. */
static enum urgency server_urgency(const struct picture *picture, size_t server)
{
    const struct published *published = picture->servers[server];
    const struct snapshot *snapshot = published ? published->snapshot : NULL;
    enum urgency most = snapshot && picture->fresh[server] ? URGENCY_GONE : URGENCY_UNKNOWN;
    for (size_t i = 0; snapshot && i < snapshot->n_duties; i++) {
        enum urgency urgency = verdict_urgency(&snapshot->duties[i], picture->fresh[server]);
        most = urgency < most ? urgency : most;
    }
    return most < URGENCY_FINE ? most : URGENCY_FINE;
}

/* By attention the server with the most urgent duty comes first; else they come as configured. */
static size_t *servers_in_order(const struct picture *picture, enum list_order order)
{
    size_t *servers = xcalloc(picture->n + 1, sizeof *servers);
    int *urgencies = xcalloc(picture->n + 1, sizeof *urgencies);
    for (size_t i = 0; i < picture->n; i++) {
        size_t at = i;
        urgencies[i] =
            order == ORDER_ATTENTION && picture->n > 1 ? (int)server_urgency(picture, i) : 0;
        for (; at > 0 && urgencies[servers[at - 1]] > urgencies[i]; at--)
            servers[at] = servers[at - 1];
        servers[at] = i;
    }
    free(urgencies);
    return servers;
}

void list_build(const struct picture *picture, enum list_order order, bool inverted,
                const char *filter, struct list *ret_list)
{
    struct list list = {.rows = xcalloc(all_duties(picture) + picture->n + 1, sizeof *list.rows)};
    struct sorting sorting = {.order = order, .inverted = inverted};
    size_t *servers = servers_in_order(picture, order);
    for (size_t i = 0; i < picture->n; i++) {
        size_t server = servers[i];
        if (picture->n > 1)
            list.rows[list.n++] =
                (struct list_row){.server = server, .fresh = picture->fresh[server]};
        size_t first = list.n;
        add_server(&list, picture, server, filter);
        sort(list.rows + first, list.n - first, &sorting);
    }
    free(servers);
    list.taken_us = picture->taken_us;
    list.order = order;
    list.inverted = inverted;
    list.filter = xstrdup(filter);
    *ret_list = list;
}

bool list_is_of(const struct list *list, const struct picture *picture, enum list_order order,
                bool inverted, const char *filter)
{
    return list->filter && list->taken_us == picture->taken_us && list->order == order &&
           list->inverted == inverted && text_equal(list->filter, filter);
}

void list_done(struct list *list)
{
    free(list->filter);
    free(list->rows);
    *list = (struct list){0};
}
