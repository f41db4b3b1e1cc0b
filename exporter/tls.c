/* SPDX-License-Identifier: PostgreSQL */
/* TLS by GnuTLS. Each connection is given the newest credentials when it begins, so that a
 * certificate is replaced without a restart and without harm to the connections there are. */
#include "exporter/tls.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdlib.h>

#include "base/memory.h"

struct tls {
    gnutls_certificate_credentials_t credentials;
    gnutls_priority_t priorities;
    enum client_auth client_auth;
};

/* By the versions that are allowed, min and max. */
static const char *const priority_strings[2][2] = {
    [TLS_VERSION_12] = {[TLS_VERSION_12] = "NORMAL:%SERVER_PRECEDENCE:-VERS-ALL:+VERS-TLS1.2",
                        [TLS_VERSION_13] = "NORMAL:%SERVER_PRECEDENCE:-VERS-ALL:+VERS-TLS1.3:"
                                           "+VERS-TLS1.2"},
    [TLS_VERSION_13] = {[TLS_VERSION_13] = "NORMAL:%SERVER_PRECEDENCE:-VERS-ALL:+VERS-TLS1.3"},
};

static const gnutls_certificate_request_t requests[] = {
    [CLIENT_AUTH_NONE] = GNUTLS_CERT_IGNORE,
    [CLIENT_AUTH_REQUEST] = GNUTLS_CERT_REQUEST,
    [CLIENT_AUTH_REQUIRE_ANY] = GNUTLS_CERT_REQUIRE,
    [CLIENT_AUTH_VERIFY_IF_GIVEN] = GNUTLS_CERT_REQUEST,
    [CLIENT_AUTH_REQUIRE] = GNUTLS_CERT_REQUIRE,
};

/* In the handshake, once the client's certificate is there: anything but 0 ends it. */
static int verify_client(gnutls_session_t session)
{
    unsigned int n = 0, status = 0;
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT};
    if (!gnutls_certificate_get_peers(session, &n) || n == 0)
        return 0; /* GNUTLS_CERT_REQUIRE refuses by itself */
    if (gnutls_certificate_verify_peers(session, &purpose, 1, &status) < 0 || status != 0)
        return GNUTLS_E_CERTIFICATE_ERROR;
    return 0;
}

static bool load_files(struct tls *tls, const struct web_config *config, struct error *err)
{
    int code = gnutls_certificate_set_x509_key_file2(
        tls->credentials, config->cert_file, config->key_file, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (code < 0)
        return error_set(err, ERROR_CONFIG, "could not use certificate \"%s\" with key \"%s\": %s",
                         config->cert_file, config->key_file, gnutls_strerror(code));
    if (!config->client_ca_file)
        return true;
    code = gnutls_certificate_set_x509_trust_file(tls->credentials, config->client_ca_file,
                                                  GNUTLS_X509_FMT_PEM);
    if (code <= 0)
        return error_set(err, ERROR_CONFIG, "could not use client CA file \"%s\": %s",
                         config->client_ca_file,
                         code == 0 ? "no certificate in it" : gnutls_strerror(code));
    return true;
}

bool tls_load(const struct web_config *config, struct tls **ret_tls, struct error *err)
{
    struct tls *tls = xcalloc(1, sizeof *tls);
    tls->client_auth = config->client_auth;
    int code = gnutls_certificate_allocate_credentials(&tls->credentials);
    if (code == 0)
        code = gnutls_priority_init(
            &tls->priorities, priority_strings[config->min_version][config->max_version], NULL);
    if (code < 0)
        error_set(err, ERROR_SYSTEM, "could not set up TLS: %s", gnutls_strerror(code));
    if (code < 0 || !load_files(tls, config, err)) {
        tls_free(tls);
        return false;
    }
    *ret_tls = tls;
    return true;
}

void tls_free(struct tls *tls)
{
    if (!tls)
        return;
    if (tls->credentials)
        gnutls_certificate_free_credentials(tls->credentials);
    if (tls->priorities)
        gnutls_priority_deinit(tls->priorities);
    free(tls);
}

bool tls_attach(const struct tls *tls, void *session)
{
    bool verifies =
        tls->client_auth == CLIENT_AUTH_VERIFY_IF_GIVEN || tls->client_auth == CLIENT_AUTH_REQUIRE;
    if (gnutls_priority_set(session, tls->priorities) < 0 ||
        gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, tls->credentials) < 0)
        return false;
    gnutls_certificate_server_set_request(session, requests[tls->client_auth]);
    if (verifies)
        gnutls_session_set_verify_function(session, verify_client);
    return true;
}

static int find_nothing(gnutls_session_t session, const gnutls_datum_t *issuers, int n_issuers,
                        const gnutls_pk_algorithm_t *algorithms, int n_algorithms,
                        gnutls_pcert_st **ret_certificate, unsigned int *ret_n,
                        gnutls_privkey_t *ret_key)
{
    (void)session, (void)issuers, (void)n_issuers, (void)algorithms, (void)n_algorithms;
    (void)ret_certificate, (void)ret_n, (void)ret_key;
    return -1;
}

void *tls_no_certificate(void)
{
    return (void *)find_nothing;
}
