/* SPDX-License-Identifier: PostgreSQL */
/* The HTML of `/`: the frame, the servers, and the duties in trouble before the others. */
#include "exporter/page.h"

#include <inttypes.h>

#include "exporter/page_duty.h"
#include "exporter/page_text.h"
#include "observe/publish.h"

enum { ROWS_MAX = 500 }; /* a page that reloads itself has to stay small */

static const char UNKNOWN[] = "<span class=unknown>unknown</span>";

static void cell(FILE *out, const char *label)
{
    (void)fprintf(out, "<td data-label=\"%s\"><div>", label);
}

static void cell_end(FILE *out)
{
    (void)fputs("</div></td>\n", out);
}

static void up_cell(const struct published *server, bool fresh, FILE *out)
{
    cell(out, "State");
    if (fresh)
        (void)fputs("<span class=\"state up\">up</span>", out);
    else if (server->stats.tried || server->snapshot)
        (void)fputs("<span class=\"state down\">unknown</span>", out);
    else
        (void)fputs("<span class=\"state unknown\">connecting</span>", out);
    for (size_t i = 0; i < server->n_sections; i++) {
        const struct section *section = &server->sections[i];
        if (section->up)
            continue;
        (void)fputs("<small class=warn>", out);
        page_escape(out, section->name);
        (void)fprintf(out, " failed%s%.5s</small>", *section->sqlstate ? ": " : "",
                      section->sqlstate);
    }
    cell_end(out);
}

static void role_cell(const struct published *server, bool fresh, FILE *out)
{
    cell(out, "Role");
    if (!fresh) {
        (void)fputs(UNKNOWN, out);
    } else {
        bool standby = server->snapshot->facts.in_recovery;
        enum expect unexpected = standby ? EXPECT_PRIMARY : EXPECT_STANDBY;
        (void)fputs(standby ? "standby" : "primary", out);
        if (server->expect == unexpected)
            (void)fprintf(out, "<small class=warn>expected: %s</small>",
                          standby ? "primary" : "standby");
        if (!server->snapshot->facts.privileged)
            (void)fputs("<small class=warn>without pg_read_all_stats</small>", out);
    }
    cell_end(out);
}

static void text_cell(const char *label, bool fresh, const char *text, FILE *out)
{
    cell(out, label);
    if (fresh && text && *text)
        page_escape(out, text);
    else
        (void)fputs(UNKNOWN, out);
    cell_end(out);
}

static void ledger_cell(const struct published *server, bool fresh, FILE *out)
{
    int32_t version = fresh ? server->snapshot->facts.ledger_version : -1;
    cell(out, "Ledger");
    if (version < 0)
        (void)fputs(UNKNOWN, out);
    else if (version == 0)
        (void)fputs("<span class=dim>none</span>", out);
    else
        (void)fprintf(out, "version %" PRId32, version);
    cell_end(out);
}

static void picture_cell(const struct picture *picture, size_t i, FILE *out)
{
    const struct published *server = picture->servers[i];
    cell(out, "Picture");
    if (!server->snapshot || server->success_monotonic_us == TIME_UNKNOWN) {
        (void)fputs("<span class=dim>none yet</span>", out);
    } else {
        page_duration(out, picture->taken_us - server->success_monotonic_us);
        (void)fputs(" old", out);
    }
    cell_end(out);
}

static void render_server(const struct picture *picture, size_t i, FILE *out)
{
    const struct published *server = picture->servers[i];
    const struct snapshot *snapshot = server->snapshot;
    bool fresh = picture->fresh[i];
    (void)fputs("<tr>\n", out);
    cell(out, "Server");
    (void)fputs("<span class=name>", out);
    page_escape(out, server->server);
    (void)fputs("</span>", out);
    cell_end(out);
    up_cell(server, fresh, out);
    role_cell(server, fresh, out);
    text_cell("Version", fresh, fresh ? snapshot->facts.version : NULL, out);
    text_cell("Database", fresh, fresh ? snapshot->facts.database : NULL, out);
    ledger_cell(server, fresh, out);
    picture_cell(picture, i, out);
    (void)fputs("</tr>\n", out);
}

static void render_servers(const struct picture *picture, FILE *out)
{
    (void)fputs("<h2>Servers</h2>\n<div class=box><table>\n<thead><tr><th>Server<th>State<th>Role"
                "<th>Version<th>Database<th>Ledger<th>Picture</tr></thead>\n<tbody>\n",
                out);
    for (size_t i = 0; i < picture->n; i++)
        render_server(picture, i, out);
    (void)fputs("</tbody></table></div>\n", out);
}

/* Counts, and renders if out is not NULL, the duties in trouble or those that are not, up to
 * *room. */
static size_t walk_duties(const struct picture *picture, bool trouble, size_t *room, FILE *out)
{
    size_t n = 0;
    for (size_t i = 0; i < picture->n; i++) {
        const struct snapshot *snapshot = picture->servers[i]->snapshot;
        for (size_t j = 0; snapshot && j < snapshot->n_duties; j++) {
            struct page_duty row = {
                .server = picture->servers[i],
                .duty = &snapshot->duties[j],
                .fresh = picture->fresh[i],
                .named = picture->n > 1,
            };
            if (page_duty_in_trouble(&row) != trouble)
                continue;
            n++;
            if (!out || *room == 0)
                continue;
            page_duty_render(&row, out);
            --*room;
        }
    }
    return n;
}

static void render_duties(const struct picture *picture, size_t n, FILE *out)
{
    size_t room = ROWS_MAX;
    (void)fputs("<h2>Duties</h2>\n", out);
    if (n == 0) {
        (void)fputs("<p class=dim>No duties are known.</p>\n", out);
        return;
    }
    (void)fprintf(out,
                  "<div class=box><table>\n<thead><tr><th>Duty%s<th>State<th>Owner<th>Led for"
                  "<th class=n>Generation<th class=n>Candidates<th class=n>Waiting<th>Progress"
                  "</tr></thead>\n<tbody>\n",
                  picture->n > 1 ? "<th>Server" : "");
    (void)walk_duties(picture, true, &room, out);
    (void)walk_duties(picture, false, &room, out);
    (void)fputs("</tbody></table></div>\n", out);
    if (n > ROWS_MAX)
        (void)fprintf(out, "<p class=dim>%zu more are in the metrics.</p>\n", n - ROWS_MAX);
}

static void render_summary(const struct picture *picture, size_t trouble, size_t n, FILE *out)
{
    size_t fresh = 0;
    for (size_t i = 0; i < picture->n; i++)
        fresh += picture->fresh[i];
    (void)fprintf(out, "<p class=sum><b>%zu</b> of %zu servers up, <b>%zu</b> %s", fresh,
                  picture->n, n, n == 1 ? "duty" : "duties");
    if (trouble)
        (void)fprintf(out, ", <b class=warn>%zu %s a look</b>", trouble,
                      trouble == 1 ? "needs" : "need");
    (void)fputs("</p>\n", out);
}

void page_render(const struct picture *picture, const char *metrics_path, FILE *out)
{
    size_t trouble = walk_duties(picture, true, NULL, NULL);
    size_t n = trouble + walk_duties(picture, false, NULL, NULL);
    (void)fputs("<!DOCTYPE html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
                "<meta name=viewport content=\"width=device-width, initial-scale=1\">\n"
                "<meta http-equiv=\"refresh\" content=\"5\">\n<title>pgleader</title>\n<style>",
                out);
    (void)fputs(page_style, out);
    (void)fputs("</style>\n</head>\n<body>\n<header>\n<h1>pgleader</h1>\n<nav><a href=\"", out);
    page_escape(out, metrics_path);
    (void)fputs("\">Metrics</a> <a href=\"/-/healthy\">Health</a> <a href=\"/-/ready\">Ready</a>"
                "</nav>\n</header>\n<main>\n",
                out);
    render_summary(picture, trouble, n, out);
    render_duties(picture, n, out);
    render_servers(picture, out);
    (void)fputs("<footer>pgleader_exporter " PGLEADER_VERSION
                ", reloads every 5 s. Ages are by the clock of the server.</footer>\n"
                "</main>\n</body>\n</html>\n",
                out);
}
