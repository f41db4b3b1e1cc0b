/* SPDX-License-Identifier: PostgreSQL */
/* The web configuration file: what it means, and what every mistake in one is answered with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "exporter/web_config.h"

#define HASH "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"
#define TLS "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n"
#define HEADERS "http_server_config:\n  headers:\n"

/* The directory of the file, where cert.pem, key.pem, ca.pem and an empty empty.pem are. */
static char directory[] = "/tmp/pgleader-test-XXXXXX";
static const char *const pem_files[] = {"cert.pem", "key.pem", "ca.pem", "empty.pem"};
static char *path;

/* Each problem must begin as its line in `want` does, after the file's name; "" for a right file.
 */
static const struct {
    const char *yaml;
    const char *want;
} rows[] = {
    {"", "1: could not find a setting: the file is empty"},
    {"{}\n", ""},
    {"- a\n", "1: could not read the file: a map is wanted here, not a list"},
    {"tls_server_confg: {}\n",
     "1: could not use \"tls_server_confg\": the file has no such key; did you mean "
     "tls_server_config?"},
    {"oidc: {}\n", "1: could not use \"oidc\": the file has no such key; it has tls_server_config, "
                   "http_server_config, basic_auth_users"},
    {"rate_limit: {interval: 1s, burst: 5}\n", "1: could not use \"rate_limit\": it is not supp"},

    /* TLS */
    {TLS, ""},
    {"tls_server_config:\n", "1: could not read \"tls_server_config\": it has no value"},
    {"tls_server_config: {}\n",
     "1: could not read tls_server_config: \"cert_file\" is missing; write the path of a PEM file\n"
     "1: could not read tls_server_config: \"key_file\" is missing"},
    {"tls_server_config:\n  cert_file: cert.pem\n",
     "1: could not read tls_server_config: \"key_file\" is missing"},
    {"tls_server_config:\n  cert_file: no.pem\n  key_file: empty.pem\n",
     "2: could not read the cert_file \"%s/no.pem\": No such file or directory\n"
     "3: could not read the key_file \"%s/empty.pem\": it is empty"},
    {"tls_server_config:\n  cert_file: .\n  key_file: /dev/zero\n",
     "2: could not read the cert_file \"%s/.\": Is a directory\n"
     "3: could not read the key_file \"/dev/zero\": it is not a regular file"},
    {TLS "  cert: x\n", "4: could not use \"cert\": it is not supported; put the certificate into"},
    {TLS "  key: hunter2\n", "4: could not use \"key\": it is not supported; put the key into a"},
    {TLS "  client_ca: x\n", "4: could not use \"client_ca\": it is not supported"},
    {TLS "  client_allowed_sans: [x]\n", "4: could not use \"client_allowed_sans\": it is not"},
    {TLS "  cipher_suites: [x]\n", "4: could not use \"cipher_suites\": it is not supported"},
    {TLS "  prefer_server_cipher_suites: true\n", "4: could not use \"prefer_server_cipher_suites"},
    {TLS "  curve_preferences: [x]\n", "4: could not use \"curve_preferences\": it is not"},
    {TLS "  min_version: TLS13\n", ""},
    {TLS "  min_version: TLS10\n",
     "4: could not read \"min_version\": \"TLS10\" is none of the words that stand here; write "
     "TLS12 or TLS13; older versions are not supported"},
    {TLS "  min_version: TLS13\n  max_version: TLS12\n",
     "5: could not use \"max_version\": it is below min_version"},
    {TLS "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n", ""},
    {TLS "  client_auth_type: RequireAndVerifyClientCert\n",
     "4: could not use \"client_auth_type\": \"RequireAndVerifyClientCert\" needs client_ca_file"},
    {TLS "  client_auth_type: VerifyClientCertIfGiven\n",
     "4: could not use \"client_auth_type\": \"VerifyClientCertIfGiven\" needs client_ca_file"},
    {TLS "  client_auth_type: NoClientCert\n  client_ca_file: ca.pem\n",
     "5: could not use \"client_ca_file\": no certificate is asked for"},
    {TLS "  client_ca_file: ca.pem\n", "4: could not use \"client_ca_file\": no certificate is"},
    {TLS "  client_ca_file: no.pem\n  client_auth_type: RequireAndVerifyClientCert\n",
     "4: could not read the client_ca_file \"%s/no.pem\": No such file or directory"},
    {TLS "  client_auth_type: Require\n",
     "4: could not read \"client_auth_type\": \"Require\" is none of the words that stand here"},

    /* HTTP */
    {"http_server_config: {http2: false}\n", ""},
    {"http_server_config: {http2: true}\n", "1: could not read \"http2\": \"true\" is not "
                                            "supported: only HTTP/1.1 is spoken; write false"},
    {HEADERS "    X-Frame-Options: deny\n", ""},
    {HEADERS "    X-Frame-Options: allow\n",
     "3: could not read \"X-Frame-Options\": \"allow\" is not known; write deny or sameorigin"},
    {HEADERS "    X-Content-Type-Options: sniff\n",
     "3: could not read \"X-Content-Type-Options\": \"sniff\" is not known; write nosniff"},
    {HEADERS "    X-XSS-Protection: \"\"\n", "3: could not read \"X-XSS-Protection\": it is empty"},
    {HEADERS "    Content-Security-Policy: \"a\\r\\nSet-Cookie: x\"\n",
     "3: could not read \"Content-Security-Policy\": it holds a character that no header may hold"},
    {HEADERS "    X-Powered-By: x\n", "3: could not use \"X-Powered-By\": headers has no such key"},

    /* users */
    {"basic_auth_users:\n  alice: " HASH "\n", ""},
    {"basic_auth_users:\n", "1: could not read \"basic_auth_users\": it has no value"},
    {"basic_auth_users: {}\n", "1: could not find a user: basic_auth_users is empty"},
    {"basic_auth_users: [alice]\n", "1: could not read basic_auth_users: a map is wanted here"},
    {"basic_auth_users:\n  alice: hunter2\n",
     "2: could not add the user \"alice\": what stands for the password is not a bcrypt hash; "
     "write what htpasswd -nBC 10 prints after the colon"},
    {"basic_auth_users:\n  alice:\n", "2: could not add the user \"alice\": what stands for the"},
    {"basic_auth_users:\n  alice: {a: b}\n", "2: could not add the user \"alice\": what stands"},
    {"basic_auth_users:\n  alice: *x\n", "2: could not follow an alias"},
    {"basic_auth_users:\n  alice: " HASH "x\n", "2: could not add the user \"alice\""},
    {"basic_auth_users:\n  alice: $2x$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG\n",
     "2: could not add the user \"alice\""},
    {"basic_auth_users:\n  alice: $2y$31$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG\n",
     "2: could not add the user \"alice\": what stands for the password has a cost above 16"},
    {"basic_auth_users:\n  alice: $2y$03$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG\n",
     "2: could not add the user \"alice\": what stands for the password has a cost that bcrypt"},
    {"basic_auth_users:\n  \"a:b\": " HASH "\n",
     "2: could not add the user \"a:b\": a name has 1 to 255 bytes and no colon"},
    {"basic_auth_users:\n  \"\": " HASH "\n", "2: could not add the user \"\": a name has"},
    {"basic_auth_users:\n  bob: " HASH "\n  alice: " HASH "\n  bob: " HASH "\n",
     "4: could not add the user \"bob\" again: line 2 has it already"},

    /* every mistake at once */
    {"rate_limit: {}\n" TLS "  min_version: 1\nbasic_auth_users: {a: b}\nx: y\n",
     "1: could not use \"rate_limit\"\n"
     "5: could not read \"min_version\"\n"
     "6: could not add the user \"a\"\n"
     "7: could not use \"x\""},
};

static void print_problems(const struct problems *problems)
{
    for (size_t i = 0; i < problems->n; i++)
        print_error("  %s\n", problems->items[i]);
}

/* True if the item is PATH: and then the line, in which %s stands for the directory. */
static bool begins(const char *item, const char *line, size_t length)
{
    size_t skip = strlen(path);
    if (strncmp(item, path, skip) != 0 || item[skip] != ':')
        return false;
    item += skip + 1;
    for (const char *end = line + length; line < end;) {
        if (strncmp(line, "%s", 2) == 0) {
            if (strncmp(item, directory, strlen(directory)) != 0)
                return false;
            item += strlen(directory);
            line += 2;
        } else if (*item++ != *line++) {
            return false;
        }
    }
    return true;
}

static bool problems_match(const struct problems *problems, const char *want)
{
    size_t n = 0;
    for (const char *line = want; *line; n++) {
        size_t length = strcspn(line, "\n");
        if (n >= problems->n || !begins(problems->items[n], line, length))
            return false;
        line += length + (line[length] == '\n');
    }
    return n == problems->n;
}

static void each_mistake_has_its_line_and_its_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CLEANUP(web_config_freep) struct web_config *config = NULL;
        CLEANUP(problems_done) struct problems problems = {0};
        bool ok = web_config_parse(path, rows[i].yaml, strlen(rows[i].yaml), &config, &problems);
        if (ok != (*rows[i].want == '\0') || ok != (config != NULL) ||
            !problems_match(&problems, rows[i].want)) {
            print_problems(&problems);
            fail_msg("row %zu:\n%s\nwanted:\n%s", i, rows[i].yaml, rows[i].want);
        }
        for (size_t j = 0; j < problems.n; j++) {
            assert_null(strstr(problems.items[j], "hunter2"));
            assert_null(strstr(problems.items[j], "$2"));
        }
    }
}

static void a_full_file_is_read_as_it_says(void **state)
{
    (void)state;
    static const char yaml[] =
        TLS "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n"
            "  min_version: TLS13\n  max_version: TLS13\n" HEADERS
            "    Strict-Transport-Security: max-age=31536000\n"
            "    X-Frame-Options: sameorigin\n"
            "basic_auth_users:\n  zoe: " HASH "\n  alice: " HASH "\n  \"42\": " HASH "\n";
    FILE *out = fopen(path, "w");
    assert_true(out && fputs(yaml, out) >= 0 && fclose(out) == 0);
    CLEANUP(web_config_freep) struct web_config *config = NULL;
    CLEANUP(problems_done) struct problems problems = {0};
    bool ok = web_config_load(path, &config, &problems);
    print_problems(&problems);
    assert_int_equal(unlink(path), 0);
    assert_true(ok);
    CLEANUP(free_charp) char *certificate = xasprintf("%s/cert.pem", directory);
    CLEANUP(free_charp) char *authority = xasprintf("%s/ca.pem", directory);
    assert_string_equal(config->path, path);
    assert_string_equal(config->cert_file, certificate);
    assert_string_equal(config->client_ca_file, authority);
    assert_int_equal(config->client_auth, CLIENT_AUTH_REQUIRE);
    assert_int_equal(config->min_version, TLS_VERSION_13);
    assert_int_equal(config->max_version, TLS_VERSION_13);
    assert_int_equal(config->n_headers, 2);
    assert_string_equal(config->headers[0].name, "X-Frame-Options");
    assert_string_equal(config->headers[0].value, "sameorigin");
    assert_string_equal(config->headers[1].name, "Strict-Transport-Security");
    assert_string_equal(config->headers[1].value, "max-age=31536000");
    assert_int_equal(config->n_users, 3);
    assert_string_equal(config->users[0].name, "42");
    assert_string_equal(config->users[2].name, "zoe");
    assert_string_equal(web_config_hash(config, "alice"), HASH);
    assert_null(web_config_hash(config, "bob"));
    assert_null(web_config_hash(config, ""));
}

static void what_is_left_out_has_its_default(void **state)
{
    (void)state;
    static const struct {
        const char *yaml;
        bool tls;
        enum client_auth client_auth;
    } files[] = {
        {"http_server_config: {}\n", false, CLIENT_AUTH_NONE},
        {TLS, true, CLIENT_AUTH_NONE},
        {TLS "  client_auth_type: RequireClientCert\n", true, CLIENT_AUTH_REQUIRE_ANY},
        {TLS "  client_auth_type: RequestClientCert\n", true, CLIENT_AUTH_REQUEST},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        CLEANUP(web_config_freep) struct web_config *config = NULL;
        CLEANUP(problems_done) struct problems problems = {0};
        assert_true(
            web_config_parse(path, files[i].yaml, strlen(files[i].yaml), &config, &problems));
        assert_int_equal(config->cert_file != NULL, files[i].tls);
        assert_int_equal(config->key_file != NULL, files[i].tls);
        assert_int_equal(config->client_auth, files[i].client_auth);
        assert_int_equal(config->min_version, TLS_VERSION_12);
        assert_int_equal(config->max_version, TLS_VERSION_13);
        assert_int_equal(config->n_headers, 0);
        assert_int_equal(config->n_users, 0);
        assert_null(web_config_hash(config, "alice"));
    }
}

static int make_files(void **state)
{
    (void)state;
    if (!mkdtemp(directory))
        return -1;
    path = xasprintf("%s/web.yml", directory);
    for (size_t i = 0; i < sizeof pem_files / sizeof *pem_files; i++) {
        CLEANUP(free_charp) char *name = xasprintf("%s/%s", directory, pem_files[i]);
        FILE *out = fopen(name, "w");
        if (!out || fputs(strcmp(pem_files[i], "empty.pem") ? "PEM\n" : "", out) < 0 ||
            fclose(out) != 0)
            return -1;
    }
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pem_files / sizeof *pem_files; i++) {
        CLEANUP(free_charp) char *name = xasprintf("%s/%s", directory, pem_files[i]);
        (void)unlink(name);
    }
    free(path);
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mistake_has_its_line_and_its_reason),
        cmocka_unit_test(a_full_file_is_read_as_it_says),
        cmocka_unit_test(what_is_left_out_has_its_default),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
