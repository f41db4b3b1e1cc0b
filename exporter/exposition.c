/* SPDX-License-Identifier: PostgreSQL */
/* Answers to scrapes. A body is the picture's part, rendered at most once a picture, and the tail
 * that is judged at the scrape.
 *
 * A gzip body is one member: its deflated picture ends in a full flush, so at a byte's boundary and
 * with nothing that later data could refer to; a tail deflated on its own goes on from there, and
 * the checksums of both combine. So an unchanged picture costs the tail alone. */
#include "exporter/exposition.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/memory.h"
#include "base/text.h"
#include "exporter/metrics.h"
#include "exporter/sink.h"

/* What the process uses of its machine is read at most this often. */
#define TAIL_FOR_US (100 * INT64_C(1000))

enum {
    MARGIN = 8 * 1024, /* for what may have come since the last body of its kind */
    MEMORY_LEVEL = 8,  /* zlib's default */
};

/* The end of every body in one format. */
struct tail {
    char *text;
    size_t size;
    int64_t made_us; /* CLOCK_MONOTONIC */
    int64_t reload_us;
    bool reload_ok;
    uint64_t serial; /* rises with every tail made; 0: none yet */
};

/* One format and encoding of a picture, with the tail it was last sent with. */
struct answer {
    struct body *body;
    size_t head_size;  /* of the bytes that depend on the picture alone; the tail follows */
    uint32_t head_crc; /* gzip: of the head's text */
    size_t head_length;
    uint64_t tail_serial;
};

/* What was rendered for one target in one format. The key is what the heads were rendered from. */
struct entry {
    struct entry *next;
    char *target; /* NULL: all servers */
    enum exposition_format format;
    uint64_t serial;
    bool *fresh;
    size_t n;
    struct answer plain, gzip;
};

struct exposition {
    struct board *board;
    struct entry *entries;
    struct tail tails[FORMAT_COUNT];
    size_t last_size[2]; /* of the last body of all servers, plain and gzip: the next is alike */
    z_stream deflater;
};

struct exposition *exposition_new(struct board *board)
{
    struct exposition *exposition = xcalloc(1, sizeof *exposition);
    exposition->board = board;
    if (deflateInit2(&exposition->deflater, Z_BEST_SPEED, Z_DEFLATED, -MAX_WBITS, MEMORY_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        abort();
    return exposition;
}

static void entry_free(struct entry *entry)
{
    body_unref(entry->plain.body);
    body_unref(entry->gzip.body);
    free(entry->target);
    free(entry->fresh);
    free(entry);
}

void exposition_free(struct exposition *exposition)
{
    if (!exposition)
        return;
    while (exposition->entries) {
        struct entry *entry = exposition->entries;
        exposition->entries = entry->next;
        entry_free(entry);
    }
    for (int i = 0; i < FORMAT_COUNT; i++)
        free(exposition->tails[i].text);
    (void)deflateEnd(&exposition->deflater);
    free(exposition);
}

/* What a target's head is rendered from; the arrays are the picture's. */
static struct entry key_of(const struct picture *picture, int server)
{
    if (server < 0)
        return (struct entry){.serial = picture->serial, .fresh = picture->fresh, .n = picture->n};
    return (struct entry){
        .serial = picture->servers[server]->serial, .fresh = &picture->fresh[server], .n = 1};
}

static bool entry_current(const struct entry *entry, const struct picture *picture)
{
    int server = entry->target ? picture_find(picture, entry->target) : -1;
    if (entry->target && server < 0)
        return false;
    struct entry key = key_of(picture, server);
    return entry->serial == key.serial && entry->n == key.n &&
           (key.n == 0 || memcmp(entry->fresh, key.fresh, key.n * sizeof *key.fresh) == 0);
}

static void drop_old(struct exposition *exposition, const struct picture *picture)
{
    for (struct entry **link = &exposition->entries; *link;) {
        struct entry *entry = *link;
        if (entry_current(entry, picture)) {
            link = &entry->next;
            continue;
        }
        *link = entry->next;
        entry_free(entry);
    }
}

static struct entry *entry_of(struct exposition *exposition, const struct picture *picture,
                              int server, enum exposition_format format)
{
    const char *target = server < 0 ? NULL : picture->servers[server]->server;
    for (struct entry *entry = exposition->entries; entry; entry = entry->next) {
        if (entry->format == format && text_equal(entry->target, target))
            return entry;
    }
    struct entry *entry = xcalloc(1, sizeof *entry);
    *entry = key_of(picture, server);
    bool *fresh = xcalloc(entry->n + 1, sizeof *fresh);
    if (entry->n)
        memcpy(fresh, entry->fresh, entry->n * sizeof *fresh);
    entry->fresh = fresh;
    entry->target = target ? xstrdup(target) : NULL;
    entry->format = format;
    entry->next = exposition->entries;
    exposition->entries = entry;
    return entry;
}

/* The tail of this scrape: the last one while it is young and says the truth. */
static const struct tail *tail_of(struct exposition *exposition, const struct picture *picture,
                                  enum exposition_format format)
{
    struct tail *tail = &exposition->tails[format];
    if (tail->serial && picture->taken_us - tail->made_us < TAIL_FOR_US &&
        tail->reload_ok == picture->reload_ok && tail->reload_us == picture->reload_us)
        return tail;
    struct sink sink = {.deflater = NULL};
    FILE *out = sink_open(&sink);
    metrics_render_live(picture, format, out);
    sink_close(&sink, out);
    free(tail->text);
    *tail = (struct tail){
        .text = sink.data,
        .size = sink.size,
        .made_us = picture->taken_us,
        .reload_ok = picture->reload_ok,
        .reload_us = picture->reload_us,
        .serial = tail->serial + 1,
    };
    return tail;
}

/* One scrape: what to render and what to end it with. */
struct scrape {
    const struct picture *picture;
    int server; /* -1: all */
    enum exposition_format format;
    const struct tail *tail;
    size_t expected; /* bytes, from the last scrape of its kind; 0: no idea */
};

static void render_head(struct sink *sink, const struct scrape *scrape)
{
    FILE *out = sink_open(sink);
    metrics_render(scrape->picture, scrape->server, scrape->format, out);
    sink_close(sink, out);
}

/* A sink with room for the answer, beginning with what stays of the last one. */
static void begin_body(struct sink *sink, const struct answer *answer, size_t expected)
{
    *sink = (struct sink){.deflater = NULL};
    sink_expect(sink, (answer->body ? answer->body->size : expected) + MARGIN);
    if (answer->body)
        sink_append(sink, answer->body->data, answer->head_size);
}

static void replace_body(struct answer *answer, struct sink *sink, const struct tail *tail)
{
    body_unref(answer->body);
    size_t size = sink->size;
    answer->body = body_new(sink_take(sink), size);
    answer->tail_serial = tail->serial;
}

static void answer_plain(struct answer *answer, const struct scrape *scrape)
{
    struct sink sink;
    begin_body(&sink, answer, scrape->expected);
    if (!answer->body)
        render_head(&sink, scrape);
    answer->head_size = sink.size;
    sink_append(&sink, scrape->tail->text, scrape->tail->size);
    replace_body(answer, &sink, scrape->tail);
}

static void begin_deflate(struct sink *sink, z_stream *deflater, int flush)
{
    (void)deflateReset(deflater);
    sink->deflater = deflater;
    sink->flush = flush;
    sink->crc = 0;
    sink->length = 0;
}

static void append_le32(struct sink *sink, uint32_t value)
{
    const unsigned char bytes[] = {(unsigned char)value, (unsigned char)(value >> 8),
                                   (unsigned char)(value >> 16), (unsigned char)(value >> 24)};
    sink_append(sink, bytes, sizeof bytes);
}

static void gzip_head(struct answer *answer, struct sink *sink, z_stream *deflater,
                      const struct scrape *scrape)
{
    /* RFC 1952: magic, deflate, no flags, no time, fastest, Unix */
    sink_append(sink, "\x1f\x8b\x08\0\0\0\0\0\x04\x03", 10);
    begin_deflate(sink, deflater, Z_FULL_FLUSH);
    render_head(sink, scrape);
    answer->head_crc = sink->crc;
    answer->head_length = sink->length;
}

static void answer_gzip(struct answer *answer, z_stream *deflater, const struct scrape *scrape)
{
    const struct tail *tail = scrape->tail;
    struct sink sink;
    begin_body(&sink, answer, scrape->expected);
    if (!answer->body)
        gzip_head(answer, &sink, deflater, scrape);
    answer->head_size = sink.size;
    begin_deflate(&sink, deflater, Z_FINISH);
    FILE *out = sink_open(&sink);
    (void)fwrite_unlocked(tail->text, 1, tail->size, out);
    sink_close(&sink, out);
    append_le32(&sink, (uint32_t)crc32_combine(answer->head_crc, sink.crc, (z_off_t)tail->size));
    append_le32(&sink, (uint32_t)(answer->head_length + tail->size));
    replace_body(answer, &sink, tail);
}

struct body *exposition_get(struct exposition *exposition, const char *target,
                            enum exposition_format format, bool gzip)
{
    CLEANUP(picture_done) struct picture picture;
    board_take(exposition->board, &picture);
    drop_old(exposition, &picture);
    int server = target ? picture_find(&picture, target) : -1;
    if (target && server < 0)
        return NULL;
    struct entry *entry = entry_of(exposition, &picture, server, format);
    struct answer *answer = gzip ? &entry->gzip : &entry->plain;
    const struct tail *tail = tail_of(exposition, &picture, format);
    if (answer->body && answer->tail_serial == tail->serial)
        return body_ref(answer->body);
    const struct scrape scrape = {
        .picture = &picture,
        .server = server,
        .format = format,
        .tail = tail,
        .expected = target ? 0 : exposition->last_size[gzip],
    };
    if (gzip)
        answer_gzip(answer, &exposition->deflater, &scrape);
    else
        answer_plain(answer, &scrape);
    if (!target)
        exposition->last_size[gzip] = answer->body->size;
    return body_ref(answer->body);
}
