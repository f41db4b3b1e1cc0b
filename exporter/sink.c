/* SPDX-License-Identifier: PostgreSQL */
/* A FILE that gathers what is written to it in memory.
 *
 * open_memstream would do, at twice the price: it clears each new half of its buffer, and copies
 * byte by byte what is shorter than twenty of them. Here the text passes through one small buffer
 * that stays in the processor's cache; compressed text never stands in memory as a whole. */
#include "exporter/sink.h"

#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>

#include <zlib.h>

#include "base/memory.h"

enum { BUFFER_SIZE = 64 * 1024 };
#define HUGE_PAGE ((size_t)2 << 20)

/* A large buffer is written once and freed soon, so most of its price is that of its pages: with
 * huge ones an eighth. The last one is worth it where half of it will be used. */
static void allocate(struct sink *sink, size_t capacity)
{
    size_t huge = (capacity + HUGE_PAGE / 2) / HUGE_PAGE * HUGE_PAGE;
    void *data = NULL;
    sink->capacity = capacity > huge ? capacity : huge;
    if (huge == 0)
        data = xmalloc(capacity);
    else if (posix_memalign(&data, HUGE_PAGE, sink->capacity) != 0)
        abort();
    if (huge)
        (void)madvise(data, huge, MADV_HUGEPAGE);
    sink->data = data;
}

static void reserve(struct sink *sink, size_t more)
{
    size_t capacity = sink->capacity ? sink->capacity : BUFFER_SIZE;
    char *old = sink->data;
    while (capacity - sink->size < more)
        capacity *= 2;
    if (capacity == sink->capacity)
        return;
    allocate(sink, capacity);
    if (sink->size)
        memcpy(sink->data, old, sink->size);
    free(old);
}

void sink_expect(struct sink *sink, size_t size)
{
    allocate(sink, size);
}

void sink_append(struct sink *sink, const void *data, size_t size)
{
    reserve(sink, size);
    memcpy(sink->data + sink->size, data, size);
    sink->size += size;
}

static void deflate_part(struct sink *sink, const char *data, size_t size, int flush)
{
    z_stream *z = sink->deflater;
    z->next_in = (Bytef *)data;
    z->avail_in = (uInt)size;
    do {
        reserve(sink, BUFFER_SIZE / 4);
        size_t room = sink->capacity - sink->size;
        z->next_out = (Bytef *)sink->data + sink->size;
        z->avail_out = (uInt)room;
        (void)deflate(z, flush);
        sink->size += room - z->avail_out;
    } while (z->avail_out == 0);
}

static ssize_t write_part(void *cookie, const char *data, size_t size)
{
    struct sink *sink = cookie;
    if (sink->deflater) {
        sink->crc = (uint32_t)crc32_z(sink->crc, (const Bytef *)data, size);
        sink->length += size;
        deflate_part(sink, data, size, Z_NO_FLUSH);
    } else {
        sink_append(sink, data, size);
    }
    return (ssize_t)size;
}

FILE *sink_open(struct sink *sink)
{
    FILE *file = fopencookie(sink, "w", (cookie_io_functions_t){.write = write_part});
    if (!file)
        abort();
    (void)__fsetlocking(file, FSETLOCKING_BYCALLER);
    return file;
}

void sink_close(struct sink *sink, FILE *file)
{
    if (fclose(file) != 0)
        abort();
    if (sink->deflater)
        deflate_part(sink, NULL, 0, sink->flush);
}

char *sink_take(struct sink *sink)
{
    char *data = sink->data;
    if (sink->capacity < HUGE_PAGE / 2)
        data = xreallocarray(data, sink->size + 1, 1);
    *sink = (struct sink){0};
    return data;
}
