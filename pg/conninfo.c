/* SPDX-License-Identifier: PostgreSQL */
/* Reads connection strings through libpq. */
#include "pg/conninfo.h"

#include <stdio.h>
#include <string.h>

#include <libpq-fe.h>

#include "base/memory.h"
#include "base/text.h"

static void options_freep(PQconninfoOption **options)
{
    PQconninfoFree(*options);
}

/* The value of an option in what was given, else in the environment, else compiled in; NULL or not
 * empty. */
static const char *option_value(const PQconninfoOption *given, const char *keyword)
{
    for (const PQconninfoOption *o = given; o && o->keyword; o++) {
        if (strcmp(o->keyword, keyword) != 0)
            continue;
        if (o->val && *o->val)
            return o->val;
        const char *env = o->envvar ? getenv(o->envvar) : NULL;
        if (env && *env)
            return env;
        return o->compiled && *o->compiled ? o->compiled : NULL;
    }
    return NULL;
}

static const char *uri_rest(const char *conninfo)
{
    static const char *const schemes[] = {"postgresql://", "postgres://"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        if (strncmp(conninfo, schemes[i], strlen(schemes[i])) == 0)
            return conninfo + strlen(schemes[i]);
    }
    return NULL;
}

/* A password with an @ or a / that is not percent-encoded: libpq would take its rest for a host, a
 * port or a database, and messages would tell it. */
static bool splits_password(const char *uri)
{
    size_t size = strcspn(uri, "?");
    const char *at = memchr(uri, '@', size);
    return at && (memchr(uri, '/', (size_t)(at - uri)) ||
                  memchr(at + 1, '@', size - (size_t)(at + 1 - uri)));
}

static bool are_ports(const char *list)
{
    return !list || list[strspn(list, "0123456789,")] == '\0';
}

bool conninfo_check(const char *conninfo, struct error *err)
{
    char *message = NULL;
    CLEANUP(options_freep) PQconninfoOption *options = PQconninfoParse(conninfo, &message);
    const char *uri = uri_rest(conninfo), *database = option_value(options, "dbname");
    if (message)
        PQfreemem(message); /* it may quote a password */
    if (options && !(uri && splits_password(uri)) && are_ports(option_value(options, "port")) &&
        !(database && strstr(database, "://")))
        return true;
    (void)error_set(err, ERROR_CONFIG,
                    "could not read the connection string: libpq does not understand it");
    error_hint(
        err,
        "Write it as \"host=... dbname=...\" or postgresql://...; values with blanks, quotes or "
        "backslashes need single quotes, special characters in a URI need percent-encoding.");
    return false;
}

char *conninfo_describe(const char *conninfo)
{
    CLEANUP(options_freep) PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
    CLEANUP(options_freep) PQconninfoOption *defaults = PQconndefaults();
    const char *service = option_value(options, "service");
    const char *host = option_value(options, "host");
    const char *address = option_value(options, "hostaddr");
    const char *database = option_value(options, "dbname");
    const char *user = option_value(options, "user");
    if (!user)
        user = option_value(defaults, "user"); /* of the operating system */
    if (service && !host && !address)
        return xasprintf("service/%s", service);
    if (!host)
        host = address;
    if (!host || *host == '/' || *host == '@')
        host = "local";
    if (!database)
        database = user ? user : "";
    const char *port = option_value(options, "port");
    return xasprintf("%s:%s/%s", host, port ? port : "5432", database);
}

void conninfo_hide_password(char *conninfo)
{
    CLEANUP(options_freep) PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
    CLEANUP(free_charp) char *shown = conninfo_describe(conninfo);
    size_t size = strlen(conninfo), kept = strlen(shown);
    for (const PQconninfoOption *o = options; o && o->keyword; o++) {
        if (*o->dispchar != '*' || !o->val || !*o->val)
            continue;
        explicit_bzero(conninfo, size);
        memcpy(conninfo, shown, kept < size ? kept : size);
        return;
    }
}

static void write_value(FILE *out, const char *value)
{
    if (*value && !strpbrk(value, " '\\\t\n\r")) {
        (void)fputs(value, out);
        return;
    }
    (void)putc('\'', out);
    for (; *value; value++) {
        if (*value == '\'' || *value == '\\')
            (void)putc('\\', out);
        (void)putc(*value, out);
    }
    (void)putc('\'', out);
}

char *conninfo_public(const char *conninfo)
{
    CLEANUP(options_freep) PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        abort();
    const char *between = "";
    for (const PQconninfoOption *o = options; o && o->keyword; o++) {
        if (!o->val || *o->dispchar == '*')
            continue;
        (void)fprintf(out, "%s%s=", between, o->keyword);
        write_value(out, o->val);
        between = " ";
    }
    if (fclose(out) != 0)
        abort();
    return text;
}
