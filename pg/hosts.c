/* SPDX-License-Identifier: PostgreSQL */
/* Comma-separated lists of libpq, taken apart and put together. */
#include "pg/hosts.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

#include "base/cleanup.h"
#include "base/memory.h"

static void options_freep(PQconninfoOption **options)
{
    PQconninfoFree(*options);
}

/* Only a PGconn tells what became of string, environment and service file together. This one ends
 * before it looks for a server, and for a password file: libpq refuses the channel binding. */
static PQconninfoOption *effective_options(const char *conninfo)
{
    const char *const keywords[] = {"dbname", "password", "channel_binding", NULL};
    const char *const values[] = {conninfo, "-", "only to read the options", NULL};
    PGconn *pq = PQconnectStartParams(keywords, values, 1);
    PQconninfoOption *options = PQconninfo(pq);
    PQfinish(pq);
    return options;
}

static const char *value_of(const PQconninfoOption *options, const char *keyword)
{
    for (const PQconninfoOption *o = options; o && o->keyword; o++) {
        if (strcmp(o->keyword, keyword) == 0)
            return o->val ? o->val : "";
    }
    return "";
}

static size_t count_items(const char *list)
{
    size_t n = *list ? 1 : 0;
    for (const char *c = list; *c; c++)
        n += *c == ',';
    return n;
}

/* Takes the next item off the list; the last one is left for all that follow. */
static char *next_item(const char **list)
{
    size_t size = strcspn(*list, ",");
    char *item = xasprintf("%.*s", (int)size, *list);
    if ((*list)[size])
        *list += size + 1;
    return item;
}

void hosts_read(const char *conninfo, struct hosts *ret_hosts)
{
    CLEANUP(options_freep) PQconninfoOption *options = effective_options(conninfo);
    const char *names = value_of(options, "host"), *addresses = value_of(options, "hostaddr");
    const char *ports = value_of(options, "port");
    size_t n_names = count_items(names), n_addresses = count_items(addresses);
    size_t n_ports = count_items(ports), n = n_addresses ? n_addresses : n_names;
    *ret_hosts = (struct hosts){0};
    if ((n_names && n_names != n) || (n_ports > 1 && n_ports != n))
        return;
    for (size_t i = 0; i < n; i++) {
        struct host host = {next_item(&names), next_item(&addresses), next_item(&ports)};
        hosts_add(ret_hosts, host.name, host.address, host.port);
        host_done(&host);
    }
}

void hosts_add(struct hosts *hosts, const char *name, const char *address, const char *port)
{
    hosts->items = xreallocarray(hosts->items, hosts->n + 1, sizeof *hosts->items);
    hosts->items[hosts->n++] = (struct host){xstrdup(name), xstrdup(address), xstrdup(port)};
}

void host_done(struct host *host)
{
    free(host->name);
    free(host->address);
    free(host->port);
}

void hosts_done(struct hosts *hosts)
{
    for (size_t i = 0; i < hosts->n; i++)
        host_done(&hosts->items[i]);
    free(hosts->items);
    *hosts = (struct hosts){0};
}

bool host_needs_lookup(const struct host *host)
{
    struct in6_addr address;
    return !*host->address && *host->name && *host->name != '/' && *host->name != '@' &&
           inet_pton(AF_INET, host->name, &address) != 1 && !strchr(host->name, ':');
}

/* The texts at that offset of each host, in the new order. */
static char *rotated_list(const struct hosts *hosts, size_t first, size_t offset)
{
    char *list = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&list, &size);
    if (!out)
        abort();
    for (size_t i = 0; i < hosts->n; i++) {
        const char *item = (const char *)&hosts->items[(first + i) % hosts->n] + offset;
        (void)fprintf(out, "%s%s", i ? "," : "", *(char *const *)item);
    }
    if (fclose(out) != 0)
        abort();
    return list;
}

struct host hosts_rotated(const struct hosts *hosts, size_t first)
{
    return (struct host){
        .name = rotated_list(hosts, first, offsetof(struct host, name)),
        .address = rotated_list(hosts, first, offsetof(struct host, address)),
        .port = rotated_list(hosts, first, offsetof(struct host, port)),
    };
}
