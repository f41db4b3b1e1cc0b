/* SPDX-License-Identifier: PostgreSQL */
/* Every metric family: where its number comes from, the one table with names and help, and the walk
 * over it. */
#include "exporter/metrics.h"

#include "base/cleanup.h"
#include "exporter/families.h"
#include "exporter/process.h"
#include "exporter/subjects.h"

/* get_FAMILY: the number of a family, as an expression over one thing of the subject. */
#define NUMBER(family, thing, expression)                                                          \
    static struct value get_##family(const struct subject *s)                                      \
    {                                                                                              \
        const struct thing;                                                                        \
        return expression;                                                                         \
    }
#define PROCESS(family, expression) NUMBER(family, process *p = s->process, expression)
#define RELOAD(family, expression) NUMBER(family, picture *p = s->picture, expression)
#define OBSERVER(family, expression)                                                               \
    NUMBER(family, poll_stats *p = &s->published->stats, expression)
#define SERVER(family, expression) NUMBER(family, snapshot *n = s->snapshot, expression)
#define DUTY(family, expression) NUMBER(family, duty *d = s->duty, expression)

RELOAD(reload_ok, value_flag(p->reload_ok))
RELOAD(reload_time, value_if(p->reload_us > 0, value_time(p->reload_us)))
PROCESS(cpu, value_time(p->cpu_us))
PROCESS(resident, value_count(p->resident_bytes))
PROCESS(virtual, value_count(p->virtual_bytes))
PROCESS(open_fds, value_count(p->open_fds))
PROCESS(max_fds, value_count(p->max_fds))
PROCESS(start, value_time(p->start_us))

static struct value get_up(const struct subject *s)
{
    return value_flag(s->fresh);
}
OBSERVER(poll_interval, value_if(p->interval_us > 0, value_time(p->interval_us)))
OBSERVER(last_poll, value_time(p->last_poll_us))
OBSERVER(last_success, value_time(p->last_success_us))
OBSERVER(connects, value_integer((int64_t)p->connects))

static struct value get_role_unexpected(const struct subject *s)
{
    enum expect unexpected = s->snapshot->facts.in_recovery ? EXPECT_PRIMARY : EXPECT_STANDBY;
    return value_flag(s->published->expect == unexpected);
}
SERVER(in_recovery, value_flag(n->facts.in_recovery))
SERVER(privileged, value_flag(n->facts.privileged))
SERVER(ledger_version, value_count(n->facts.ledger_version))
SERVER(clock_skew, value_time(n->facts.clock_skew_us))
SERVER(unregistered_locks, value_count(n->unregistered_locks))
SERVER(foreign_locks, value_count(n->foreign_locks))

/* Who leads is not known on a standby: its locks are not the primary's. */
static bool readable(const struct subject *s)
{
    return s->duty->read && !s->snapshot->facts.in_recovery;
}

/* Only a lock is waited for and can be shared; of a lease nobody can tell. */
static struct value of_lock(const struct subject *s, struct value value)
{
    return value_if(readable(s) && s->duty->mechanism == MECHANISM_LOCK, value);
}

static struct value of_owner(const struct subject *s, struct value value)
{
    return value_if(subject_led(s), value);
}

static struct value of_lease(const struct subject *s, struct value value)
{
    return value_if(readable(s) && s->duty->lease_expires_us != TIME_UNKNOWN, value);
}

DUTY(state, value_integer(d->state))
DUTY(leader_held, value_if(readable(s), value_flag(d->owners > 0)))
DUTY(owners, value_if(readable(s), value_count(d->owners)))
DUTY(shared_owners, of_lock(s, value_count(d->shared_owners)))
DUTY(owner_pid, of_owner(s, value_if(d->owner.pid > 0, value_integer(d->owner.pid))))
DUTY(owner_backend_start, of_owner(s, value_time(d->owner.backend_start_us)))
DUTY(owner_pooled, of_owner(s, value_flag(d->trail.pooled)))
DUTY(generation, value_count(d->generation))
DUTY(acquired, of_owner(s, value_time(d->acquired_us)))
DUTY(age, of_owner(s, value_span(d->age_us)))
DUTY(age_uncertainty, of_owner(s, value_span(d->age_uncertainty_us)))
DUTY(last_term, value_span(d->trail.past->last_term_us))
DUTY(candidates, value_count(d->candidates))
DUTY(waiters, of_lock(s, value_count(d->waiters)))
DUTY(oldest_wait, of_lock(s, value_span(d->oldest_wait_us)))
DUTY(vacant_since, value_if(readable(s) && d->owners == 0 && d->trail.ever_owned,
                            value_time(d->trail.past->lost_upper_us)))
DUTY(lease_remaining, of_lease(s, value_between(d->read_upper_us, d->lease_expires_us)))
DUTY(lease_duration, of_lease(s, value_span(d->lease_duration_us)))
DUTY(lease_expires, of_lease(s, value_time(d->lease_expires_us)))
DUTY(run_active, value_if(d->in_ledger || d->run->present,
                          value_flag(d->run->present && d->run->finished_us == TIME_UNKNOWN)))
DUTY(run_cursor, value_if(d->run->present, value_real(d->run->position)))
DUTY(run_target, value_if(d->run->present, value_real(d->run->target)))
DUTY(run_started, value_if(d->run->present, value_time(d->run->started_us)))
DUTY(run_advanced, value_if(d->run->present, value_time(d->run->advanced_us)))
DUTY(run_deadline, value_if(d->run->present, value_time(d->run->deadline_us)))
DUTY(progress_age, value_if(d->run->present && d->run->finished_us == TIME_UNKNOWN,
                            value_between(d->run->advanced_us, s->snapshot->read_upper_us)))
DUTY(last_run_finished, value_if(d->last_run->present, value_time(d->last_run->finished_us)))
DUTY(last_run_cursor, value_if(d->last_run->present, value_real(d->last_run->position)))
DUTY(min_candidates, value_count(d->limits->min_candidates))
DUTY(stall_after, value_span(d->limits->stall_after_us))
DUTY(run_every, value_span(d->limits->run_every_us))
DUTY(takeover_slow_after, value_span(d->limits->takeover_slow_after_us))
DUTY(wait_slow_after, value_span(d->limits->wait_slow_after_us))
DUTY(alerts_paused,
     value_if(d->source == SOURCE_LEDGER || d->source == SOURCE_CONFIG,
              value_flag(d->limits->alerts_paused_until_us > s->snapshot->read_upper_us)))
DUTY(last_takeover_time, value_time(d->trail.past->takeover_at_us))
DUTY(last_takeover, value_span(d->trail.past->takeover_upper_us))
DUTY(last_takeover_lower, value_span(d->trail.past->takeover_lower_us))
DUTY(ledger_mismatch, value_if(d->in_ledger, value_flag(d->mismatch)))
DUTY(term_begun,
     value_if(d->in_ledger && !d->term_unverified, of_owner(s, value_flag(d->term_begun))))
DUTY(owner_xmin_age, of_owner(s, value_count(d->owner_xmin_age)))
DUTY(waiter_xmin_age, of_lock(s, value_count(d->waiter_xmin_age)))
DUTY(owner_xact_age, of_owner(s, value_span(d->owner_xact_age_us)))

static void render_family(struct writer *writer, const struct metric *metric,
                          const struct subject *subjects, size_t n)
{
    writer_turn(writer, metric);
    for (size_t i = 0; i < n; i++) {
        const struct subject *subject = &subjects[i];
        if (metric->scope == SCOPE_FRESH && !subject->snapshot)
            continue;
        if (metric->scope == SCOPE_NAMED && subject->duty->source == SOURCE_DISCOVERY)
            continue;
        if (metric->write)
            metric->write(writer, subject);
        else
            writer_sample(writer, subject, metric->get(subject));
    }
}

void metrics_render(const struct picture *picture, int server, enum exposition_format format,
                    FILE *out)
{
    struct writer writer = {.out = out, .format = format};
    CLEANUP(subjects_done) struct subjects subjects;
    subjects_init(&subjects, picture, server);
    for (const struct metric *metric = metrics; metric->name; metric++) {
        if (metric->scope == SCOPE_DUTY || metric->scope == SCOPE_NAMED)
            render_family(&writer, metric, subjects.duties, subjects.n_duties);
        else if (metric->scope != SCOPE_PROGRAM)
            render_family(&writer, metric, subjects.servers, subjects.n_servers);
    }
}

void metrics_render_live(const struct picture *picture, enum exposition_format format, FILE *out)
{
    struct writer writer = {.out = out, .format = format};
    struct process process;
    process_read(&process);
    const struct subject program = {.labels = "", .picture = picture, .process = &process};
    for (const struct metric *metric = metrics; metric->name; metric++) {
        if (metric->scope == SCOPE_PROGRAM)
            render_family(&writer, metric, &program, 1);
    }
    if (format == FORMAT_OPENMETRICS)
        (void)fputs("# EOF\n", out);
}

void metrics_list(FILE *out)
{
    for (const struct metric *metric = metrics; metric->name; metric++)
        (void)fprintf(out, "%s\t%s\t%s\t%s\n", metric->name, metric_type_name(metric->type),
                      metric->labels, metric->help);
}

const struct metric metrics[] = {
    {"pgleader_up", METRIC_GAUGE,
     "Whether the last good poll of the server is fresh, judged at the scrape.", "server",
     SCOPE_SERVER, .get = get_up},
    {"pgleader_server_info", METRIC_INFO, "Which server answers.",
     "server,system_identifier,timeline,database,version", SCOPE_FRESH, .write = write_server_info},
    {"pgleader_in_recovery", METRIC_GAUGE, "Whether the server is a standby.", "server",
     SCOPE_FRESH, .get = get_in_recovery},
    {"pgleader_role_unexpected", METRIC_GAUGE,
     "Whether the server is a standby where a primary is expected, or the reverse.", "server",
     SCOPE_FRESH, .get = get_role_unexpected},
    {"pgleader_privileged", METRIC_GAUGE,
     "Whether the role of the exporter has pg_read_all_stats; without it no ages are known.",
     "server", SCOPE_FRESH, .get = get_privileged},
    {"pgleader_ledger_version", METRIC_GAUGE,
     "Version of the ledger in the database; 0 where there is none.", "server", SCOPE_FRESH,
     .get = get_ledger_version},
    {"pgleader_clock_skew_seconds", METRIC_GAUGE,
     "Clock of the server minus clock of the exporter.", "server", SCOPE_FRESH,
     .get = get_clock_skew},
    {"pgleader_unregistered_locks", METRIC_GAUGE,
     "Advisory locks held in the database that no named duty accounts for.", "server", SCOPE_FRESH,
     .get = get_unregistered_locks},
    {"pgleader_foreign_locks", METRIC_GAUGE,
     "Advisory locks held in other databases, or by an extension.", "server", SCOPE_FRESH,
     .get = get_foreign_locks},
    {"pgleader_duty_info", METRIC_INFO, "What a duty is and where it was learnt from.",
     "server,duty,mechanism,source,key,team", SCOPE_DUTY, .write = write_duty_info},
    {"pgleader_duty_state", METRIC_GAUGE,
     "0 unknown, 1 led, 2 vacant, 3 stalled, 4 contested, 5 yielding; for display, not for alerts.",
     "server,duty", SCOPE_NAMED, .get = get_state},
    {"pgleader_leader_held", METRIC_GAUGE,
     "Whether somebody leads the duty; absent when it could not be read and on a standby.",
     "server,duty", SCOPE_DUTY, .get = get_leader_held},
    {"pgleader_owners", METRIC_GAUGE,
     "Sessions that hold the lock of the duty exclusively, or unexpired leases.", "server,duty",
     SCOPE_DUTY, .get = get_owners},
    {"pgleader_shared_owners", METRIC_GAUGE,
     "Sessions that hold the lock of the duty in share mode.", "server,duty", SCOPE_NAMED,
     .get = get_shared_owners},
    {"pgleader_owner_pid", METRIC_GAUGE, "Backend process of the owner.", "server,duty", SCOPE_DUTY,
     .get = get_owner_pid},
    {"pgleader_owner_backend_start_timestamp_seconds", METRIC_GAUGE,
     "When the session of the owner began.", "server,duty", SCOPE_NAMED,
     .get = get_owner_backend_start},
    {"pgleader_owner_info", METRIC_INFO, "Who leads the duty.",
     "server,duty,holder,application_name,usename,client_addr", SCOPE_DUTY,
     .write = write_owner_info},
    {"pgleader_owner_pooled", METRIC_GAUGE,
     "Whether the owner seems to sit behind a connection pooler, which makes its lock worthless.",
     "server,duty", SCOPE_NAMED, .get = get_owner_pooled},
    {"pgleader_generation", METRIC_GAUGE,
     "Generation of the present term; absent when it could not be read.", "server,duty",
     SCOPE_NAMED, .get = get_generation},
    {"pgleader_acquired_timestamp_seconds", METRIC_GAUGE,
     "When the owner acquired the duty, if that was recorded or seen.", "server,duty", SCOPE_NAMED,
     .get = get_acquired},
    {"pgleader_acquisition_age_seconds", METRIC_GAUGE,
     "Time since the acquisition at the last poll: at least this much.", "server,duty", SCOPE_NAMED,
     .get = get_age},
    {"pgleader_acquisition_uncertainty_seconds", METRIC_GAUGE,
     "How much longer than acquisition_age_seconds the age may be; 0 where the acquisition was "
     "recorded.",
     "server,duty", SCOPE_NAMED, .get = get_age_uncertainty},
    {"pgleader_last_term_seconds", METRIC_GAUGE,
     "Length of the last term that ended, as recorded; else it was at least so long.",
     "server,duty", SCOPE_NAMED, .get = get_last_term},
    {"pgleader_candidates", METRIC_GAUGE, "Distinct instances that lead the duty or are ready to.",
     "server,duty", SCOPE_NAMED, .get = get_candidates},
    {"pgleader_waiters", METRIC_GAUGE, "Sessions that wait for the lock of the duty.",
     "server,duty", SCOPE_DUTY, .get = get_waiters},
    {"pgleader_oldest_wait_seconds", METRIC_GAUGE,
     "How long the longest waiting session has waited for the lock.", "server,duty", SCOPE_NAMED,
     .get = get_oldest_wait},
    {"pgleader_vacant_since_timestamp_seconds", METRIC_GAUGE,
     "When the duty was lost; only while nobody leads it.", "server,duty", SCOPE_NAMED,
     .get = get_vacant_since},
    {"pgleader_lease_remaining_seconds", METRIC_GAUGE,
     "Time until the lease expires, by the clock of the server; negative once expired.",
     "server,duty", SCOPE_NAMED, .get = get_lease_remaining},
    {"pgleader_lease_duration_seconds", METRIC_GAUGE, "Length of the lease.", "server,duty",
     SCOPE_NAMED, .get = get_lease_duration},
    {"pgleader_lease_expires_timestamp_seconds", METRIC_GAUGE, "When the lease expires.",
     "server,duty", SCOPE_NAMED, .get = get_lease_expires},
    {"pgleader_run_active", METRIC_GAUGE, "Whether a run of the duty is going on.", "server,duty",
     SCOPE_NAMED, .get = get_run_active},
    {"pgleader_run_cursor", METRIC_GAUGE, "Position of the current run.", "server,duty",
     SCOPE_NAMED, .get = get_run_cursor},
    {"pgleader_run_target", METRIC_GAUGE, "Position at which the current run will be complete.",
     "server,duty", SCOPE_NAMED, .get = get_run_target},
    {"pgleader_run_started_timestamp_seconds", METRIC_GAUGE, "When the current run started.",
     "server,duty", SCOPE_NAMED, .get = get_run_started},
    {"pgleader_run_advanced_timestamp_seconds", METRIC_GAUGE,
     "When the cursor of the current run last changed.", "server,duty", SCOPE_NAMED,
     .get = get_run_advanced},
    {"pgleader_run_deadline_timestamp_seconds", METRIC_GAUGE,
     "When the current run must be complete.", "server,duty", SCOPE_NAMED, .get = get_run_deadline},
    {"pgleader_progress_age_seconds", METRIC_GAUGE,
     "Time since the cursor of the current run last changed, at the last poll.", "server,duty",
     SCOPE_NAMED, .get = get_progress_age},
    {"pgleader_last_run_finished_timestamp_seconds", METRIC_GAUGE,
     "When the last complete run finished.", "server,duty", SCOPE_NAMED,
     .get = get_last_run_finished},
    {"pgleader_last_run_cursor", METRIC_GAUGE, "Position at which the last complete run finished.",
     "server,duty", SCOPE_NAMED, .get = get_last_run_cursor},
    {"pgleader_duty_min_candidates", METRIC_GAUGE,
     "Declared: fewer candidates than this need attention.", "server,duty", SCOPE_NAMED,
     .get = get_min_candidates},
    {"pgleader_duty_stall_after_seconds", METRIC_GAUGE,
     "Declared: a run without progress for this long is stalled.", "server,duty", SCOPE_NAMED,
     .get = get_stall_after},
    {"pgleader_duty_run_every_seconds", METRIC_GAUGE,
     "Declared: a run should complete at least this often.", "server,duty", SCOPE_NAMED,
     .get = get_run_every},
    {"pgleader_duty_takeover_slow_after_seconds", METRIC_GAUGE,
     "Declared: a takeover that takes longer than this is slow.", "server,duty", SCOPE_NAMED,
     .get = get_takeover_slow_after},
    {"pgleader_duty_wait_slow_after_seconds", METRIC_GAUGE,
     "Declared: a wait for the lock longer than this needs attention.", "server,duty", SCOPE_NAMED,
     .get = get_wait_slow_after},
    {"pgleader_duty_alerts_paused", METRIC_GAUGE,
     "Whether alerts of the duty are paused for maintenance.", "server,duty", SCOPE_NAMED,
     .get = get_alerts_paused},
    {"pgleader_last_takeover_timestamp_seconds", METRIC_GAUGE,
     "When the last takeover was complete.", "server,duty", SCOPE_NAMED,
     .get = get_last_takeover_time},
    {"pgleader_last_takeover_seconds", METRIC_GAUGE,
     "How long the duty was without a leader in the last takeover: at most this much.",
     "server,duty", SCOPE_NAMED, .get = get_last_takeover},
    {"pgleader_last_takeover_lower_bound_seconds", METRIC_GAUGE,
     "How long the duty was without a leader in the last takeover: at least this much.",
     "server,duty", SCOPE_NAMED, .get = get_last_takeover_lower},
    {"pgleader_takeover_seconds", METRIC_HISTOGRAM,
     "Takeovers by their upper bound, of all named duties of the server.", "server", SCOPE_FRESH,
     .write = write_takeover_seconds},
    {"pgleader_transitions_total", METRIC_COUNTER,
     "Changes of the leadership, by the rule that names them.", "server,duty,rule", SCOPE_NAMED,
     .write = write_transitions},
    {"pgleader_ledger_mismatch", METRIC_GAUGE,
     "Whether the open term belongs to a living session that is not the owner.", "server,duty",
     SCOPE_NAMED, .get = get_ledger_mismatch},
    {"pgleader_term_begun", METRIC_GAUGE, "Whether the owner has begun its term in the ledger.",
     "server,duty", SCOPE_NAMED, .get = get_term_begun},
    {"pgleader_owner_xmin_age", METRIC_GAUGE,
     "Age, in transactions, of the snapshot that the owner holds back vacuum with.", "server,duty",
     SCOPE_NAMED, .get = get_owner_xmin_age},
    {"pgleader_waiter_xmin_age", METRIC_GAUGE,
     "Age, in transactions, of the oldest snapshot that a waiting session holds back vacuum with.",
     "server,duty", SCOPE_NAMED, .get = get_waiter_xmin_age},
    {"pgleader_owner_xact_age_seconds", METRIC_GAUGE,
     "How long the transaction of the owner has been open.", "server,duty", SCOPE_NAMED,
     .get = get_owner_xact_age},
    {"pgleader_yields_total", METRIC_COUNTER, "Yields requested through the ledger, by outcome.",
     "server,duty,outcome", SCOPE_NAMED, .write = write_yields},
    {"pgleader_section_up", METRIC_GAUGE,
     "Whether the section of the last poll succeeded; the log has the reason.", "server,section",
     SCOPE_SERVER, .write = write_section_up},
    {"pgleader_poll_seconds", METRIC_HISTOGRAM, "Polls by their duration, failed ones too.",
     "server", SCOPE_SERVER, .write = write_poll_seconds},
    {"pgleader_poll_interval_seconds", METRIC_GAUGE, "Interval between polls in force now.",
     "server", SCOPE_SERVER, .get = get_poll_interval},
    {"pgleader_last_poll_timestamp_seconds", METRIC_GAUGE,
     "When the last poll ended, by the clock of the exporter; 0 for never.", "server", SCOPE_SERVER,
     .get = get_last_poll},
    {"pgleader_last_success_timestamp_seconds", METRIC_GAUGE,
     "When the last good poll ended, by the clock of the exporter; 0 for never.", "server",
     SCOPE_SERVER, .get = get_last_success},
    {"pgleader_connects_total", METRIC_COUNTER, "Connections made to the server.", "server",
     SCOPE_SERVER, .get = get_connects},
    {"pgleader_config_last_reload_successful", METRIC_GAUGE,
     "Whether the last reload of the configuration succeeded.", "", SCOPE_PROGRAM,
     .get = get_reload_ok},
    {"pgleader_config_last_reload_timestamp_seconds", METRIC_GAUGE,
     "When the configuration was last loaded successfully.", "", SCOPE_PROGRAM,
     .get = get_reload_time},
    {"pgleader_build_info", METRIC_INFO, "Version of the exporter and of its libpq.",
     "version,libpq", SCOPE_PROGRAM, .write = write_build_info},
    {"process_cpu_seconds_total", METRIC_COUNTER, "User and system CPU time spent.", "",
     SCOPE_PROGRAM, .get = get_cpu},
    {"process_resident_memory_bytes", METRIC_GAUGE, "Resident memory.", "", SCOPE_PROGRAM,
     .get = get_resident},
    {"process_virtual_memory_bytes", METRIC_GAUGE, "Virtual memory.", "", SCOPE_PROGRAM,
     .get = get_virtual},
    {"process_open_fds", METRIC_GAUGE, "Open file descriptors.", "", SCOPE_PROGRAM,
     .get = get_open_fds},
    {"process_max_fds", METRIC_GAUGE, "Limit on open file descriptors.", "", SCOPE_PROGRAM,
     .get = get_max_fds},
    {"process_start_time_seconds", METRIC_GAUGE, "When the process started.", "", SCOPE_PROGRAM,
     .get = get_start},
    {.name = NULL},
};
