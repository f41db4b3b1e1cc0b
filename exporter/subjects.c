/* SPDX-License-Identifier: PostgreSQL */
/* What a picture has to tell about: its servers and their duties, with their labels. */
#include "exporter/subjects.h"

#include <stdlib.h>

#include "base/memory.h"
#include "exporter/emit.h"
#include "observe/publish.h"

/* Writes the labels of a server, or of one duty of it, as a sample carries them; returns their
 * size. */
static size_t write_labels(FILE *out, const char *server, const char *duty)
{
    long begin = ftell(out);
    (void)fputs_unlocked("{server=\"", out);
    emit_label_value(out, server);
    if (duty) {
        (void)fputs_unlocked("\",duty=\"", out);
        emit_label_value(out, duty);
    }
    (void)putc_unlocked('"', out);
    return (size_t)(ftell(out) - begin);
}

/* The duties of a server that is not fresh are unknown and have no subject. */
static void add_server(struct subjects *subjects, const struct picture *picture, size_t i,
                       FILE *labels)
{
    struct published *published = picture->servers[i];
    struct subject subject = {
        .labels_size = write_labels(labels, published->server, NULL),
        .picture = picture,
        .published = published,
        .snapshot = picture->fresh[i] ? published->snapshot : NULL,
        .fresh = picture->fresh[i],
    };
    subjects->servers[subjects->n_servers++] = subject;
}

static void add_duties(struct subjects *subjects, const struct subject *server, FILE *labels)
{
    if (!server->snapshot)
        return;
    size_t n = server->snapshot->n_duties;
    subjects->duties =
        xreallocarray(subjects->duties, subjects->n_duties + n + 1, sizeof *subjects->duties);
    for (size_t i = 0; i < n; i++) {
        struct subject *subject = &subjects->duties[subjects->n_duties++];
        *subject = *server;
        subject->duty = &server->snapshot->duties[i];
        subject->labels_size = write_labels(labels, server->published->server, subject->duty->name);
    }
}

/* Labels were written in the order of the subjects, into a buffer that has stopped moving. */
static const char *point_at_labels(struct subject *subjects, size_t n, const char *labels)
{
    for (size_t i = 0; i < n; i++) {
        subjects[i].labels = labels;
        labels += subjects[i].labels_size;
    }
    return labels;
}

void subjects_init(struct subjects *ret_subjects, const struct picture *picture, int server)
{
    struct subjects subjects = {.servers = xcalloc(picture->n + 1, sizeof *subjects.servers)};
    size_t first = server < 0 ? 0 : (size_t)server;
    size_t end = server < 0 ? picture->n : first + 1;
    size_t size = 0;
    FILE *labels = open_memstream(&subjects.labels, &size);
    if (!labels)
        abort();
    for (size_t i = first; i < end; i++)
        add_server(&subjects, picture, i, labels);
    for (size_t i = 0; i < subjects.n_servers; i++)
        add_duties(&subjects, &subjects.servers[i], labels);
    if (fclose(labels) != 0)
        abort();
    const char *rest = point_at_labels(subjects.servers, subjects.n_servers, subjects.labels);
    (void)point_at_labels(subjects.duties, subjects.n_duties, rest);
    *ret_subjects = subjects;
}

void subjects_done(struct subjects *subjects)
{
    free(subjects->servers);
    free(subjects->duties);
    free(subjects->labels);
    *subjects = (struct subjects){0};
}
