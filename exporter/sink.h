/* SPDX-License-Identifier: PostgreSQL */
/* A FILE that gathers what is written to it in memory, as it is or deflated on the way. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct z_stream_s;

/* Zero-initialised, a sink is empty and gathers text as it is. data comes from malloc and belongs
 * to the caller while no FILE is open. */
struct sink {
    char *data;
    size_t size, capacity;
    struct z_stream_s *deflater; /* NULL: as it is. Not owned; left at a byte's boundary */
    int flush;                   /* what ends the deflated part: Z_FULL_FLUSH or Z_FINISH */
    uint32_t crc;                /* CRC-32 and length of what was written, if it is deflated */
    size_t length;
};

/* Makes room in an empty sink for what will probably come; more is taken too. */
void sink_expect(struct sink *sink, size_t size);

/* The caller sets deflater and flush, and may have put something into the sink already. */
FILE *sink_open(struct sink *sink);

/* Closes it; after this the sink holds everything. */
void sink_close(struct sink *sink, FILE *file);

void sink_append(struct sink *sink, const void *data, size_t size);

/* Gives away the data; the sink is empty then. */
char *sink_take(struct sink *sink);
