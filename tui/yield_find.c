/* SPDX-License-Identifier: PostgreSQL */
/* Looks until the registry was read, so that a duty is not mistaken for one without a ledger. */
#include "tui/yield_find.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "observe/duties.h"
#include "tui/command.h"
#include "tui/status_look.h"
#include "tui/yield.h"

static const char command[] = "yield";
static const int64_t look_within_us = 5 * SECOND_US;
static const int64_t look_again_us = SECOND_US / 50;
static const int64_t poll_every_us = SECOND_US / 10; /* the second one comes soon */

/* Two attempts that came to nothing are enough of a server that is not there. */
static bool is_hopeless(const struct published *server, bool fresh)
{
    uint64_t attempts = 0;
    for (size_t i = 0; i < POLL_BUCKETS; i++)
        attempts += server->stats.polls[i];
    return !fresh && attempts >= 2;
}

static bool all_complete(const struct picture *picture)
{
    bool all = true;
    for (size_t i = 0; i < picture->n; i++)
        all = all && (status_look_complete(picture->servers[i], picture->fresh[i]) ||
                      is_hopeless(picture->servers[i], picture->fresh[i]));
    return all;
}

/* Only the duty that is asked for; of what nobody named, the lock whose key is its name. */
static void seek(struct config *config, const char *duty)
{
    size_t size = strlen(DISCOVERED);
    bool by_key =
        strncmp(duty, DISCOVERED, size) == 0 && lock_key_parse(duty + size, &config->discovery_key);
    config->discovery_enabled = config->discovery_enabled && by_key;
    config->discovery_limit = 1;
    config->only_duty = duty;
    config->silent_after_s = YIELD_SILENT_AFTER_S;
    config->poll_interval_us = poll_every_us;
}

static void look(struct status_look *eyes, struct picture *ret_picture)
{
    int64_t deadline = clock_monotonic_us() + look_within_us;
    (void)status_look_wait(eyes, false, deadline, -1);
    status_look_take(eyes, ret_picture);
    while (!all_complete(ret_picture) && clock_monotonic_us() < deadline) {
        picture_done(ret_picture);
        (void)status_look_wait(eyes, true, clock_monotonic_us() + look_again_us, -1);
        status_look_take(eyes, ret_picture);
    }
}

/* Why a server may know the duty and could not say so; NULL where it was asked in full. */
static const struct section *unread_section(const struct published *server)
{
    for (size_t i = 0; i < server->n_sections; i++) {
        if (server->sections[i].message)
            return &server->sections[i];
    }
    return NULL;
}

static int missing(const struct yield_place *place, const char *duty)
{
    struct error err = {0};
    for (size_t i = 0; i < place->picture.n; i++) {
        const struct published *server = place->picture.servers[i];
        const struct section *unread = unread_section(server);
        if (!unread && status_look_complete(server, place->picture.fresh[i]))
            continue;
        (void)error_set(&err, ERROR_CONNECT, "could not find duty \"%s\" on server \"%s\": %s",
                        duty, server->server, unread ? unread->message : "no answer in time");
        bool denied = unread && text_equal(unread->sqlstate, "42501");
        if (denied)
            error_hint(&err, "GRANT pgleader_operator (or pgleader_reader) to your role.");
        return command_fail(command, &err, denied ? STATUS_NO_PERMISSION : STATUS_UNAVAILABLE);
    }
    (void)error_set(&err, ERROR_USAGE, "could not find duty \"%s\": no server knows it", duty);
    error_hint(&err, "`pgleader status` lists them; a lock without a name is advisory/KEY.");
    return command_fail(command, &err, STATUS_USAGE);
}

static const struct duty *find_on(const struct yield_place *place, size_t i, const char *duty)
{
    const struct published *server = place->picture.servers[i];
    bool complete = status_look_complete(server, place->picture.fresh[i]);
    return complete ? snapshot_find(server->snapshot, duty) : NULL;
}

/* A standby repeats the registry of its primary and leads nothing: it is taken only where nobody
 * else has the duty, and then refused by name. */
static int pick(struct yield_place *place, const char *duty)
{
    struct error err = {0};
    for (size_t i = 0; i < place->picture.n; i++) {
        const struct snapshot *snapshot = place->picture.servers[i]->snapshot;
        const struct duty *found = find_on(place, i, duty);
        if (found && place->duty && snapshot->facts.in_recovery)
            continue;
        if (found && place->duty && !place->snapshot->facts.in_recovery) {
            (void)error_set(&err, ERROR_USAGE,
                            "could not choose a server: \"%s\" and \"%s\" both have duty \"%s\"",
                            place->server->name, place->config->servers[i].name, duty);
            error_hint(&err, "Name one by --server.");
            return command_fail(command, &err, STATUS_USAGE);
        }
        if (!found)
            continue;
        place->server = &place->config->servers[i];
        place->snapshot = snapshot;
        place->duty = found;
    }
    return place->duty ? 0 : missing(place, duty);
}

int yield_find(const struct server_options *options, const char *duty, struct yield_place *place)
{
    struct config *config = NULL;
    *place = (struct yield_place){0};
    if (!servers_read(options, command, &config))
        return STATUS_USAGE;
    seek(config, duty);
    place->config = config;
    struct status_look *eyes = status_look_new(config);
    look(eyes, &place->picture);
    int status = pick(place, duty);
    if (status == 0)
        place->session = status_look_session(eyes, place->server->name);
    place->config = status_look_stop(eyes);
    return status;
}

void yield_place_done(struct yield_place *place)
{
    pg_conn_close(STEAL(place->session));
    picture_done(&place->picture);
    config_free(place->config);
}
