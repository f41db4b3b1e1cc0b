/* SPDX-License-Identifier: PostgreSQL */
/* What the web server shows and asks in TLS handshakes: certificate, key, versions, client
 * certificates. The only user of GnuTLS. */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "exporter/web_config.h"

struct tls;

/* Reads the files that config names (cert_file is set). On failure err says which does not do. */
bool tls_load(const struct web_config *config, struct tls **ret_tls, struct error *err) MUSTCHECK;
void tls_free(struct tls *tls); /* NULL is fine */

/* Makes a session (a gnutls_session_t) that has not begun its handshake use tls, which must live
 * until the session is gone. Whether the client's certificate will do is judged in the handshake.
 */
bool tls_attach(const struct tls *tls, void *session) MUSTCHECK;

/* For a library that wants a certificate before tls_attach can be called: has none. Its type is
 * gnutls_certificate_retrieve_function2. */
void *tls_no_certificate(void);
