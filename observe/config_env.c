/* SPDX-License-Identifier: PostgreSQL */
/* One server from a conninfo or the environment, with the variables that PostgreSQL exporters
 * share: DATA_SOURCE_NAME, or DATA_SOURCE_URI, _USER and _PASS; each also with _FILE at its end. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "observe/config_schema.h"
#include "observe/file.h"
#include "pg/conninfo.h"

enum { VARIABLE_SIZE = 64 << 10 };

/* Without the blanks and line ends around it; in place. */
static char *trim(char *text, const char *blanks)
{
    size_t size = strlen(text);
    while (size > 0 && strchr(blanks, text[size - 1]))
        text[--size] = '\0';
    return text + strspn(text, blanks);
}

/* The value of NAME_FILE's file, else of NAME; NULL where neither is set. A mistake is a problem
 * that names the variable and the path, never what the file holds. */
static const char *variable(struct arena *arena, const char *name, const char *blanks,
                            struct problems *problems)
{
    CLEANUP(free_charp) char *file_name = xasprintf("%s_FILE", name);
    const char *path = getenv(file_name), *value = getenv(name);
    if (!path || !*path)
        return value && *value ? arena_strdup(arena, value) : NULL;
    CLEANUP(free_charp) char *text = NULL;
    size_t size = 0;
    struct error err;
    if (!file_read(path, VARIABLE_SIZE, &text, &size, &err)) {
        problems_add(problems, "could not read %s \"%s\": %s", file_name, path, err.message);
        return NULL;
    }
    if (strlen(text) != size) {
        problems_add(problems, "could not read %s \"%s\": it holds a NUL byte", file_name, path);
        return NULL;
    }
    const char *content = trim(text, blanks);
    if (*content)
        return arena_strdup(arena, content);
    problems_add(problems, "could not read %s \"%s\": it is empty", file_name, path);
    return NULL;
}

/* A value for the keyword=value form of a conninfo. */
static void print_quoted(FILE *out, const char *value)
{
    (void)putc('\'', out);
    for (; *value; value++) {
        if (*value == '\'' || *value == '\\')
            (void)putc('\\', out);
        (void)putc(*value, out);
    }
    (void)putc('\'', out);
}

/* A value for a URI: everything but letters, digits and -._~ is percent-encoded (RFC 3986). */
static void print_encoded(FILE *out, const char *value)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    for (; *value; value++)
        (void)(strchr(safe, *value) ? putc(*value, out)
                                    : fprintf(out, "%%%02X", (unsigned char)*value));
}

static const char *without_scheme(const char *uri)
{
    static const char *const schemes[] = {"postgresql://", "postgres://"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        if (strncmp(uri, schemes[i], strlen(schemes[i])) == 0)
            return uri + strlen(schemes[i]);
    }
    return uri;
}

/* A conninfo for uri (host:port/db?parameters; may be NULL) and user (may be NULL). The password is
 * never put into it. */
static const char *source_conninfo(struct arena *arena, const char *uri, const char *user,
                                   struct problems *problems)
{
    CLEANUP(free_charp) char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        abort();
    const char *rest = uri ? without_scheme(uri) : NULL;
    if (rest && user && memchr(rest, '@', strcspn(rest, "/?")))
        problems_add(problems, "could not use DATA_SOURCE_USER: DATA_SOURCE_URI names a user too; "
                               "write the URI as host:port/database");
    if (rest) {
        (void)fputs("postgresql://", out);
        if (user)
            print_encoded(out, user);
        (void)fprintf(out, "%s%s", user ? "@" : "", rest);
    } else if (user) {
        (void)fputs("user=", out);
        print_quoted(out, user);
    }
    if (fclose(out) != 0)
        abort();
    return arena_strdup(arena, text);
}

/* Sets conninfo and password from the environment; *ret_source names the variable for messages. */
static void read_variables(struct arena *arena, struct config_server *server,
                           const char **ret_source, struct problems *problems)
{
    static const char blanks[] = " \t\r\n\v\f";
    server->conninfo = variable(arena, "DATA_SOURCE_NAME", blanks, problems);
    *ret_source = "DATA_SOURCE_NAME";
    if (server->conninfo || problems->n)
        return;
    const char *uri = variable(arena, "DATA_SOURCE_URI", blanks, problems);
    const char *user = variable(arena, "DATA_SOURCE_USER", blanks, problems);
    server->password = variable(arena, "DATA_SOURCE_PASS", "\r\n", problems);
    server->conninfo = source_conninfo(arena, uri, user, problems);
    *ret_source = uri ? "DATA_SOURCE_URI" : user ? "DATA_SOURCE_USER" : "the PG* variables";
}

bool config_one_server(struct arena *arena, const char *conninfo, struct config_server *ret_server,
                       struct problems *problems)
{
    struct config_server server = {.conninfo = arena_strdup(arena, conninfo),
                                   .expect = EXPECT_PRIMARY};
    const char *source = "the connection string";
    struct problems found = {0};
    if (!conninfo)
        read_variables(arena, &server, &source, &found);
    struct error err;
    if (found.n == 0 && !conninfo_check(server.conninfo, &err))
        problems_add(&found, "could not use %s: libpq does not understand it. %s", source,
                     err.hint);
    for (size_t i = 0; i < found.n; i++)
        problems_add(problems, "%s", found.items[i]);
    bool ok = found.n == 0;
    problems_done(&found);
    if (!ok)
        return false;
    CLEANUP(free_charp) char *name = conninfo_describe(server.conninfo);
    server.name = arena_strdup(arena, config_check_name(name) ? "default" : name);
    *ret_server = server;
    return true;
}

bool config_from_conninfo(const char *conninfo, struct config **ret_config,
                          struct problems *problems)
{
    CLEANUP(config_freep) struct config *config = config_new(NULL);
    struct config_server *server = arena_alloc(config->arena, sizeof *server);
    if (!config_one_server(config->arena, conninfo, server, problems))
        return false;
    config->servers = server;
    config->n_servers = 1;
    *ret_config = STEAL(config);
    return true;
}
