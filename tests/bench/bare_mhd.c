/* SPDX-License-Identifier: PostgreSQL */
/* The least that libmicrohttpd can do with the same bytes: one thread, one shared response, no
 * routes. The measure that scrapes from memory are held against. Usage: bare_mhd PORT FILE */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <microhttpd.h>

static enum MHD_Result answer(void *response, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **state)
{
    (void)url, (void)method, (void)version, (void)data, (void)size, (void)state;
    return MHD_queue_response(connection, MHD_HTTP_OK, response);
}

int main(int argc, char **argv)
{
    static char body[16 << 20];
    FILE *file = argc == 3 ? fopen(argv[2], "re") : NULL;
    if (!file)
        return 2;
    size_t size = fread(body, 1, sizeof body, file);
    (void)fclose(file);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(size, body, MHD_RESPMEM_PERSISTENT);
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL, (uint16_t)strtoul(argv[1], NULL, 10), NULL,
        NULL, answer, response, MHD_OPTION_LISTENING_ADDRESS_REUSE, 1U, MHD_OPTION_END);
    if (!daemon)
        return 1;
    (void)getchar(); /* until standard input is closed */
    MHD_stop_daemon(daemon);
    return 0;
}
