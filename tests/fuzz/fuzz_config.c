/* SPDX-License-Identifier: PostgreSQL */
/* Any bytes as a configuration file and as a web configuration file: refused with a reason, or
 * read. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/web_config.h"
#include "observe/config_schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every problem has the form that it is promised to have. */
static void check(bool ok, const struct problems *problems)
{
    if (ok != (problems->n == 0))
        abort();
    for (size_t i = 0; i < problems->n; i++) {
        const char *rest = problems->items[i] + strlen("fuzz.yml:");
        if (strncmp(problems->items[i], "fuzz.yml:", strlen("fuzz.yml:")) != 0 ||
            strspn(rest, "0123456789") == 0 || !strstr(rest, ": could not "))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(config_freep) struct config *config = NULL;
    CLEANUP(problems_done) struct problems problems = {0};
    bool ok = config_parse("fuzz.yml", (const char *)data, size, &config, &problems);
    check(ok, &problems);
    if (ok != (config != NULL) || (ok && config->n_servers == 0))
        abort();
    for (size_t i = 0; ok && i < config->n_servers; i++) {
        if (!config->servers[i].conninfo || !*config->servers[i].name)
            abort();
        for (size_t j = 0; j < config->servers[i].n_duties; j++) {
            if (!duty_name_valid(config->servers[i].duties[j].name))
                abort();
        }
    }

    CLEANUP(web_config_freep) struct web_config *web = NULL;
    CLEANUP(problems_done) struct problems web_problems = {0};
    ok = web_config_parse("fuzz.yml", (const char *)data, size, &web, &web_problems);
    check(ok, &web_problems);
    return 0;
}
