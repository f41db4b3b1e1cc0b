/* SPDX-License-Identifier: PostgreSQL */
/* A ring of events. */
#include "tui/journal.h"

#include <stdlib.h>

#include "base/memory.h"

static void entry_done(struct journal_entry *entry)
{
    free(entry->server);
    free(entry->duty);
    free(entry->holder);
    free(entry->step);
    *entry = (struct journal_entry){0};
}

static struct journal_entry *next(struct journal *journal)
{
    struct journal_entry *entry = &journal->entries[journal->next];
    entry_done(entry);
    journal->added++;
    journal->next = (journal->next + 1) % JOURNAL_SIZE;
    if (journal->n < JOURNAL_SIZE)
        journal->n++;
    return entry;
}

void journal_add(struct journal *journal, const char *server, const struct event *event,
                 int64_t read_us)
{
    *next(journal) = (struct journal_entry){
        .server = xstrdup(server),
        .duty = xstrdup(event->duty),
        .holder = event->holder ? xstrdup(event->holder) : NULL,
        .rule = event->rule,
        .pid = event->pid,
        .lower_us = event->lower_us,
        .upper_us = event->upper_us,
        .read_us = read_us,
    };
}

void journal_add_step(struct journal *journal, const char *server, const char *duty,
                      const char *step, int64_t at_us)
{
    *next(journal) = (struct journal_entry){
        .server = xstrdup(server),
        .duty = xstrdup(duty),
        .step = xstrdup(step),
        .read_us = at_us,
    };
}

const struct journal_entry *journal_at(const struct journal *journal, size_t i)
{
    return &journal->entries[(journal->next + JOURNAL_SIZE - 1 - i) % JOURNAL_SIZE];
}

void journal_done(struct journal *journal)
{
    for (size_t i = 0; i < JOURNAL_SIZE; i++)
        entry_done(&journal->entries[i]);
}
