/* SPDX-License-Identifier: PostgreSQL */
/* Any Accept header gets an answer, and the same one each time. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "exporter/negotiate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *header = xmalloc(size + 1);
    memcpy(header, data, size);
    header[size] = '\0';
    enum exposition_format format = negotiate_format(header);
    if (format < 0 || format >= FORMAT_COUNT || negotiate_format(header) != format)
        abort();
    if (negotiate_gzip(header) && !strchr(header, '*') && !strcasestr(header, "gzip"))
        abort();
    free(header);
    return 0;
}
