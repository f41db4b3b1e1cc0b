/* SPDX-License-Identifier: PostgreSQL */
/* Log lines, STATUS= and the health checks' body. */
#include "candidate/run/announce.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/notify.h"
#include "base/text.h"
#include "candidate/run/json.h"

void announce_init(struct announce *announce, const char *duty, const char *instance)
{
    *announce = (struct announce){.duty = duty, .instance = instance, .line = xstrdup("{}\n")};
    announce->health.line = announce->line;
}

void announce_done(struct announce *announce)
{
    free(STEAL(announce->line));
    free(STEAL(announce->said));
}

static enum log_level level_of(const struct lead_rule *rule, const struct error *err)
{
    bool often = rule && (rule->event == EVENT_TRY || rule->event == EVENT_REFUSED);
    if (err)
        return LOG_WARN;
    return often ? LOG_DEBUG : rule ? LOG_INFO : LOG_WARN;
}

void announce_news(struct announce *announce, const struct lead *lead, const struct lead_rule *rule,
                   const struct error *err, const char *remark)
{
    char generation[32] = "";
    if (lead && lead_generation(lead) >= 0)
        (void)snprintf(generation, sizeof generation, "%" PRId64, lead_generation(lead));
    if (rule && rule->event == EVENT_TRY)
        announce->competing = true;
    if (err || remark)
        (void)snprintf(announce->why, sizeof announce->why, "%s", err ? err->message : remark);
    log_write(level_of(rule, err),
              rule  ? rule->sentence
              : err ? err->message
                    : remark,
              "duty", announce->duty, "instance", announce->instance, "state",
              lead ? lead_state_name(lead_state(lead)) : "", "rule", rule ? rule->id : "",
              "generation", generation, "why", rule && err ? err->message : "", "sqlstate",
              err ? err->sqlstate : "", "hint", err ? err->hint : "", NULL);
}

static bool can_serve(const struct announce *announce, enum lead_state state)
{
    bool competes = announce->competing && (state == LEAD_FOLLOWER || state == LEAD_ACQUIRING);
    return !announce->stopping && (competes || announce->health.leading);
}

static void describe(struct announce *announce, const struct lead *lead,
                     const struct status *status)
{
    size_t size = 0;
    char *line = NULL;
    FILE *out = open_memstream(&line, &size);
    if (!out)
        abort();
    struct json json = json_begin(out);
    json_text(&json, "duty", announce->duty);
    json_text(&json, "instance", announce->instance);
    json_text(&json, "state", lead_state_name(lead_state(lead)));
    if (lead_generation(lead) >= 0)
        json_number(&json, "generation", lead_generation(lead));
    if (announce->health.leading)
        json_time(&json, "since", status->leading_us);
    if (!announce->health.ready)
        json_text(&json, "reason",
                  announce->stopping ? "stopping"
                  : *announce->why   ? announce->why
                                     : "it does not compete yet");
    json_end(&json);
    if (fclose(out) != 0)
        abort();
    free(announce->line);
    announce->health.line = announce->line = line;
}

/* A try is not worth a change of what people see. */
static char *status_text(const struct announce *announce, const struct lead *lead,
                         const struct status *status)
{
    char since[TIME_TEXT_SIZE];
    enum lead_state state = lead_state(lead);
    time_format(status->leading_us, since);
    if (state == LEAD_LEADER && lead_generation(lead) >= 0)
        return xasprintf("leading, generation %" PRId64 " since %s", lead_generation(lead), since);
    if (state == LEAD_LEADER)
        return xasprintf("leading since %s, without a generation", since);
    const char *name = lead_state_name(state == LEAD_ACQUIRING ? LEAD_FOLLOWER : state);
    if (announce->health.ready || announce->stopping || !*announce->why)
        return xstrdup(name);
    return xasprintf("%s: %s", name, announce->why);
}

static void tell_service_manager(struct announce *announce, char *text)
{
    bool changed = !text_equal(text, announce->said);
    if (announce->health.ready && !announce->ready_was_said) {
        announce->ready_was_said = true;
        notify_ready();
    }
    if (changed)
        notify_status("%s", text);
    free(announce->said);
    announce->said = text;
}

void announce_state(struct announce *announce, const struct lead *lead, const struct status *status)
{
    bool ends = status->end != END_NONE;
    if (ends && !announce->stopping)
        notify_stopping();
    announce->stopping = ends;
    announce->competing = announce->competing && lead_connected(lead);
    announce->health.leading =
        lead_state(lead) == LEAD_LEADER && clock_boottime_us() < lead_deadline_us(lead);
    announce->health.ready = can_serve(announce, lead_state(lead));
    if (announce->health.ready)
        *announce->why = '\0';
    describe(announce, lead, status);
    tell_service_manager(announce, status_text(announce, lead, status));
}

void announce_health(const struct announce *announce, const char *addresses)
{
    log_write(LOG_INFO, "serving health checks", "duty", announce->duty, "instance",
              announce->instance, "address", addresses, NULL);
}

void announce_end(const struct announce *announce, const struct status *status)
{
    char text[16], generation[32] = "";
    if (status->end == END_NONE)
        return;
    (void)snprintf(text, sizeof text, "%d", status->status);
    if (status->generation >= 0)
        (void)snprintf(generation, sizeof generation, "%" PRId64, status->generation);
    log_write(LOG_INFO, *status->reason ? status->reason : end_rows[status->end].sentence, "duty",
              announce->duty, "instance", announce->instance, "outcome",
              end_rows[status->end].outcome, "status", text, "rule", status->rule, "generation",
              generation, NULL);
}
