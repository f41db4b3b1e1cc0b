/* SPDX-License-Identifier: PostgreSQL */
/* Findings as text and as JSON. */
#include "tui/doctor.h"
#include "tui/harmless.h"
#include "tui/json.h"

const char *severity_name(enum severity severity)
{
    static const char *const names[] = {
        [SEVERITY_NOTE] = "note",
        [SEVERITY_WARNING] = "warning",
        [SEVERITY_PROBLEM] = "problem",
    };
    return names[severity];
}

static size_t count(const struct doctor *doctor, enum severity severity)
{
    size_t n = 0;
    for (size_t i = 0; i < doctor->n_findings; i++)
        n += doctor->findings[i].severity == severity;
    return n;
}

static size_t count_checks(void)
{
    size_t n = 0;
    while (doctor_checks[n].id)
        n++;
    return n;
}

static size_t count_looked(const struct doctor *doctor)
{
    size_t n = 0;
    for (size_t i = 0; i < doctor->n_servers; i++)
        n += doctor->servers[i].looked;
    return n;
}

static bool is_first_of_check(const struct doctor *doctor, size_t i)
{
    const struct finding *at = &doctor->findings[i];
    return i == 0 || at[-1].check != at->check || at[-1].severity != at->severity;
}

static bool is_last_of_check(const struct doctor *doctor, size_t i)
{
    return i + 1 == doctor->n_findings || is_first_of_check(doctor, i + 1);
}

void doctor_print(const struct doctor *doctor, FILE *out)
{
    for (size_t i = 0; i < doctor->n_findings; i++) {
        const struct finding *finding = &doctor->findings[i];
        if (is_first_of_check(doctor, i))
            (void)fprintf(out, "%-8s %s: %s\n", severity_name(finding->severity),
                          finding->check->id, finding->check->title);
        (void)fputs("         ", out);
        print_harmless(out, finding->server ? finding->server : "");
        (void)fputs(finding->server ? ": " : "", out);
        print_harmless(out, finding->evidence);
        (void)putc('\n', out);
        if (finding->statement) {
            (void)fputs("         run: ", out);
            print_harmless(out, finding->statement);
            (void)putc('\n', out);
        }
        if (is_last_of_check(doctor, i))
            (void)fprintf(out, "  remedy %s\n", finding->check->remedy);
    }
    size_t problems = count(doctor, SEVERITY_PROBLEM), warnings = count(doctor, SEVERITY_WARNING);
    (void)fprintf(
        out, "%s: %zu problem%s, %zu warning%s, %zu note%s; %zu checks, %zu of %zu server%s\n",
        doctor_status(doctor) == DOCTOR_FIT        ? "fit"
        : doctor_status(doctor) == DOCTOR_FINDINGS ? "findings"
                                                   : "could not look everywhere",
        problems, problems == 1 ? "" : "s", warnings, warnings == 1 ? "" : "s",
        count(doctor, SEVERITY_NOTE), count(doctor, SEVERITY_NOTE) == 1 ? "" : "s", count_checks(),
        count_looked(doctor), doctor->n_servers, doctor->n_servers == 1 ? "" : "s");
}

void doctor_print_json(const struct doctor *doctor, FILE *out)
{
    struct json json = {.out = out};
    json_open(&json, NULL, '{');
    json_bool(&json, "fit", doctor_status(doctor) == DOCTOR_FIT);
    json_integer(&json, "checks", (int64_t)count_checks());
    json_open(&json, "servers", '[');
    for (size_t i = 0; i < doctor->n_servers; i++) {
        const struct doctor_server *server = &doctor->servers[i];
        const struct doctor_facts *facts = &server->facts;
        json_open(&json, NULL, '{');
        json_text(&json, "server", server->config->name);
        json_bool(&json, "looked", server->looked);
        json_text(&json, "version", server->looked ? facts->version : NULL);
        json_text(&json, "system_identifier", server->looked ? facts->system_identifier : NULL);
        json_text(&json, "error", server->looked ? NULL : server->error.message);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_open(&json, "findings", '[');
    for (size_t i = 0; i < doctor->n_findings; i++) {
        const struct finding *finding = &doctor->findings[i];
        json_open(&json, NULL, '{');
        json_text(&json, "id", finding->check->id);
        json_text(&json, "severity", severity_name(finding->severity));
        json_text(&json, "server", finding->server);
        json_text(&json, "evidence", finding->evidence);
        json_text(&json, "remedy", finding->check->remedy);
        json_text(&json, "statement", finding->statement);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_close(&json, '}');
}

void doctor_print_list(FILE *out)
{
    for (const struct doctor_check *check = doctor_checks; check->id; check++)
        (void)fprintf(out, "%s\t%s\t%s\t%s\n", check->id, severity_name(check->severity),
                      check->title, check->remedy);
}
