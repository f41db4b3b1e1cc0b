/* SPDX-License-Identifier: PostgreSQL */
/* What all screens share: title, counts, banner, message and footer. */
#include "tui/screen.h"

#include <stdarg.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

/* Title, counts or banner above; message and footer below. */
enum { ROWS_ABOVE = 2, ROWS_BELOW = 2, LABEL_WIDTH = 12 };

int page_row(const struct page *page, int line)
{
    int shown = line - page->top;
    return shown >= 0 && shown < page->height ? page->first + shown : -1;
}

int page_next(struct page *page)
{
    return page_row(page, page->n++);
}

/* How many bytes of text, up to a blank, fit into width cells; all of them if no blank comes in
 * time: then the line is cut. */
static size_t fitting(const struct grid *grid, const char *text, int width)
{
    size_t fits = 0;
    for (const char *at = text; *at; at++) {
        at += strcspn(at, " ");
        CLEANUP(free_charp) char *part = xasprintf("%.*s", (int)(at - text), text);
        if (grid_text_width(grid, part) > width)
            return fits ? fits : (size_t)(at - text);
        fits = (size_t)(at - text);
        if (!*at)
            break;
    }
    return fits;
}

void page_entry(struct page *page, int indent, int label_width, const char *label, unsigned attr,
                const char *text)
{
    int column = indent + label_width, width = page->grid->width - column;
    int row = page_next(page);
    (void)grid_put(page->grid, row, indent, label_width - 1, GRID_BOLD, label);
    for (;;) {
        size_t n = fitting(page->grid, text, width);
        CLEANUP(free_charp) char *line = xasprintf("%.*s", (int)n, text);
        (void)grid_put(page->grid, row, column, width, attr, line);
        text += n + strspn(text + n, " ");
        if (!*text)
            return;
        row = page_next(page);
    }
}

void page_text(struct page *page, unsigned attr, const char *text)
{
    page_entry(page, 0, 0, "", attr, text);
}

void page_field(struct page *page, const char *label, unsigned attr, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    CLEANUP(free_charp) char *text = xvasprintf(format, args);
    va_end(args);
    page_entry(page, 0, LABEL_WIDTH, label, attr, text);
}

void page_heading(struct page *page, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    CLEANUP(free_charp) char *text = xvasprintf(format, args);
    va_end(args);
    (void)page_next(page);
    (void)grid_put(page->grid, page_next(page), 0, page->grid->width, GRID_BOLD | GRID_UNDERLINE,
                   text);
}

/* Why the last attempt gave no picture; NULL: it gave one. What is asked rarely keeps its failure
 * until it is asked again, and is no sign of that. */
static const char *cause(const struct published *published)
{
    for (size_t i = 0; i < published->n_sections; i++) {
        const struct section *section = &published->sections[i];
        bool needed = text_equal(section->name, "server") || text_equal(section->name, "locks");
        if (needed && section->known && !section->up && section->message)
            return section->message;
    }
    return NULL;
}

/* A section of duties that the server refuses, while the picture itself is there. */
static const struct section *refused(const struct published *published)
{
    for (size_t i = 0; i < published->n_sections; i++) {
        const struct section *section = &published->sections[i];
        bool of_duties = strncmp(section->name, "ledger", strlen("ledger")) == 0 ||
                         strncmp(section->name, "lease:", strlen("lease:")) == 0 ||
                         strncmp(section->name, "progress:", strlen("progress:")) == 0;
        if (of_duties && section->known && !section->up && *section->sqlstate && section->message)
            return section;
    }
    return NULL;
}

/* libpq names host and port first and gives advice at the end: the screen has the server's name,
 * and room for what matters. */
static char *cause_words(const char *why)
{
    const char *failed = strstr(why, "connection to server") ? strstr(why, " failed: ") : NULL;
    const char *from = failed ? failed + strlen(" failed: ") : why;
    const char *until = from + strcspn(from, "\n");
    const char *advice = strstr(from, "Is the server running");
    if (advice && advice < until)
        until = advice;
    while (until > from && strchr(" \t", until[-1]))
        until--;
    return xasprintf("%s%.*s", failed ? "could not connect: " : "", (int)(until - from), from);
}

bool screen_banner(const struct published *published, int64_t now_us, enum time_style style,
                   char *out, size_t size)
{
    const char *why = cause(published);
    CLEANUP(free_charp) char *words = why ? cause_words(why) : xstrdup("no answer yet");
    char age[WORDS_SIZE], when[WORDS_SIZE];
    bool fresh = published_fresh(published, now_us);
    if (!published->snapshot) {
        (void)snprintf(out, size, "%s%s",
                       published->stats.tried ? "NO PICTURE YET: " : "Connecting",
                       published->stats.tried ? words : "");
        return true;
    }
    const struct section *part = why || !fresh ? NULL : refused(published);
    if (part)
        (void)snprintf(out, size, "PARTLY UNKNOWN, %s: %.*s", part->name,
                       (int)strcspn(part->message, "\n"), part->message);
    if (!why && fresh)
        return part != NULL;
    words_duration(now_us - published->success_monotonic_us, age);
    words_clock(style, published->snapshot->read_upper_us, when);
    if (fresh)
        (void)snprintf(out, size, "FAILING: %s", words);
    else
        (void)snprintf(out, size, "STALE %s, picture of %s: %s", age, when, words);
    return true;
}

static size_t n_fresh(const struct picture *picture)
{
    size_t n = 0;
    for (size_t i = 0; i < picture->n; i++)
        n += picture->fresh[i];
    return n;
}

/* "primary 15.20", with what a person must know of the server; `brief` leaves out the version. */
static char *server_words(const struct published *published, bool brief)
{
    const struct snapshot *snapshot = published->snapshot;
    if (!snapshot)
        return xstrdup("");
    const struct server_facts *facts = &snapshot->facts;
    const char *expected = "";
    if (published->expect == EXPECT_PRIMARY && facts->in_recovery)
        expected = ", PRIMARY EXPECTED";
    if (published->expect == EXPECT_STANDBY && !facts->in_recovery)
        expected = ", STANDBY EXPECTED";
    return xasprintf("%s%s%s%s%s%s", facts->in_recovery ? "standby" : "primary", brief ? "" : " ",
                     brief            ? ""
                     : facts->version ? facts->version
                                      : "?",
                     expected, facts->direct ? "" : ", POOLED",
                     facts->privileged ? "" : ", UNPRIVILEGED");
}

/* The age of the only server's picture when the next one is overdue; -1: it is not. */
static int64_t overdue_us(const struct picture *picture, int64_t now_us)
{
    const struct published *published = picture->servers[0];
    if (picture->n != 1 || !published->snapshot)
        return -1;
    int64_t age = now_us - published->success_monotonic_us;
    return age > published->stats.interval_us + SECOND_US ? age : -1;
}

/* "every 2s  16:42:07Z", with whether anything here can end a session. */
static char *title_right(const struct ui *ui, const struct picture *picture, int64_t now_us,
                         const char *mode)
{
    char interval[WORDS_SIZE], clock[WORDS_SIZE], age[WORDS_SIZE];
    int64_t newest = TIME_UNKNOWN;
    for (size_t i = 0; i < picture->n; i++) {
        const struct snapshot *snapshot = picture->servers[i]->snapshot;
        if (snapshot && snapshot->read_upper_us > newest)
            newest = snapshot->read_upper_us;
    }
    words_duration(ui->interval_us, interval);
    words_clock(ui->times, newest, clock);
    words_duration(now_us - picture->taken_us, age);
    if (ui->paused)
        return xasprintf("%sPAUSED %s  %s", mode, age, clock);
    if (overdue_us(picture, now_us) >= 0) {
        words_duration(overdue_us(picture, now_us), age);
        return xasprintf("%s%s%s old  %s", mode, n_fresh(picture) ? "" : "STALE ", age, clock);
    }
    return xasprintf("%severy %s  %s", mode, interval, clock);
}

static void render_title(const struct ui *ui, const struct picture *picture, int64_t now_us,
                         struct grid *grid)
{
    CLEANUP(free_charp)
    char *right = title_right(ui, picture, now_us,
                              ui->may_yield      ? "may yield  "
                              : grid->width < 80 ? ""
                                                 : "read-only  ");
    int at = grid->width - grid_text_width(grid, right);
    CLEANUP(free_charp) char *left = NULL;
    CLEANUP(free_charp) char *words = NULL;
    if (picture->n == 1) {
        words = server_words(picture->servers[0], grid->width < 100);
        left = xasprintf("pgleader  %s  %s", picture->servers[0]->server, words);
    } else {
        left = xasprintf("pgleader  %zu of %zu servers live", n_fresh(picture), picture->n);
    }
    bool fits = grid_text_width(grid, left) <= at - 2;
    (void)grid_put(grid, 0, 0, at - 2, GRID_BOLD, fits ? left : left + strlen("pgleader  "));
    grid_put_right(grid, 0, at, grid->width - at, ui->paused ? GRID_REVERSE : GRID_PLAIN, right);
}

static char *counts(const struct ui *ui)
{
    static const char *const names[] = {"contested", "vacant",          "stalled", "unknown",
                                        "yielding",  "led with a flaw", "led",     "released"};
    char *text = NULL;
    size_t size = 0;
    const char *between = ": ";
    FILE *out = open_memstream(&text, &size);
    (void)fprintf(out, "%zu %s", ui->list.n_duties, ui->list.n_duties == 1 ? "duty" : "duties");
    for (int i = 0; i <= URGENCY_GONE; i++) {
        if (ui->list.counts[i] > 0) {
            (void)fprintf(out, "%s%zu %s", between, ui->list.counts[i], names[i]);
            between = ", ";
        }
    }
    (void)fclose(out);
    return text;
}

/* The server that all of the screen is of; NULL: it is of several. */
static const struct published *server_of(const struct ui *ui, const struct picture *picture)
{
    const char *server = NULL;
    if (picture->n == 1)
        return picture->servers[0];
    if (ui->screen == SCREEN_DUTY)
        server = ui->server;
    else if (ui->form.view && (ui->screen == SCREEN_YIELD || ui->screen == SCREEN_WATCH))
        server = ui->form.view->target->server;
    int at = server ? picture_find(picture, server) : -1;
    return at >= 0 ? picture->servers[at] : NULL;
}

/* Counts at the left, what is chosen at the right; or what is wrong with the server. */
static void render_second(const struct ui *ui, const struct picture *picture, int64_t now_us,
                          struct grid *grid)
{
    char banner[512];
    const struct published *server = server_of(ui, picture);
    if (server && screen_banner(server, now_us, ui->times, banner, sizeof banner)) {
        (void)grid_put(grid, 1, 0, grid->width, GRID_BOLD | GRID_RED, banner);
        return;
    }
    CLEANUP(free_charp) char *left = counts(ui);
    CLEANUP(free_charp)
    char *right =
        *ui->filter
            ? xasprintf("filter \"%s\"  sort %s%s", ui->filter, list_order_names[ui->order],
                        ui->inverted ? " inverted" : "")
            : xasprintf("sort %s%s", list_order_names[ui->order], ui->inverted ? " inverted" : "");
    int at = grid->width - grid_text_width(grid, right);
    if (*ui->filter && at < grid->width / 3)
        at = grid->width / 3;
    if (!*ui->filter && grid_text_width(grid, left) + 2 > at)
        at = grid->width + 2; /* the order can be seen, the counts cannot */
    (void)grid_put(grid, 1, 0, at - 2, GRID_PLAIN, left);
    (void)grid_put(grid, 1, at, grid->width - at, *ui->filter ? GRID_BOLD : GRID_DIM, right);
}

static screen_content *content_of(enum screen_id screen)
{
    static screen_content *const contents[SCREENS] = {
        [SCREEN_DUTY] = screen_duty,   [SCREEN_EVENTS] = screen_events,
        [SCREEN_LOCKS] = screen_locks, [SCREEN_YIELD] = screen_yield,
        [SCREEN_WATCH] = screen_watch, [SCREEN_HELP] = screen_help};
    return contents[screen];
}

void screen_render(const struct ui *ui, const struct picture *picture, int64_t now_us,
                   struct grid *grid)
{
    int height = grid->height - ROWS_ABOVE - ROWS_BELOW;
    screen_content *content = content_of(ui->screen);
    if (height > 0 && content) {
        struct page page = {
            .grid = grid, .first = ROWS_ABOVE, .height = height, .top = ui->scroll, .mark = -1};
        content(ui, picture, &page);
    } else if (height > 0) {
        screen_list(ui, picture, now_us, grid, ROWS_ABOVE, height);
    }
    screen_bottom(ui, picture, grid);
    render_second(ui, picture, now_us, grid);
    render_title(ui, picture, now_us, grid);
}

int screen_page(const struct ui *ui, int height)
{
    int page = height - ROWS_ABOVE - ROWS_BELOW - (ui->screen == SCREEN_LIST);
    return page > 1 ? page : 1;
}

int screen_lines(const struct ui *ui, const struct picture *picture, int width, int *ret_mark,
                 int *ret_mark_end)
{
    screen_content *content = content_of(ui->screen);
    if (!content)
        return 0;
    struct grid *grid = grid_new(width, 1, true);
    struct page page = {.grid = grid, .mark = -1};
    content(ui, picture, &page);
    *ret_mark = page.mark;
    *ret_mark_end = page.mark_end > page.mark ? page.mark_end : page.mark;
    grid_free(grid);
    return page.n;
}

int64_t screen_due_us(const struct ui *ui, const struct picture *picture, int64_t now_us)
{
    int64_t due = INT64_MAX;
    for (size_t i = 0; i < picture->n; i++) {
        const struct published *published = picture->servers[i];
        if (!published->snapshot)
            continue;
        int64_t late = published->success_monotonic_us + published->stats.interval_us + SECOND_US;
        int64_t next =
            ui->paused || cause(published) || now_us > late ? now_us + SECOND_US : late + 1;
        due = next < due ? next : due;
    }
    return due;
}
