/* SPDX-License-Identifier: PostgreSQL */
/* Advisory locks that no duty names: of this database each with its session, of others a count. */
#include <inttypes.h>

#include "tui/screen.h"

static const struct duty *discovered(const struct snapshot *snapshot, struct lock_key key)
{
    for (size_t i = 0; i < snapshot->n_duties; i++) {
        const struct duty *duty = &snapshot->duties[i];
        if (duty->mechanism == MECHANISM_LOCK && lock_key_equal(duty->key, key))
            return duty;
    }
    return NULL;
}

static void render_lock(const struct snapshot *snapshot, const struct watched_lock *lock,
                        struct page *page)
{
    char key[LOCK_KEY_TEXT_SIZE], age[WORDS_SIZE];
    const struct duty *duty = discovered(snapshot, lock->key);
    int row = page_next(page), width = page->grid->width;
    bool owner = duty && duty->owners > 0 && duty->owner.pid == lock->pid;
    lock_key_format(lock->key, key);
    words_since(lock->since_us, snapshot->read_upper_us, age);
    (void)grid_put(page->grid, row, 2, 24, GRID_BOLD, key);
    (void)grid_printf(page->grid, row, 27, GRID_PLAIN, "pid %-8" PRId32 "%8s+", lock->pid, age);
    (void)grid_put(page->grid, row, 50, width - 50, GRID_PLAIN,
                   owner  ? duty_holder(duty)
                   : duty ? ""
                          : "not in the main list: it has no room");
}

static const char *count_words(int32_t n, char out[WORDS_SIZE])
{
    (void)snprintf(out, WORDS_SIZE, "%" PRId32 " %s", n, n == 1 ? "lock" : "locks");
    return out;
}

/* A picture keeps only so many of them. */
static void render_more(int32_t all, size_t shown, struct page *page)
{
    if (shown > 0 && all > (int32_t)shown)
        (void)grid_printf(page->grid, page_next(page), 2, GRID_PLAIN, "and %" PRId32 " more",
                          all - (int32_t)shown);
}

static void render_server(const struct published *published, bool fresh, enum time_style style,
                          struct page *page)
{
    char clock[WORDS_SIZE], count[WORDS_SIZE];
    const struct snapshot *snapshot = published->snapshot;
    page_heading(page, "%s", published->server);
    if (!snapshot) {
        (void)grid_put(page->grid, page_next(page), 2, page->grid->width, GRID_PLAIN,
                       "No picture yet");
        return;
    }
    words_clock(style == TIMES_AGO ? TIMES_UTC : style, snapshot->read_upper_us, clock);
    if (!fresh)
        page_field(page, "UNKNOWN", GRID_BOLD | GRID_RED, "this is what it was at %s", clock);
    if (snapshot->unregistered_locks < 0)
        page_field(page, "No duty", GRID_PLAIN, "? not readable");
    else
        page_field(page, "No duty", GRID_PLAIN, "%s of this database, held at least so long",
                   count_words(snapshot->unregistered_locks, count));
    for (size_t i = 0; i < snapshot->n_watched; i++)
        render_lock(snapshot, &snapshot->watched[i], page);
    render_more(snapshot->unregistered_locks, snapshot->n_watched, page);
    if (snapshot->foreign_locks < 0)
        page_field(page, "Foreign", GRID_PLAIN, "? not readable");
    else
        page_field(page, "Foreign", GRID_PLAIN,
                   "%s of other databases (db: the oid) or of an extension",
                   count_words(snapshot->foreign_locks, count));
    for (size_t i = 0; i < snapshot->n_foreign; i++) {
        const struct foreign_lock *lock = &snapshot->foreign[i];
        char key[LOCK_KEY_TEXT_SIZE];
        int row = page_next(page), width = page->grid->width;
        lock_key_format(lock->key, key);
        (void)grid_put(page->grid, row, 2, 24, GRID_BOLD, key);
        (void)grid_printf(page->grid, row, 27, GRID_PLAIN, "pid %-7" PRId32 " db %" PRId64,
                          lock->pid, lock->database);
        (void)grid_put(page->grid, row, 50, width - 50, GRID_PLAIN, lock->name);
    }
    render_more(snapshot->foreign_locks, snapshot->n_foreign, page);
}

void screen_locks(const struct ui *ui, const struct picture *picture, struct page *page)
{
    (void)grid_put(page->grid, page_next(page), 0, page->grid->width, GRID_BOLD | GRID_UNDERLINE,
                   "LOCKS that no duty names");
    for (size_t i = 0; i < picture->n; i++)
        render_server(picture->servers[i], picture->fresh[i], ui->times, page);
}
