/* SPDX-License-Identifier: PostgreSQL */
/* The table of the guards, and what all of them together say. */
#include "tui/guard.h"

#include "tui/guard_rules.h"

void check_pass(struct check *check, const char *sentence)
{
    check->row->state = GUARD_PASSED;
    check->row->sentence = sentence;
}

void check_note(struct check *check, const char *sentence, const char *remedy)
{
    check->row->state = GUARD_NOTED;
    check->row->sentence = sentence;
    check->row->remedy = remedy;
}

void check_fail(struct check *check, const char *sentence, const char *remedy)
{
    check->row->state = GUARD_FAILED;
    check->row->sentence = sentence;
    check->row->remedy = remedy;
}

void check_fail_privilege(struct check *check, const char *sentence, const char *remedy)
{
    check_fail(check, sentence, remedy);
    check->row->privilege = true;
}

bool check_is_lease(const struct check *check)
{
    return check->target->mechanism == MECHANISM_LEASE;
}

static const struct {
    const char *code;
    bool overridable;
    bool changed; /* its failure means that what was frozen is over */
    void (*check)(struct check *check);
} rows[GUARDS] = {
    [GUARD_PRIMARY] = {"primary", false, true, check_primary},
    [GUARD_SERVER] = {"server", false, true, check_server},
    [GUARD_FRESH] = {"fresh", false, false, check_fresh},
    [GUARD_LED] = {"led", false, true, check_led},
    [GUARD_IDENTITY] = {"identity", false, false, check_identity},
    [GUARD_OWNER] = {"owner", false, true, check_owner},
    [GUARD_KEY] = {"key", false, true, check_key},
    [GUARD_GENERATION] = {"generation", false, true, check_generation},
    [GUARD_CONFIRM] = {"confirm", false, false, check_confirm},
    [GUARD_CLIENT] = {"client", false, false, check_client},
    [GUARD_SIGNAL] = {"may-signal", false, false, check_signal},
    [GUARD_LEASE] = {"lease", false, false, check_lease},
    [GUARD_YIELDABLE] = {"yieldable", false, false, check_yieldable},
    [GUARD_OPEN] = {"yield-open", false, false, check_open},
    [GUARD_DUTIES] = {"other-duties", false, false, check_duties},
    [GUARD_RUN] = {"run", false, false, check_run},
    [GUARD_SUCCESSOR] = {"no-successor", true, false, check_successor},
    [GUARD_COOLDOWN] = {"cool-down", true, false, check_cooldown},
    [GUARD_POOLED] = {"pooled", true, false, check_pooled},
    [GUARD_AUDIT] = {"audit", true, false, check_audit},
};

/* The ledger's road is for a term of its own; whoever passes over its audit goes without it. */
static enum yield_road choose_road(const struct yield_target *target,
                                   const struct yield_facts *facts, uint32_t overrides)
{
    bool audited = yield_term_is_targets(target, facts);
    bool writable = audited && facts->ledger->may_request && !facts->ledger->read_only;
    if (target->mechanism == MECHANISM_LEASE)
        return writable ? ROAD_RELEASE : ROAD_NONE;
    if (audited && !writable && (overrides & (1U << GUARD_AUDIT)))
        return ROAD_OWN;
    return audited ? ROAD_LEDGER : ROAD_OWN;
}

static void unread(struct guard *row)
{
    row->state = GUARD_FAILED;
    row->sentence = "It cannot be told: nothing was read.";
}

void guards_check(const struct yield_target *target, const struct yield_facts *facts,
                  const struct guard_context *context, struct arena *arena, struct guard_list *ret)
{
    struct check check = {.target = target, .facts = facts, .context = context, .arena = arena};
    *ret = (struct guard_list){.road = ROAD_NONE, .overrides = context->overrides};
    if (facts)
        ret->road = check.road = choose_road(target, facts, context->overrides);
    for (int i = 0; i < GUARDS; i++) {
        struct guard *row = &ret->rows[i];
        *row = (struct guard){.id = (enum guard_id)i, .sentence = "", .remedy = ""};
        check.row = row;
        if (facts || i == GUARD_FRESH)
            rows[i].check(&check);
        else
            unread(row);
        bool overridden = rows[i].overridable && (context->overrides & (1U << i));
        if (row->state == GUARD_FAILED && overridden && facts &&
            (i != GUARD_AUDIT || target->mechanism == MECHANISM_LOCK))
            row->state = GUARD_OVERRIDDEN;
    }
}

const struct guard *guards_failed(const struct guard_list *list, bool *ret_privilege)
{
    const struct guard *first = NULL;
    *ret_privilege = true;
    for (int i = 0; i < GUARDS; i++) {
        const struct guard *row = &list->rows[i];
        if (row->state != GUARD_FAILED)
            continue;
        first = first ? first : row;
        *ret_privilege = *ret_privilege && row->privilege;
    }
    return first;
}

bool guards_changed(const struct guard_list *list)
{
    for (int i = 0; i < GUARDS; i++) {
        if (rows[i].changed && list->rows[i].state == GUARD_FAILED)
            return true;
    }
    return false;
}

const char *guard_code(enum guard_id id)
{
    return rows[id].code;
}

bool guard_overridable(enum guard_id id)
{
    return rows[id].overridable;
}

enum guard_id guard_find_overridable(const char *code)
{
    int i = 0;
    while (i < GUARDS && !(rows[i].overridable && text_equal(rows[i].code, code)))
        i++;
    return (enum guard_id)i;
}

const char *guard_state_name(enum guard_state state)
{
    static const char *const names[] = {
        [GUARD_PASSED] = "ok",
        [GUARD_NOTED] = "note",
        [GUARD_OVERRIDDEN] = "overridden",
        [GUARD_FAILED] = "refused",
    };
    return names[state];
}
