/* SPDX-License-Identifier: PostgreSQL */
/* Any Authorization header is read without harm, and what is read encodes to the same header. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/memory.h"
#include "exporter/auth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct credentials credentials;
    char plain[AUTH_NAME_SIZE + AUTH_PASSWORD_SIZE];
    unsigned char coded[sizeof plain * 2];
    char *header = xmalloc(size + 7);
    memcpy(header, "Basic ", 6);
    memcpy(header + 6, data, size);
    header[size + 6] = '\0';
    (void)credentials_parse(header + 6, &credentials);
    if (credentials_parse(header, &credentials)) {
        int length = snprintf(plain, sizeof plain, "%s:%s", credentials.name, credentials.password);
        EVP_EncodeBlock(coded, (const unsigned char *)plain, length);
        const char *given = header + 6 + strspn(header + 6, " ");
        struct credentials again;
        /* the last character may carry bits that decode to nothing */
        if (strlen(given) != strlen((char *)coded) || length < 1 ||
            strncmp(given, (char *)coded, strlen(given) - 4) != 0)
            abort();
        (void)snprintf(header, 7, "Basic ");
        memcpy(header + 6, coded, strlen((char *)coded) + 1);
        if (!credentials_parse(header, &again) || memcmp(&again, &credentials, sizeof again) != 0)
            abort();
    }
    free(header);
    return 0;
}
