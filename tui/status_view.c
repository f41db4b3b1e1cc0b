/* SPDX-License-Identifier: PostgreSQL */
/* From a picture to rows and a verdict. */
#include "tui/status_view.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "observe/table_rows.h"

const struct snapshot *status_snapshot(const struct status_view *view, size_t server)
{
    return view->picture->fresh[server] ? view->picture->servers[server]->snapshot : NULL;
}

bool status_unexpected_role(const struct status_view *view, size_t server)
{
    const struct snapshot *snapshot = status_snapshot(view, server);
    return snapshot && view->picture->servers[server]->expect ==
                           (snapshot->facts.in_recovery ? EXPECT_PRIMARY : EXPECT_STANDBY);
}

const char *status_down_reason(const struct published *server)
{
    for (size_t i = 0; i < server->n_sections; i++) {
        if (!server->sections[i].up && server->sections[i].message)
            return server->sections[i].message;
    }
    return "could not poll: no answer in time";
}

/* Progress is only decoration, and so is what names sessions and servers. */
static bool hides_duties(const struct section *section)
{
    return text_equal(section->name, "ledger") || text_equal(section->name, "ledger_version") ||
           strncmp(section->name, "lease:", strlen("lease:")) == 0;
}

const struct section *status_failed_section(const struct published *server, size_t *position)
{
    while (*position < server->n_sections) {
        const struct section *section = &server->sections[(*position)++];
        if (!section->up && hides_duties(section))
            return section;
    }
    return NULL;
}

enum duty_state status_row_state(const struct status_row *row)
{
    return row->readable ? row->duty->state : DUTY_UNKNOWN;
}

static bool is_named(const struct option_list *duties, const char *name)
{
    for (int i = 0; i < duties->n; i++) {
        if (text_equal(duties->items[i], name))
            return true;
    }
    return false;
}

static void add_row(struct status_view *view, size_t server, const struct duty *duty,
                    const struct option_list *duties)
{
    bool named = is_named(duties, duty->name);
    if (duties->n > 0 && !named)
        return;
    const struct snapshot *snapshot = status_snapshot(view, server);
    bool standby = snapshot && snapshot->facts.in_recovery;
    struct status_row row = {.server = view->picture->servers[server], .duty = duty};
    row.fresh = snapshot != NULL;
    row.readable = snapshot && duty->read && !standby;
    row.led = row.readable && duty->owners > 0;
    row.counts = (named || duty->source != SOURCE_DISCOVERY) &&
                 (!standby || status_unexpected_role(view, server));
    view->rows[view->n++] = row;
}

/* Of a server that was never seen the config still says which duties it has. */
static const struct duty *unseen_duty(const struct config_duty *definition, struct arena *arena)
{
    struct duty *duty = arena_alloc(arena, sizeof *duty);
    duty_init(duty);
    duty->name = definition->name;
    duty->mechanism = definition->mechanism;
    duty->source = SOURCE_CONFIG;
    if (definition->mechanism == MECHANISM_LEASE) {
        duty->key_text = arena_printf(
            arena, "%s:%s", table_canonical(definition->lease.table, arena), definition->lease.row);
    } else {
        char text[LOCK_KEY_TEXT_SIZE];
        lock_key_format(definition->key, text);
        duty->key_text = arena_strdup(arena, text);
    }
    return duty;
}

static const struct config_server *config_of(const struct config *config, const char *server)
{
    for (size_t i = 0; i < config->n_servers; i++) {
        if (text_equal(config->servers[i].name, server))
            return &config->servers[i];
    }
    return NULL;
}

static size_t count_most(const struct picture *picture, const struct config *config)
{
    size_t n = 0;
    for (size_t i = 0; i < picture->n; i++)
        n += picture->servers[i]->snapshot ? picture->servers[i]->snapshot->n_duties : 0;
    for (size_t i = 0; i < config->n_servers; i++)
        n += config->servers[i].n_duties;
    return n;
}

static void add_server(struct status_view *view, size_t server, const struct config *config,
                       const struct option_list *duties)
{
    const struct published *published = view->picture->servers[server];
    const struct config_server *unseen = config_of(config, published->server);
    if (published->snapshot) {
        for (size_t i = 0; i < published->snapshot->n_duties; i++)
            add_row(view, server, &published->snapshot->duties[i], duties);
        return;
    }
    for (size_t i = 0; unseen && i < unseen->n_duties; i++)
        add_row(view, server, unseen_duty(&unseen->duties[i], view->arena), duties);
}

/* What nobody is to be woken for comes last. */
static int rank(const struct status_row *row)
{
    static const int ranks[] = {
        [DUTY_CONTESTED] = 0, [DUTY_VACANT] = 1,   [DUTY_STALLED] = 2,
        [DUTY_UNKNOWN] = 3,   [DUTY_YIELDING] = 4, [DUTY_LED] = 5,
    };
    if (row->duty->source == SOURCE_DISCOVERY)
        return 7;
    return row->counts ? ranks[status_row_state(row)] : 6;
}

struct place {
    struct status_row row;
    int rank;
    size_t position;
};

static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank - y->rank;
    return (x->position > y->position) - (x->position < y->position);
}

static void sort_rows(struct status_view *view)
{
    struct place *places = arena_array(view->arena, view->n + 1, sizeof *places);
    for (size_t i = 0; i < view->n; i++)
        places[i] = (struct place){view->rows[i], rank(&view->rows[i]), i};
    qsort(places, view->n, sizeof *places, compare_places);
    for (size_t i = 0; i < view->n; i++)
        view->rows[i] = places[i].row;
}

static enum status_verdict worse(enum status_verdict a, enum status_verdict b)
{
    return a > b ? a : b;
}

static enum status_verdict judge_server(const struct status_view *view, size_t server)
{
    const struct snapshot *snapshot = status_snapshot(view, server);
    size_t position = 0;
    if (!snapshot || snapshot->facts.ledger_version < 0 ||
        status_failed_section(view->picture->servers[server], &position))
        return VERDICT_UNKNOWN;
    bool blind = snapshot->facts.in_recovery && status_unexpected_role(view, server);
    return blind ? VERDICT_UNKNOWN : VERDICT_LED;
}

static enum status_verdict judge_row(const struct status_row *row)
{
    switch (status_row_state(row)) {
    case DUTY_LED:
    case DUTY_YIELDING:
        return VERDICT_LED;
    case DUTY_VACANT:
    case DUTY_STALLED:
    case DUTY_CONTESTED:
        return VERDICT_NOT_LED;
    case DUTY_UNKNOWN:
        break;
    }
    return VERDICT_UNKNOWN;
}

/* A duty that was asked for and stands on a standby alone is as unknown as one that stands nowhere,
 * but it is not missing. */
static void judge_operand(struct status_view *view, const char *name)
{
    bool found = false, counted = false;
    for (size_t i = 0; i < view->n; i++) {
        bool same = text_equal(view->rows[i].duty->name, name);
        found = found || same;
        counted = counted || (same && view->rows[i].counts);
    }
    if (!found)
        view->missing[view->n_missing++] = name;
    if (!counted)
        view->verdict = VERDICT_UNKNOWN;
}

void status_view_init(struct status_view *ret_view, const struct picture *picture,
                      const struct config *config, const struct option_list *duties)
{
    struct arena *arena = arena_new();
    struct status_view view = {
        .picture = picture,
        .arena = arena,
        .rows = arena_array(arena, count_most(picture, config) + 1, sizeof *view.rows),
        .missing = arena_array(arena, (size_t)duties->n + 1, sizeof *view.missing),
    };
    for (size_t i = 0; i < picture->n; i++) {
        add_server(&view, i, config, duties);
        view.verdict = worse(view.verdict, judge_server(&view, i));
    }
    for (size_t i = 0; i < view.n; i++) {
        if (view.rows[i].counts)
            view.verdict = worse(view.verdict, judge_row(&view.rows[i]));
    }
    for (int i = 0; i < duties->n; i++)
        judge_operand(&view, duties->items[i]);
    sort_rows(&view);
    *ret_view = view;
}

void status_view_done(struct status_view *view)
{
    arena_free(view->arena);
    *view = (struct status_view){0};
}
