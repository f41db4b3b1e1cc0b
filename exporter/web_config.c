/* SPDX-License-Identifier: PostgreSQL */
/* Reads the web configuration file by its tables. */
#include "exporter/web_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "observe/file.h"
#include "observe/yaml_table.h"

enum { PEM_SIZE = 1 << 20, COST_MAX = 16, COST_MIN = 4, HASH_CHARACTERS = 53 };

/* The headers that may be set, as they stand in the file. */
struct headers {
    const char *content_security_policy;
    const char *frame_options;
    const char *content_type_options;
    const char *xss_protection;
    const char *strict_transport_security;
};

struct http_section {
    bool http2;
    const struct yaml_node *headers;
};

struct top_section {
    const struct yaml_node *tls, *http, *users;
};

static const char *check_header(const void *value)
{
    const char *text = *(const char *const *)value;
    for (const char *p = text; *p; p++) {
        if ((*p < ' ' || *p > '~') && *p != '\t')
            return "holds a character that no header may hold";
    }
    return *text ? NULL : "is empty";
}

static const char *check_frame_options(const void *value)
{
    const char *text = *(const char *const *)value;
    return strcmp(text, "deny") == 0 || strcmp(text, "sameorigin") == 0 ? NULL : "is not known";
}

static const char *check_nosniff(const void *value)
{
    return strcmp(*(const char *const *)value, "nosniff") == 0 ? NULL : "is not known";
}

static const char *check_http2(const void *value)
{
    return *(const bool *)value ? "is not supported: only HTTP/1.1 is spoken" : NULL;
}

/* The file's words in the order of enum client_auth, then an old name of RequireAnyClientCert. */
static const char *const client_auth_words[] = {
    "NoClientCert",
    "RequestClientCert",
    "RequireAnyClientCert",
    "VerifyClientCertIfGiven",
    "RequireAndVerifyClientCert",
    "RequireClientCert",
    NULL,
};
enum { CLIENT_AUTH_OLD_NAME = CLIENT_AUTH_REQUIRE + 1 };

static const char *const version_words[] = {"TLS12", "TLS13", NULL};

#define VERSION_HELP "TLS12 or TLS13; older versions are not supported"
#define PATH_HELP "the path of a PEM file"
#define HEADER_HELP "printable ASCII"

#define AT(member) offsetof(struct web_config, member)
static const struct yaml_table tls_table = {
    .what = "tls_server_config",
    .fields =
        (const struct yaml_field[]){
            {"cert_file", YAML_TEXT, AT(cert_file), .required = true, .help = PATH_HELP},
            {"key_file", YAML_TEXT, AT(key_file), .required = true, .help = PATH_HELP},
            {"client_auth_type", YAML_CHOICE, AT(client_auth), .fallback = "NoClientCert",
             .choices = client_auth_words,
             .help = "NoClientCert, RequestClientCert, RequireAnyClientCert, "
                     "VerifyClientCertIfGiven or RequireAndVerifyClientCert"},
            {"client_ca_file", YAML_TEXT, AT(client_ca_file), .help = PATH_HELP},
            {"min_version", YAML_CHOICE, AT(min_version), .fallback = "TLS12",
             .choices = version_words, .help = VERSION_HELP},
            {"max_version", YAML_CHOICE, AT(max_version), .fallback = "TLS13",
             .choices = version_words, .help = VERSION_HELP},
            {"cert", YAML_UNSUPPORTED,
             .help = "put the certificate into a file and write cert_file"},
            {"key", YAML_UNSUPPORTED, .help = "put the key into a file and write key_file"},
            {"client_ca", YAML_UNSUPPORTED,
             .help = "put the certificate into a file and write client_ca_file"},
            {"client_allowed_sans", YAML_UNSUPPORTED,
             .help = "remove it, and let client_ca_file be an authority that signs only those who "
                     "may come in"},
            {"cipher_suites", YAML_UNSUPPORTED,
             .help = "remove it: the system's TLS policy decides"},
            {"prefer_server_cipher_suites", YAML_UNSUPPORTED,
             .help = "remove it: the system's TLS policy decides"},
            {"curve_preferences", YAML_UNSUPPORTED,
             .help = "remove it: the system's TLS policy decides"},
            {0},
        },
};
#undef AT

#define AT(member) offsetof(struct headers, member)
static const struct yaml_table headers_table = {
    .what = "headers",
    .fields =
        (const struct yaml_field[]){
            {"Content-Security-Policy", YAML_TEXT, AT(content_security_policy),
             .check = check_header, .help = HEADER_HELP},
            {"X-Frame-Options", YAML_TEXT, AT(frame_options), .check = check_frame_options,
             .help = "deny or sameorigin"},
            {"X-Content-Type-Options", YAML_TEXT, AT(content_type_options), .check = check_nosniff,
             .help = "nosniff"},
            {"X-XSS-Protection", YAML_TEXT, AT(xss_protection), .check = check_header,
             .help = HEADER_HELP},
            {"Strict-Transport-Security", YAML_TEXT, AT(strict_transport_security),
             .check = check_header, .help = HEADER_HELP},
            {0},
        },
};
#undef AT

#define AT(member) offsetof(struct http_section, member)
static const struct yaml_table http_table = {
    .what = "http_server_config",
    .fields =
        (const struct yaml_field[]){
            {"http2", YAML_BOOL, AT(http2), .check = check_http2, .help = "false, or remove it"},
            {"headers", YAML_NODE, AT(headers), .help = "a map of headers"},
            {0},
        },
};
#undef AT

#define AT(member) offsetof(struct top_section, member)
static const struct yaml_table top_table = {
    .what = "the file",
    .fields =
        (const struct yaml_field[]){
            {"tls_server_config", YAML_NODE, AT(tls), .help = "cert_file: and key_file: below it"},
            {"http_server_config", YAML_NODE, AT(http), .help = "headers: below it"},
            {"basic_auth_users", YAML_NODE, AT(users),
             .help = "one line for each user, NAME: BCRYPT"},
            {"rate_limit", YAML_UNSUPPORTED,
             .help = "remove it: wrong passwords and open connections are limited always"},
            {0},
        },
};
#undef AT
/* clang-format on */

/* Makes a path that the file names absolute or relative to us, and sees that it can be read. */
static void check_pem(struct yaml_reader *reader, const struct yaml_node *tls, const char *key,
                      const char **path)
{
    CLEANUP(free_charp) char *text = NULL;
    size_t size = 0;
    struct error err;
    if (!*path)
        return;
    *path = yaml_path(reader, *path);
    if (!file_read(*path, PEM_SIZE, &text, &size, &err))
        yaml_problem(reader, yaml_member(tls, key)->line, "could not read the %s \"%s\": %s", key,
                     *path, err.message);
    else if (size == 0)
        yaml_problem(reader, yaml_member(tls, key)->line,
                     "could not read the %s \"%s\": it is empty", key, *path);
    if (text)
        explicit_bzero(text, size);
}

static void check_client_auth(struct yaml_reader *reader, const struct yaml_node *tls,
                              struct web_config *config)
{
    if ((int)config->client_auth == CLIENT_AUTH_OLD_NAME)
        config->client_auth = CLIENT_AUTH_REQUIRE_ANY;
    bool verifies = config->client_auth == CLIENT_AUTH_VERIFY_IF_GIVEN ||
                    config->client_auth == CLIENT_AUTH_REQUIRE;
    const struct yaml_node *type = yaml_member(tls, "client_auth_type");
    const struct yaml_node *authority = yaml_member(tls, "client_ca_file");
    if (verifies && !authority)
        yaml_problem(reader, type->line,
                     "could not use \"client_auth_type\": \"%s\" needs client_ca_file; name the "
                     "authority's certificate",
                     client_auth_words[config->client_auth]);
    if (authority && (!type || config->client_auth == CLIENT_AUTH_NONE) &&
        authority->kind == YAML_SCALAR)
        yaml_problem(reader, authority->line,
                     "could not use \"client_ca_file\": no certificate is asked for; write "
                     "client_auth_type: RequireAndVerifyClientCert");
}

static void read_tls(struct yaml_reader *reader, const struct yaml_node *tls,
                     struct web_config *config)
{
    yaml_read_table(reader, tls, &tls_table, config);
    if (tls->kind != YAML_MAP)
        return;
    check_pem(reader, tls, "cert_file", &config->cert_file);
    check_pem(reader, tls, "key_file", &config->key_file);
    check_pem(reader, tls, "client_ca_file", &config->client_ca_file);
    check_client_auth(reader, tls, config);
    if (config->min_version > config->max_version)
        yaml_problem(
            reader, yaml_member(tls, "max_version")->line,
            "could not use \"max_version\": it is below min_version; write TLS13 or remove "
            "it");
}

static void read_headers(struct yaml_reader *reader, const struct yaml_node *http,
                         struct web_config *config)
{
    struct http_section section = {0};
    struct headers headers = {0};
    yaml_read_table(reader, http, &http_table, &section);
    if (!section.headers)
        return;
    yaml_read_table(reader, section.headers, &headers_table, &headers);
    size_t n = 0;
    struct web_header *list = arena_array(config->arena, 5, sizeof *list);
    for (const struct yaml_field *f = headers_table.fields; f->name; f++) {
        const char *value = *(const char **)((char *)&headers + f->offset);
        if (value)
            list[n++] = (struct web_header){f->name, value};
    }
    config->headers = list;
    config->n_headers = n;
}

/* NULL, or why it is no bcrypt hash that we want to compute. */
static const char *check_hash(const char *hash)
{
    static const char alphabet[] =
        "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    if (strncmp(hash, "$2", 2) != 0 || !hash[2] || !strchr("aby", hash[2]) || hash[3] != '$' ||
        strspn(hash + 4, "0123456789") != 2 || hash[6] != '$' ||
        strspn(hash + 7, alphabet) != HASH_CHARACTERS || hash[7 + HASH_CHARACTERS])
        return "is not a bcrypt hash";
    int cost = 10 * (hash[4] - '0') + (hash[5] - '0');
    if (cost > COST_MAX)
        return "has a cost above 16, so that one login takes many seconds";
    return cost < COST_MIN ? "has a cost that bcrypt does not know" : NULL;
}

static void read_user(struct yaml_reader *reader, const struct yaml_node *node,
                      struct web_user *user)
{
    const char *shown = yaml_show(reader, node->key, "a user");
    if (!*node->key || strchr(node->key, ':') || strlen(node->key) > 255)
        yaml_problem(reader, node->line,
                     "could not add the user %s: a name has 1 to 255 bytes and no colon", shown);
    const char *why = node->kind == YAML_BROKEN   ? NULL
                      : node->kind != YAML_SCALAR ? "is not a text"
                                                  : check_hash(node->text);
    if (why)
        yaml_problem(reader, node->line,
                     "could not add the user %s: what stands for the password %s; write what "
                     "htpasswd -nBC 10 prints after the colon",
                     shown, why);
    *user = (struct web_user){arena_strdup(reader->keep, node->key),
                              arena_strdup(reader->keep, node->text)};
}

static int compare_nodes(const void *a, const void *b)
{
    const struct yaml_node *x = *(const struct yaml_node *const *)a;
    const struct yaml_node *y = *(const struct yaml_node *const *)b;
    int order = strcmp(x->key, y->key);
    return order ? order : x->line - y->line;
}

static void read_users(struct yaml_reader *reader, const struct yaml_node *map,
                       struct web_config *config)
{
    if (!yaml_expect(reader, map, YAML_MAP, "basic_auth_users"))
        return;
    if (map->n == 0)
        yaml_problem(reader, map->line,
                     "could not find a user: basic_auth_users is empty; name one, or remove it to "
                     "let everybody in");
    const struct yaml_node **nodes = arena_array(reader->arena, map->n, sizeof *nodes);
    size_t n = 0;
    for (const struct yaml_node *node = map->first; node; node = node->next)
        nodes[n++] = node;
    qsort(nodes, n, sizeof *nodes, compare_nodes);
    struct web_user *users = arena_array(config->arena, n, sizeof *users);
    for (size_t i = 0; i < n; i++) {
        read_user(reader, nodes[i], &users[i]);
        if (i > 0 && strcmp(nodes[i - 1]->key, nodes[i]->key) == 0)
            yaml_problem(reader, nodes[i]->line,
                         "could not add the user %s again: line %d has it already; remove one",
                         yaml_show(reader, nodes[i]->key, "a user"), nodes[i - 1]->line);
    }
    config->users = users;
    config->n_users = n;
}

static void read_file(struct yaml_reader *reader, const struct yaml_node *root,
                      struct web_config *config)
{
    struct top_section top = {0};
    yaml_read_table(reader, root, &top_table, &top);
    if (top.tls)
        read_tls(reader, top.tls, config);
    if (top.http)
        read_headers(reader, top.http, config);
    if (top.users)
        read_users(reader, top.users, config);
}

static void arena_freep(struct arena **arena)
{
    arena_free(*arena);
}

/* text NULL: the file of that path. */
static bool load(const char *path, const char *text, size_t size, struct web_config **ret_config,
                 struct problems *problems)
{
    struct arena *keep = arena_new();
    CLEANUP(web_config_freep) struct web_config *config = arena_alloc(keep, sizeof *config);
    CLEANUP(arena_freep) struct arena *scratch = arena_new();
    config->arena = keep;
    config->path = arena_strdup(keep, path);
    config->max_version = TLS_VERSION_13;
    struct yaml_reader reader = {
        .path = path, .arena = scratch, .keep = keep, .problems = problems};
    const struct yaml_node *root = NULL;
    if (text ? yaml_parse(&reader, text, size, &root) : yaml_load(&reader, &root))
        read_file(&reader, root, config);
    if (!yaml_finish(&reader))
        return false;
    *ret_config = STEAL(config);
    return true;
}

bool web_config_load(const char *path, struct web_config **ret_config, struct problems *problems)
{
    return load(path, NULL, 0, ret_config, problems);
}

bool web_config_parse(const char *path, const char *text, size_t size,
                      struct web_config **ret_config, struct problems *problems)
{
    return load(path, text, size, ret_config, problems);
}

static int compare_user(const void *name, const void *user)
{
    return strcmp(name, ((const struct web_user *)user)->name);
}

const char *web_config_hash(const struct web_config *config, const char *user)
{
    const struct web_user *found = config->n_users ? bsearch(user, config->users, config->n_users,
                                                             sizeof *config->users, compare_user)
                                                   : NULL;
    return found ? found->hash : NULL;
}

void web_config_free(struct web_config *config)
{
    if (config)
        arena_free(config->arena);
}
