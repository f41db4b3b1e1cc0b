/* SPDX-License-Identifier: PostgreSQL */
/* The asynchronous session over libpq. */
#include "pg/conn.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "pg/conn_internal.h"
#include "pg/conninfo.h"
#include "pg/hosts.h"
#include "pg/resolve.h"
#include "pg/thread.h"
#include "pg/words.h"

/* libpq ends its messages with a newline and may write several lines. */
bool pg_set_error(struct error *err, enum error_kind kind, const char *what, const char *words)
{
    CLEANUP(free_charp) char *line = xstrdup(words && *words ? words : "no reason given");
    size_t size = strlen(line);
    while (size > 0 && (line[size - 1] == '\n' || line[size - 1] == ' '))
        line[--size] = '\0';
    for (char *c = line; *c; c++) {
        if (*c == '\n' || *c == '\t' || *c == '\r')
            *c = ' ';
    }
    return error_set(err, kind, "could not %s: %s", what, line);
}

static bool read_password(const char *path, char **ret_password, struct error *err)
{
    CLEANUP(fclose_filep) FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t size = 0;
    if (!file)
        return error_set_errno(err, errno, "could not read the password file \"%s\"", path);
    errno = 0;
    ssize_t length = getline(&line, &size, file);
    if (length < 0) {
        free(line);
        if (errno)
            return error_set_errno(err, errno, "could not read the password file \"%s\"", path);
        return error_set(err, ERROR_CONFIG, "could not read the password file \"%s\": it is empty",
                         path);
    }
    line[strcspn(line, "\r\n")] = '\0';
    *ret_password = line;
    return true;
}

static void wipe(char **secret)
{
    if (*secret)
        explicit_bzero(*secret, strlen(*secret));
    free(STEAL(*secret));
}

void pg_conn_note_fatal(struct pg_session *conn, const PGresult *message)
{
    const char *severity = PQresultErrorField(message, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *sqlstate = PQresultErrorField(message, PG_DIAG_SQLSTATE);
    if (!severity) /* PgBouncer sends only the other, which no locale translates there */
        severity = PQresultErrorField(message, PG_DIAG_SEVERITY);
    if (!severity || (strcmp(severity, "FATAL") != 0 && strcmp(severity, "PANIC") != 0))
        return;
    (void)pg_set_error(&conn->farewell, ERROR_CONNECT, "keep the session",
                       PQresultErrorField(message, PG_DIAG_MESSAGE_PRIMARY));
    if (sqlstate)
        (void)snprintf(conn->farewell.sqlstate, sizeof conn->farewell.sqlstate, "%s", sqlstate);
}

/* Server messages are never for our standard error. libpq gives a FATAL to an idle session as a
 * notice. */
static void take_notice(void *context, const PGresult *notice)
{
    pg_conn_note_fatal(context, notice);
}

/* Our end's watch over a silent peer, as texts; "" leaves a setting to libpq. */
struct watch {
    char user_timeout[16], idle[4], interval[4], count[16];
};

static struct watch watch_for(int silent_after_s)
{
    struct watch watch = {0};
    if (silent_after_s <= 0)
        return watch;
    (void)snprintf(watch.user_timeout, sizeof watch.user_timeout, "%lld", silent_after_s * 1000LL);
    (void)snprintf(watch.idle, sizeof watch.idle, "2");
    (void)snprintf(watch.interval, sizeof watch.interval, "1");
    (void)snprintf(watch.count, sizeof watch.count, "%d",
                   silent_after_s > 3 ? silent_after_s - 2 : 1);
    return watch;
}

static const char *if_given(const char *text)
{
    return *text ? text : NULL;
}

/* Hands everything to libpq, which begins to connect. With hosts, they stand in for what the
 * connection string says of them. */
static bool begin(struct pg_session *conn, const struct hosts *hosts, struct error *err)
{
    const struct pg_conn_options *options = &conn->options;
    CLEANUP(host_done) struct host lists = {0};
    if (hosts->n)
        lists = hosts_rotated(hosts, options->first_host);
    const struct watch watch = watch_for(options->silent_after_s);
    const struct {
        const char *keyword, *value;
    } all[] = {
        {"tcp_user_timeout", if_given(watch.user_timeout)}, /* what conninfo says comes later */
        {"keepalives_idle", if_given(watch.idle)},
        {"keepalives_interval", if_given(watch.interval)},
        {"keepalives_count", if_given(watch.count)},
        {"dbname", options->conninfo},
        {"application_name", options->own_name},
        {"fallback_application_name", options->application_name},
        {"client_encoding", "UTF8"},
        {"password", conn->password ? conn->password : options->password},
        {"host", lists.name},
        {"hostaddr", lists.address},
        {"port", lists.port},
    };
    const char *keywords[sizeof all / sizeof *all + 1] = {0}, *values[sizeof all / sizeof *all + 1];
    size_t n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        keywords[n] = all[i].keyword;
        values[n] = all[i].value;
        n += all[i].value != NULL;
    }
    keywords[n] = NULL;
    conn->pq = PQconnectStartParams(keywords, values, 1);
    conn->events = POLLOUT;
    (void)PQsetNoticeReceiver(conn->pq, take_notice, conn);
    (void)PQsetErrorVerbosity(conn->pq, PQERRORS_VERBOSE); /* for words_take_sqlstate */
    wipe(&conn->password);
    if (conn->pq && PQstatus(conn->pq) != CONNECTION_BAD)
        return true;
    return pg_set_error(err, ERROR_CONNECT, "connect",
                        conn->pq ? PQerrorMessage(conn->pq) : "out of memory");
}

/* Names are looked up first; addresses and sockets are libpq's at once. */
static bool find_hosts(struct pg_session *conn, struct error *err)
{
    CLEANUP(hosts_done) struct hosts hosts = {0};
    hosts_read(conn->options.conninfo, &hosts);
    bool lookup = false;
    for (size_t i = 0; i < hosts.n; i++)
        lookup = lookup || host_needs_lookup(&hosts.items[i]);
    if (lookup)
        conn->resolve = resolve_start(&hosts);
    conn->events = POLLIN;
    return conn->resolve || begin(conn, &hosts, err);
}

/* PG_AGAIN also when the name is found and libpq has begun. */
static enum pg_progress go_on_resolving(struct pg_session *conn, struct error *err)
{
    CLEANUP(hosts_done) struct hosts hosts = {0};
    if (!resolve_is_done(conn->resolve))
        return PG_AGAIN;
    bool ok = resolve_take(conn->resolve, &hosts, err) && begin(conn, &hosts, err);
    resolve_free(STEAL(conn->resolve));
    return ok ? PG_AGAIN : PG_FAILED;
}

struct pg_session *pg_conn_start(const struct pg_conn_options *options, struct error *err)
{
    if (!conninfo_check(options->conninfo, err))
        return NULL;
    struct pg_session *conn = xcalloc(1, sizeof *conn);
    conn->options = *options;
    bool ok =
        !options->password_file || read_password(options->password_file, &conn->password, err);
    if (ok && find_hosts(conn, err))
        return conn;
    pg_conn_close(conn);
    return NULL;
}

static void note_version(struct pg_session *conn)
{
    const char *text = PQparameterStatus(conn->pq, "server_version");
    size_t size = text ? strcspn(text, " ") : 0;
    if (size >= sizeof conn->version)
        size = sizeof conn->version - 1;
    if (size)
        memcpy(conn->version, text, size);
    conn->version[size] = '\0';
}

static bool connected(struct pg_session *conn, struct error *err)
{
    if (PQsetnonblocking(conn->pq, 1) != 0 || !PQenterPipelineMode(conn->pq))
        return pg_set_error(err, ERROR_CONNECT, "connect", PQerrorMessage(conn->pq));
    (void)PQsetErrorVerbosity(conn->pq, PQERRORS_DEFAULT);
    note_version(conn);
    conn->events = POLLIN;
    return true;
}

bool pg_conn_lost(const struct pg_session *conn, struct error *err)
{
    if (conn->farewell.kind == ERROR_NONE)
        return pg_set_error(err, ERROR_CONNECT, "talk to the server", PQerrorMessage(conn->pq));
    *err = conn->farewell;
    return false;
}

static enum pg_progress refused(struct pg_session *conn, struct error *err)
{
    char sqlstate[SQLSTATE_SIZE];
    CLEANUP(free_charp) char *words = xstrdup(PQerrorMessage(conn->pq));
    words_take_sqlstate(words, sqlstate);
    (void)pg_set_error(err, ERROR_CONNECT, "connect", words);
    if (err)
        memcpy(err->sqlstate, sqlstate, sizeof sqlstate);
    return PG_FAILED;
}

enum pg_progress pg_conn_connect(struct pg_session *conn, struct error *err)
{
    if (conn->resolve)
        return go_on_resolving(conn, err);
    switch (PQconnectPoll(conn->pq)) {
    case PGRES_POLLING_READING:
        conn->events = POLLIN;
        return PG_AGAIN;
    case PGRES_POLLING_WRITING:
    case PGRES_POLLING_ACTIVE:
        conn->events = POLLOUT;
        return PG_AGAIN;
    case PGRES_POLLING_OK:
        return connected(conn, err) ? PG_DONE : PG_FAILED;
    case PGRES_POLLING_FAILED:
        break;
    }
    return refused(conn, err);
}

bool pg_conn_pump(struct pg_session *conn, struct error *err)
{
    /* Input first: with both directions full, the server waits for us to read. */
    int left = PQconsumeInput(conn->pq) ? PQflush(conn->pq) : -1;
    if (left < 0)
        return pg_conn_lost(conn, err);
    conn->events = (short)(left > 0 ? POLLIN | POLLOUT : POLLIN);
    return true;
}

bool pg_conn_idle(struct pg_session *conn, struct error *err)
{
    bool alive = pg_conn_pump(conn, err);
    (void)PQisBusy(conn->pq);                       /* reads the messages in what came */
    if (alive && conn->farewell.kind != ERROR_NONE) /* the socket is closed milliseconds later */
        return pg_conn_lost(conn, err);
    return alive;
}

bool pg_conn_looking_up(const struct pg_session *conn)
{
    return conn->resolve != NULL;
}

int pg_conn_fd(const struct pg_session *conn)
{
    return conn->resolve ? resolve_fd(conn->resolve) : PQsocket(conn->pq);
}

short pg_conn_events(const struct pg_session *conn)
{
    return conn->events;
}

int pg_conn_backend_pid(const struct pg_session *conn)
{
    return PQbackendPID(conn->pq);
}

int pg_conn_version(const struct pg_session *conn)
{
    return PQserverVersion(conn->pq);
}

const char *pg_conn_version_text(const struct pg_session *conn)
{
    return conn->version;
}

static void *cancel_thread(void *argument)
{
    char words[256];
    (void)PQcancel(argument, words, sizeof words);
    PQfreeCancel(argument);
    return NULL;
}

void pg_conn_abandon(struct pg_session *conn)
{
    PGcancel *cancel = conn ? PQgetCancel(conn->pq) : NULL;
    if (cancel && !thread_run_detached(cancel_thread, cancel))
        PQfreeCancel(cancel);
    pg_conn_close(conn);
}

void pg_conn_close(struct pg_session *conn)
{
    if (!conn)
        return;
    resolve_free(conn->resolve);
    wipe(&conn->password);
    PQfinish(conn->pq);
    free(conn);
}
