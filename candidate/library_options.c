/* SPDX-License-Identifier: PostgreSQL */
/* The options of libpgleader, of this version or another. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "candidate/library_internal.h"

static const uint64_t known_flags = PGLEADER_WAIT_QUEUE | PGLEADER_NO_SETTLE;
static const int64_t default_lease_us = 15 * SECOND_US;

/* A program built against a later header may have more members: as long as they are at their
 * defaults, nothing is asked that is not known here. */
static bool take_options(const struct pgleader_options *given, struct pgleader_options *ret,
                         struct error *err)
{
    const unsigned char *bytes = (const unsigned char *)given;
    size_t size = given->size < sizeof *ret ? given->size : sizeof *ret;
    if (given->size < offsetof(struct pgleader_options, conninfo))
        return error_set(err, ERROR_USAGE,
                         "could not read the options: begin with pgleader_options_init");
    for (size_t i = sizeof *ret; i < given->size; i++) {
        if (bytes[i])
            return error_set(
                err, ERROR_USAGE,
                "could not read the options: one is set that libpgleader %s does not know",
                PGLEADER_VERSION);
    }
    *ret = (struct pgleader_options){0};
    memcpy(ret, given, size);
    if (ret->flags & ~known_flags)
        return error_set(err, ERROR_USAGE,
                         "could not read the options: libpgleader %s does not know flag %#llx",
                         PGLEADER_VERSION, (unsigned long long)(ret->flags & ~known_flags));
    return true;
}

static const char *default_instance(struct arena *arena)
{
    char host[256] = "localhost";
    (void)gethostname(host, sizeof host - 1);
    return arena_printf(arena, "%s-%d", host, (int)getpid());
}

static bool take_times(const struct pgleader_options *options, struct timing *ret,
                       int64_t *ret_lease_us, struct error *err)
{
    *ret = timing_default();
    *ret_lease_us = default_lease_us;
    const struct {
        const char *name;
        int64_t given;
        int64_t *value;
    } rows[] = {
        {"check_every_us", options->check_every_us, &ret->check_every_us},
        {"answer_within_us", options->answer_within_us, &ret->answer_within_us},
        {"kill_after_us", options->kill_after_us, &ret->kill_after_us},
        {"slack_us", options->slack_us, &ret->slack_us},
        {"server_holds_us", options->server_holds_us, &ret->server_holds_us},
        {"lease_us", options->lease_us, ret_lease_us},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].given < 0)
            return error_set(err, ERROR_USAGE, "could not read the options: %s is negative",
                             rows[i].name);
        if (rows[i].given > 0)
            *rows[i].value = rows[i].given;
    }
    return true;
}

static bool take_authority(const struct pgleader_options *options, struct library_setup *setup,
                           struct error *err)
{
    struct arena *arena = setup->arena;
    setup->lead.lease_table = arena_strdup(arena, options->lease_table);
    setup->lead.lease_row = arena_strdup(arena, options->lease_row);
    if (options->lease_table && options->lock)
        return error_set(err, ERROR_USAGE,
                         "could not read the options: both a lock and a lease are given");
    if (options->lease_row && !options->lease_table)
        return error_set(err, ERROR_USAGE,
                         "could not read the options: a lease's row is given without its table");
    if (!options->lock)
        return true;
    struct lock_key *key = arena_alloc(arena, sizeof *key);
    setup->lead.key = key;
    return lock_key_parse(options->lock, key) ||
           error_set(err, ERROR_USAGE,
                     "could not read the lock \"%s\": not a key such as 742118 or 12,-7",
                     options->lock);
}

static bool take(const struct pgleader_options *given, struct library_setup *setup,
                 struct error *err)
{
    struct pgleader_options *options = &setup->options;
    if (!take_options(given, options, err))
        return false;
    if (!options->duty)
        return error_set(err, ERROR_USAGE, "could not read the options: no duty is given");
    setup->lead.conninfo = arena_strdup(setup->arena, options->conninfo ? options->conninfo : "");
    setup->lead.duty = arena_strdup(setup->arena, options->duty);
    setup->lead.instance = options->instance ? arena_strdup(setup->arena, options->instance)
                                             : default_instance(setup->arena);
    setup->lead.queue = options->flags & PGLEADER_WAIT_QUEUE;
    setup->lead.settle_us = options->flags & PGLEADER_NO_SETTLE ? 0 : -1;
    return take_times(options, &setup->lead.timing, &setup->lead.lease_us, err) &&
           take_authority(options, setup, err);
}

bool library_setup_make(const struct pgleader_options *given, struct library_setup *ret,
                        struct error *err)
{
    struct library_setup setup = {.arena = arena_new()};
    if (!take(given, &setup, err)) {
        library_setup_done(&setup);
        return false;
    }
    *ret = setup;
    return true;
}

void library_setup_done(struct library_setup *setup)
{
    arena_free(setup->arena);
    *setup = (struct library_setup){0};
}
