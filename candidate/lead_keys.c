/* SPDX-License-Identifier: PostgreSQL */
/* Which keys a candidate takes: the registry's, and while the duty moves to another one, that
 * beside it, in the same session. The first decides until the registry says that the change is
 * complete; whoever holds both then goes on by the second, and gives the first one back. */
#include <stdlib.h>

#include "base/memory.h"
#include "base/text.h"
#include "candidate/lead_internal.h"

/* A predecessor's session that ends frees its locks one after the other. */
static const int64_t next_pause_us = SECOND_US / 40;
static const int64_t next_again_us = 5 * SECOND_US;
enum { NEXT_TRIES = 4, NEXT_DOUBLINGS = 5 };

static const struct lock_key no_key = {0};

static bool is_set(struct lock_key key)
{
    return key.objsubid != 0;
}

static struct lock_key key_of(const struct reply *reply)
{
    return (struct lock_key){(uint32_t)reply->classid, (uint32_t)reply->objid,
                             (uint16_t)reply->objsubid};
}

static struct lock_key next_of(const struct reply *reply)
{
    return (struct lock_key){(uint32_t)reply->next_classid, (uint32_t)reply->next_objid,
                             (uint16_t)reply->next_objsubid};
}

static void tell_of(struct lead *lead, const char *before, struct lock_key key, const char *after)
{
    char text[LOCK_KEY_TEXT_SIZE];
    lock_key_format(key, text);
    lead_tell(lead, NULL, NULL, arena_printf(lead->arena, "%s %s%s", before, text, after));
}

/* Who was told a key leads by it; or by the registry's, where the one that was told is that which
 * the duty moves to. */
static bool is_told_another(const struct lead *lead, const struct reply *reply)
{
    const struct lock_key *told = lead->options.key;
    return told && !(reply->objsubid > 0 && (lock_key_equal(*told, key_of(reply)) ||
                                             lock_key_equal(*told, next_of(reply))));
}

/* A named key that is not the registry's is refused when a term is to begin. */
static void adopt(struct lead *lead, const struct reply *reply)
{
    if (is_told_another(lead, reply)) {
        lead->target.key = *lead->options.key;
        lead->target.next = no_key;
    } else {
        lead->target.key = key_of(reply);
        lead->target.next = next_of(reply);
    }
    lead->found = true;
}

/* Of a session that is ready it was asked just before a try: one that counted instead would never
 * come to try where the pauses are longer than the time between two counts. */
static void go_on_following(struct lead *lead)
{
    if (lead->listening)
        lead_try(lead);
    else
        lead_prepare(lead);
}

static void found_no_lock(struct lead *lead, const struct reply *reply)
{
    struct error err = {0};
    if (reply->lease_table && lead->listening) { /* it was a lock's before */
        lead_drop_session(lead, 0);
    } else if (reply->lease_table) { /* its kind is asked next */
        free(lead->registered_table);
        free(lead->registered_row);
        lead->options.lease_table = lead->registered_table = xstrdup(reply->lease_table);
        lead->options.lease_row = lead->registered_row = xstrdup(reply->lease_row);
        lead_prepare(lead);
    } else {
        (void)error_set(&err, ERROR_CONFIG, "could not lead %s: the ledger has no such duty",
                        lead->options.duty);
        error_hint(&err, "Register it by pgleader.register_duty, or name its lock or lease.");
        lead_refuse(lead, &err);
    }
}

bool lead_is_by_named_key(const struct lead *lead)
{
    return lead->options.key && lock_key_equal(*lead->options.key, lead->target.key);
}

void lead_refuse_named_key(struct lead *lead)
{
    struct error err = {0};
    (void)error_set(&err, ERROR_CONFIG,
                    "could not lead %s by the lock that was named: the registry has another",
                    lead->options.duty);
    lead_refuse(lead, &err);
}

static bool holds_beside(const struct lead *lead, struct lock_key key)
{
    return lead->holds_other && lock_key_equal(lead->target.other, key);
}

/* Leads, or is about to, by another key than the registry's. */
static void has_another_key(struct lead *lead, const struct reply *reply)
{
    struct error err = {0};
    if (lead->state != LEAD_ACQUIRING) {
        lead->hinted = true; /* is the term over? */
        lead_go_on(lead);
    } else if (is_told_another(lead, reply)) {
        lead_refuse_named_key(lead);
    } else {
        (void)error_set(&err, ERROR_QUERY, "the registry has another lock for %s by now",
                        lead->options.duty);
        lead_session_failed(lead, EVENT_TRY_FAILED, &err);
    }
}

/* The registry was read in a session that holds the key. */
static void look_again(struct lead *lead, const struct reply *reply)
{
    struct lock_key key = key_of(reply);
    if (reply->objsubid <= 0) { /* begin_term says so, or ASK_YIELD */
        lead->target.next = no_key;
        lead_go_on(lead);
    } else if (lock_key_equal(key, lead->target.key)) {
        if (!lock_key_equal(lead->target.next, next_of(reply)))
            lead->next_due_us = 0;
        lead->target.next = next_of(reply);
        lead_go_on(lead);
    } else if (holds_beside(lead, key)) {
        lead->target.other = lead->target.key;
        lead->target.key = key;
        lead->target.next = next_of(reply);
        lead->next_due_us = 0;
        tell_of(lead, "the change of the key is complete: the duty is led by", key,
                ", and the old one is given back");
        lead_go_on(lead);
    } else {
        has_another_key(lead, reply);
    }
}

void lead_took_key(struct lead *lead, const struct reply *reply)
{
    lead->stale = false;
    lead->knows_registry = true;
    if (lead->holds) {
        look_again(lead, reply);
    } else if (reply->objsubid > 0 || lead->options.key) {
        adopt(lead, reply);
        go_on_following(lead);
    } else {
        found_no_lock(lead, reply);
    }
}

/* The ledger is locked: a leader asks again after its next check, a follower does without. */
void lead_refused_key(struct lead *lead, const struct error *err, bool passing)
{
    bool leads = lead->holds && lead->state != LEAD_ACQUIRING;
    if (leads) {
        lead->stale = passing;
        if (!passing)
            lead_tell(lead, NULL, err, NULL);
        lead_check_next(lead);
    } else if (lead->holds && passing) { /* is it still ours? then begin again */
        lead_ask(lead, ASK_CHECK);
    } else if (passing && lead->found) {
        lead->stale = false;
        lead->knows_registry = true;
        go_on_following(lead);
    } else {
        lead_refused_otherwise(lead, err);
    }
}

static bool has_spare(const struct lead *lead)
{
    return lead->holds_other && !lock_key_equal(lead->target.other, lead->target.next);
}

static bool lacks_next(const struct lead *lead)
{
    return is_set(lead->target.next) && !is_set(lead->target.other);
}

/* From here on it may be held, whatever is answered. */
static void take_next(struct lead *lead)
{
    lead->target.other = lead->target.next;
    lead->holds_other = false;
    lead_ask(lead, ASK_NEXT);
}

bool lead_settle_keys(struct lead *lead)
{
    if (has_spare(lead))
        lead_ask(lead, ASK_DROP);
    else if (lacks_next(lead))
        take_next(lead);
    else
        return false;
    return true;
}

/* Only soon after a check, so that none is late for it; at most one question a check otherwise. */
void lead_look_after_keys(struct lead *lead)
{
    int64_t now = clock_boottime_us();
    bool early = now - lead->confirmed_us < lead->options.timing.check_every_us / 2;
    if (!early || lead->state != LEAD_LEADER || lead->target.lease_table)
        lead_check_next(lead);
    else if (lead->stale && lead->generation >= 0)
        lead_ask(lead, ASK_KEY);
    else if (has_spare(lead))
        lead_ask(lead, ASK_DROP);
    else if (lacks_next(lead) && now >= lead->next_due_us)
        take_next(lead);
    else
        lead_check_next(lead);
}

void lead_go_on(struct lead *lead)
{
    if (lead->state == LEAD_ACQUIRING)
        lead_proceed(lead);
    else if (lead->state == LEAD_YIELDING && !lead->working)
        lead_release(lead);
    else
        lead_look_after_keys(lead);
}

/* A key that another holds may be free in a moment. Else: who does not lead yet gives its own back,
 * since whoever holds that one may believe that it leads; a leader is the registry's own. */
static void next_is_held(struct lead *lead)
{
    if (lead->state != LEAD_ACQUIRING) {
        lead->next_due_us = clock_boottime_us() + next_again_us;
        if (!lead->next_held)
            tell_of(lead, "the duty moves to the key", lead->target.next,
                    ", which another session holds: the change cannot be completed");
        lead->next_held = true;
        lead_go_on(lead);
    } else if (++lead->next_tries < NEXT_TRIES) {
        lead_wait(lead, next_pause_us, ASK_CHECK);
    } else {
        int failures =
            lead->next_failures < NEXT_DOUBLINGS ? lead->next_failures++ : NEXT_DOUBLINGS;
        lead->held_off_until_us =
            clock_boottime_us() + SECOND_US + timing_reconnect_pause_us(failures, lead_random());
        lead->stale = true;
        lead_give_back(lead, EVENT_NEXT_HELD);
    }
}

void lead_took_next(struct lead *lead, const struct reply *reply)
{
    lead->holds_other = reply->yes;
    if (!reply->yes) {
        lead->target.other = no_key;
        next_is_held(lead);
        return;
    }
    lead->next_held = false;
    lead->next_failures = 0;
    tell_of(lead, "the duty moves to the key", lead->target.next, ": this session holds it, too");
    lead_go_on(lead);
}

void lead_took_drop(struct lead *lead, const struct reply *reply)
{
    if (!reply->yes)
        tell_of(lead, "the server says that the key", lead->target.other, " was not held any more");
    lead_forget_other(lead);
    lead_go_on(lead);
}

/* The next check says whether it is held. */
void lead_refused_other(struct lead *lead, const struct error *err)
{
    if (lead->state == LEAD_ACQUIRING)
        lead_refused_otherwise(lead, err);
    else
        lead_check_next(lead);
}

void lead_checked_other(struct lead *lead, bool held)
{
    lead->holds_other = held && is_set(lead->target.other);
    if (!held)
        lead->target.other = no_key;
}

void lead_forget_other(struct lead *lead)
{
    lead->target.other = no_key;
    lead->holds_other = false;
}

/* The session is closed: what is not remembered is asked anew. A key that was named comes back. */
void lead_forget_keys(struct lead *lead)
{
    lead_forget_other(lead);
    lead->target.next = no_key;
    lead->stale = lead->knows_registry = lead->next_held = false;
    lead->next_due_us = 0;
    if (lead->options.key)
        lead->target.key = *lead->options.key;
    else if (!lead->target.lease_table)
        lead->found = false;
}
