/* SPDX-License-Identifier: PostgreSQL */
/* The guards of a yield over hand-made readings: each fact that is off by one thing refuses by its
 * own guard. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "tui/guard.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int64_t start_us = INT64_C(1700000000) * SECOND_US;

/* Everything that a row may change. */
struct scene {
    struct yield_target target;
    struct yield_facts facts;
    struct yield_ledger ledger;
    struct yield_lock locks[3];
    struct guard_context context;
};

static struct scene sound(void)
{
    struct scene scene = {
        .target = {.server = "db",
                   .duty = "jobs/x",
                   .mechanism = MECHANISM_LOCK,
                   .key = {0, 42, 1},
                   .key_text = "42",
                   .system_identifier = "7",
                   .postmaster_start_us = start_us,
                   .database = "app",
                   .registered = true,
                   .owners = 1,
                   .pid = 100,
                   .backend_start_us = start_us + 5,
                   .application_name = "a",
                   .client_addr = "10.0.0.1",
                   .generation = 9,
                   .instance = "a"},
        .facts = {.system_identifier = "7",
                  .key = {0, 42, 1},
                  .n_locks = 2,
                  .server = {.database = "app",
                             .postmaster_start_us = start_us,
                             .pid = 100,
                             .backend_start_us = start_us + 5,
                             .application_name = "a",
                             .client_addr = "10.0.0.1",
                             .client_port = 5000,
                             .backend_type = "client backend",
                             .usename = "worker",
                             .xact_start_us = TIME_UNKNOWN,
                             .may_signal = true}},
        .ledger = {.mechanism = "lock",
                   .classid = 0,
                   .objid = 42,
                   .objsubid = 1,
                   .yieldable = true,
                   .generation = 9,
                   .term_pid = 100,
                   .term_backend_start_us = start_us + 5,
                   .term_instance = "a",
                   .term_open = true,
                   .previous_stopped_us = TIME_UNKNOWN,
                   .may_request = true,
                   .owner_may_signal = true,
                   .function_owner = "pgleader_owner"},
        .locks = {{0, 42, 1, true, true, 100, start_us + 5, "a", "10.0.0.1"},
                  {0, 42, 1, true, false, 101, start_us + 6, "b", "10.0.0.2"}},
        .context = {.confirm = "jobs/x 9", .connected = true},
    };
    return scene;
}

static void wire(struct scene *scene)
{
    scene->facts.locks = scene->locks;
    if (!scene->facts.ledger_unread)
        scene->facts.ledger = &scene->ledger;
}

static void is_standby(struct scene *s)
{
    s->facts.server.in_recovery = true;
}
static void other_system(struct scene *s)
{
    s->facts.system_identifier = "8";
}
static void restarted(struct scene *s)
{
    s->facts.server.postmaster_start_us++;
}
static void other_database(struct scene *s)
{
    s->facts.server.database = "other";
}
static void old_picture(struct scene *s)
{
    s->context.reading_age_us = 4 * SECOND_US;
}
static void disconnected(struct scene *s)
{
    s->context.connected = false;
}
static void hidden_start(struct scene *s)
{
    s->facts.server.backend_start_us = TIME_UNKNOWN;
}
static void released(struct scene *s)
{
    s->locks[0].granted = false;
}
static void shared(struct scene *s)
{
    s->locks[0].exclusive = false;
}
static void other_pid(struct scene *s)
{
    s->locks[0].pid = 102;
}
static void pid_again(struct scene *s)
{
    s->locks[0].backend_start_us++;
}
static void other_objsubid(struct scene *s)
{
    s->ledger.objsubid = 2;
}
static void other_objid(struct scene *s)
{
    s->ledger.objid++;
}
static void next_generation(struct scene *s)
{
    s->ledger.generation++;
}
static void earlier_generation(struct scene *s)
{
    s->ledger.generation--;
}
static void ended_term(struct scene *s)
{
    s->ledger.term_open = false;
}
static void term_of_another(struct scene *s)
{
    s->ledger.term_pid = 103;
}
static void term_of_another_start(struct scene *s)
{
    s->ledger.term_backend_start_us++;
}
static void no_words(struct scene *s)
{
    s->context.confirm = "";
}
static void other_words(struct scene *s)
{
    s->context.confirm = "jobs/x 8";
}
static void longer_words(struct scene *s)
{
    s->context.confirm = "jobs/x 9 ";
}
static void background(struct scene *s)
{
    s->facts.server.backend_type = "background worker";
}
static void superuser(struct scene *s)
{
    s->facts.server.target_superuser = true;
}
static void weak_owner(struct scene *s)
{
    s->ledger.owner_may_signal = false;
}
static void fixed(struct scene *s)
{
    s->ledger.yieldable = false;
}
static void open_yield(struct scene *s)
{
    s->ledger.yield_open = true;
}
static void alone(struct scene *s)
{
    s->facts.n_locks = 1;
}
static void cooling(struct scene *s)
{
    s->ledger.cooling = true;
}
static void renamed(struct scene *s)
{
    s->facts.server.application_name = "b";
}
static void pooled(struct scene *s)
{
    s->target.pooled = true;
}
static void no_execute(struct scene *s)
{
    s->ledger.may_request = false;
}
static void read_only(struct scene *s)
{
    s->ledger.read_only = true;
}
static void contested(struct scene *s)
{
    s->target.owners = 2;
}

static void same_name_waits(struct scene *s)
{
    s->locks[1].application_name = "a";
    s->locks[1].client_addr = "10.0.0.1";
}
static void shared_waiter(struct scene *s)
{
    s->locks[1].exclusive = false;
}

static const struct {
    const char *words;
    void (*change)(struct scene *);
    enum guard_id guard;
} refusals[] = {
    {"a standby", is_standby, GUARD_PRIMARY},
    {"another server", other_system, GUARD_SERVER},
    {"restarted", restarted, GUARD_SERVER},
    {"another database", other_database, GUARD_SERVER},
    {"an old picture", old_picture, GUARD_FRESH},
    {"no connection", disconnected, GUARD_FRESH},
    {"two owners", contested, GUARD_LED},
    {"a start that is hidden now", hidden_start, GUARD_IDENTITY},
    {"nobody holds it", released, GUARD_OWNER},
    {"held in share mode", shared, GUARD_OWNER},
    {"another session", other_pid, GUARD_OWNER},
    {"the pid was used again", pid_again, GUARD_OWNER},
    {"the key is a pair now", other_objsubid, GUARD_KEY},
    {"another key", other_objid, GUARD_KEY},
    {"the next generation", next_generation, GUARD_GENERATION},
    {"an earlier generation", earlier_generation, GUARD_GENERATION},
    {"the term ended", ended_term, GUARD_GENERATION},
    {"the term is of another pid", term_of_another, GUARD_GENERATION},
    {"the term is of another start", term_of_another_start, GUARD_GENERATION},
    {"nothing typed", no_words, GUARD_CONFIRM},
    {"another generation typed", other_words, GUARD_CONFIRM},
    {"a space more", longer_words, GUARD_CONFIRM},
    {"a background worker", background, GUARD_CLIENT},
    {"a superuser's session", superuser, GUARD_SIGNAL},
    {"the ledger's owner may not signal", weak_owner, GUARD_SIGNAL},
    {"not yieldable", fixed, GUARD_YIELDABLE},
    {"another yield", open_yield, GUARD_OPEN},
    {"nobody else", alone, GUARD_SUCCESSOR},
    {"only the same instance waits", same_name_waits, GUARD_SUCCESSOR},
    {"who waits wants to share it", shared_waiter, GUARD_SUCCESSOR},
    {"cool-down", cooling, GUARD_COOLDOWN},
    {"the name changed under the lock", renamed, GUARD_POOLED},
    {"seen as pooled before", pooled, GUARD_POOLED},
    {"no right to the functions", no_execute, GUARD_AUDIT},
    {"read-only transactions", read_only, GUARD_AUDIT},
};

static void check(struct scene *scene, struct arena *arena, struct guard_list *ret)
{
    wire(scene);
    guards_check(&scene->target, &scene->facts, &scene->context, arena, ret);
}

static bool has_failed(const struct guard_list *list, enum guard_id id)
{
    return list->rows[id].state == GUARD_FAILED;
}

static void test_all_is_well(void **state)
{
    (void)state;
    struct scene scene = sound();
    struct arena *arena = arena_new();
    struct guard_list list;
    bool privilege = false;
    check(&scene, arena, &list);
    const struct guard *failed = guards_failed(&list, &privilege);
    if (failed)
        print_message("%s: %s\n", guard_code(failed->id), failed->sentence);
    assert_null(failed);
    assert_int_equal(list.road, ROAD_LEDGER);
    assert_false(guards_changed(&list));
    arena_free(arena);
}

static void test_each_refuses(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refusals); i++) {
        struct scene scene = sound();
        struct arena *arena = arena_new();
        struct guard_list list;
        refusals[i].change(&scene);
        check(&scene, arena, &list);
        if (!has_failed(&list, refusals[i].guard))
            fail_msg("%s: guard %s let it pass", refusals[i].words, guard_code(refusals[i].guard));
        assert_true(*list.rows[refusals[i].guard].sentence && *list.rows[refusals[i].guard].remedy);
        arena_free(arena);
    }
}

/* Every override at once: only the four that may be passed over are. */
static void test_identity_is_never_overridden(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refusals); i++) {
        struct scene scene = sound();
        struct arena *arena = arena_new();
        struct guard_list list;
        refusals[i].change(&scene);
        scene.context.overrides = UINT32_MAX;
        check(&scene, arena, &list);
        enum guard_id id = refusals[i].guard;
        bool may = id == GUARD_SUCCESSOR || id == GUARD_COOLDOWN || id == GUARD_POOLED ||
                   id == GUARD_AUDIT;
        assert_int_equal(guard_overridable(id), may);
        assert_int_equal(list.rows[id].state, may ? GUARD_OVERRIDDEN : GUARD_FAILED);
        arena_free(arena);
    }
}

static void test_nothing_was_read(void **state)
{
    (void)state;
    struct scene scene = sound();
    struct arena *arena = arena_new();
    struct guard_list list;
    bool privilege = false;
    scene.context.reading_age_us = -1;
    scene.context.overrides = UINT32_MAX;
    guards_check(&scene.target, NULL, &scene.context, arena, &list);
    for (int i = 0; i < GUARDS; i++)
        assert_int_equal(list.rows[i].state, GUARD_FAILED);
    assert_non_null(guards_failed(&list, &privilege));
    assert_int_equal(list.road, ROAD_NONE);
    arena_free(arena);
}

static void test_an_unread_ledger_is_not_an_absent_one(void **state)
{
    (void)state;
    struct scene scene = sound();
    struct arena *arena = arena_new();
    struct guard_list list;
    scene.facts.ledger_unread = true;
    check(&scene, arena, &list);
    assert_true(has_failed(&list, GUARD_FRESH) && has_failed(&list, GUARD_KEY) &&
                has_failed(&list, GUARD_GENERATION));
    arena_free(arena);
}

/* What may not be read is not said to be absent, and no right is asked for that would not help. */
static void test_what_may_not_be_read(void **state)
{
    static const enum guard_id unsure[] = {GUARD_GENERATION, GUARD_SIGNAL, GUARD_AUDIT};
    static const enum guard_id denied[] = {GUARD_KEY,  GUARD_GENERATION, GUARD_YIELDABLE,
                                           GUARD_OPEN, GUARD_COOLDOWN,   GUARD_AUDIT};
    (void)state;
    struct scene hidden = sound(), foreign = sound();
    struct arena *arena = arena_new();
    struct guard_list list;
    hidden.target.generation = -1;
    hidden.target.backend_start_us = hidden.facts.server.backend_start_us = TIME_UNKNOWN;
    hidden.locks[0].backend_start_us = TIME_UNKNOWN;
    hidden.facts.server.may_signal = false;
    check(&hidden, arena, &list);
    assert_true(has_failed(&list, GUARD_IDENTITY));
    for (size_t i = 0; i < COUNT(unsure); i++)
        assert_int_equal(list.rows[unsure[i]].state, GUARD_NOTED);
    foreign.target.generation = -1;
    foreign.target.registered = false;
    foreign.facts.locks = foreign.locks;
    foreign.facts.ledger_denied = true;
    guards_check(&foreign.target, &foreign.facts, &foreign.context, arena, &list);
    for (size_t i = 0; i < COUNT(denied); i++)
        assert_non_null(strstr(list.rows[denied[i]].sentence, "may not "));
    assert_int_equal(list.rows[GUARD_KEY].state, GUARD_NOTED);
    arena_free(arena);
}

static void test_tokens(void **state)
{
    (void)state;
    struct arena *arena = arena_new();
    struct yield_target target = sound().target;
    assert_string_equal(yield_token(&target, arena), "9");
    target.generation = 0; /* never a token */
    assert_string_equal(yield_token(&target, arena), "pid:100@2023-11-14T22:13:20.000005Z");
    target.backend_start_us = TIME_UNKNOWN;
    assert_null(yield_token(&target, arena));
    target = sound().target;
    target.generation = -1;
    target.pid = 0;
    assert_null(yield_token(&target, arena));
    assert_string_equal(yield_time(-1, arena), "1969-12-31T23:59:59.999999Z");
    arena_free(arena);
}

static void test_fates(void **state)
{
    (void)state;
    struct scene scene = sound();
    struct arena *arena = arena_new();
    wire(&scene);
    assert_int_equal(yield_fate(&scene.target, &scene.facts), FATE_UNPROTECTED);
    assert_non_null(
        strstr(yield_fate_sentence(&scene.target, &scene.facts, arena), "10.0.0.1:5000"));
    scene.ledger.run_key = "r";
    scene.ledger.run_generation = 8; /* an earlier leader's */
    assert_int_equal(yield_fate(&scene.target, &scene.facts), FATE_UNPROTECTED);
    scene.ledger.run_generation = 9;
    assert_int_equal(yield_fate(&scene.target, &scene.facts), FATE_FENCED);
    scene.ledger.term_listens = true;
    assert_int_equal(yield_fate(&scene.target, &scene.facts), FATE_KIT);
    scene.target.owners = 0;
    assert_non_null(
        strstr(yield_fate_sentence(&scene.target, &scene.facts, arena), "nobody leads"));
    scene.target.owners = 1;
    scene.ledger.term_pid++; /* what listens is another session */
    assert_int_equal(yield_fate(&scene.target, &scene.facts), FATE_UNPROTECTED);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_is_well),
        cmocka_unit_test(test_each_refuses),
        cmocka_unit_test(test_identity_is_never_overridden),
        cmocka_unit_test(test_nothing_was_read),
        cmocka_unit_test(test_an_unread_ledger_is_not_an_absent_one),
        cmocka_unit_test(test_what_may_not_be_read),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_fates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
