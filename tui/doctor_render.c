/* SPDX-License-Identifier: PostgreSQL */
/* Findings as text and as JSON. */
#include "base/text.h"
#include "tui/doctor.h"

const char *severity_name(enum severity severity)
{
    static const char *const names[] = {
        [SEVERITY_NOTE] = "note",
        [SEVERITY_WARNING] = "warning",
        [SEVERITY_PROBLEM] = "problem",
    };
    return names[severity];
}

/* Names of roles, tables and duties may hold anything; a terminal obeys none of it. */
static void print_plain(FILE *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        bool wide_control =
            c == 0xc2 && (unsigned char)text[1] >= 0x80 && (unsigned char)text[1] < 0xa0;
        (void)putc(c < ' ' || c == 0x7f || wide_control ? '?' : c, out);
        text += wide_control;
    }
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
        print_plain(out, finding->server ? finding->server : "");
        (void)fputs(finding->server ? ": " : "", out);
        print_plain(out, finding->evidence);
        (void)putc('\n', out);
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

static void print_member(FILE *out, const char *between, const char *name, const char *value)
{
    (void)fprintf(out, "%s\"%s\":", between, name);
    if (!value) {
        (void)fputs("null", out);
        return;
    }
    (void)putc('"', out);
    text_json_escape(out, value);
    (void)putc('"', out);
}

void doctor_print_json(const struct doctor *doctor, FILE *out)
{
    (void)fprintf(out, "{\"fit\":%s,\"checks\":%zu,\"servers\":[",
                  doctor_status(doctor) == DOCTOR_FIT ? "true" : "false", count_checks());
    for (size_t i = 0; i < doctor->n_servers; i++) {
        const struct doctor_server *server = &doctor->servers[i];
        print_member(out, i ? ",{" : "{", "server", server->config->name);
        (void)fprintf(out, ",\"looked\":%s", server->looked ? "true" : "false");
        print_member(out, ",", "version", server->looked ? server->facts.version : NULL);
        print_member(out, ",", "system_identifier",
                     server->looked ? server->facts.system_identifier : NULL);
        print_member(out, ",", "error", server->looked ? NULL : server->error.message);
        (void)putc('}', out);
    }
    (void)fputs("],\"findings\":[", out);
    for (size_t i = 0; i < doctor->n_findings; i++) {
        const struct finding *finding = &doctor->findings[i];
        print_member(out, i ? ",{" : "{", "id", finding->check->id);
        print_member(out, ",", "severity", severity_name(finding->severity));
        print_member(out, ",", "server", finding->server);
        print_member(out, ",", "evidence", finding->evidence);
        print_member(out, ",", "remedy", finding->check->remedy);
        (void)putc('}', out);
    }
    (void)fputs("]}\n", out);
}

void doctor_print_list(FILE *out)
{
    for (const struct doctor_check *check = doctor_checks; check->id; check++)
        (void)fprintf(out, "%s\t%s\t%s\t%s\n", check->id, severity_name(check->severity),
                      check->title, check->remedy);
}
