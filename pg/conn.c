/* SPDX-License-Identifier: PostgreSQL */
/* The asynchronous session over libpq. */
#include "pg/conn.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "pg/conn_internal.h"
#include "pg/conninfo.h"

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
    free(*secret);
}

struct pg_conn *pg_conn_start(const struct pg_conn_options *options, struct error *err)
{
    CLEANUP(wipe) char *from_file = NULL;
    if (!conninfo_check(options->conninfo, err))
        return NULL;
    if (options->password_file && !read_password(options->password_file, &from_file, err))
        return NULL;
    const char *password = from_file ? from_file : options->password;
    const char *keywords[] = {"dbname", "fallback_application_name", "client_encoding", "password",
                              NULL};
    const char *values[] = {options->conninfo, options->application_name, "UTF8", password, NULL};
    if (!password)
        keywords[3] = NULL;
    PGconn *pq = PQconnectStartParams(keywords, values, 1);
    if (!pq || PQstatus(pq) == CONNECTION_BAD) {
        (void)pg_set_error(err, ERROR_CONNECT, "connect",
                           pq ? PQerrorMessage(pq) : "out of memory");
        PQfinish(pq);
        return NULL;
    }
    struct pg_conn *conn = xcalloc(1, sizeof *conn);
    conn->pq = pq;
    conn->events = POLLOUT;
    return conn;
}

static void note_version(struct pg_conn *conn)
{
    const char *text = PQparameterStatus(conn->pq, "server_version");
    size_t size = text ? strcspn(text, " ") : 0;
    if (size >= sizeof conn->version)
        size = sizeof conn->version - 1;
    if (size)
        memcpy(conn->version, text, size);
    conn->version[size] = '\0';
}

static bool connected(struct pg_conn *conn, struct error *err)
{
    if (PQsetnonblocking(conn->pq, 1) != 0 || !PQenterPipelineMode(conn->pq))
        return pg_set_error(err, ERROR_CONNECT, "connect", PQerrorMessage(conn->pq));
    note_version(conn);
    conn->events = POLLIN;
    return true;
}

void pg_conn_note_fatal(struct pg_conn *conn, const PGresult *message)
{
    const char *severity = PQresultErrorField(message, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *sqlstate = PQresultErrorField(message, PG_DIAG_SQLSTATE);
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

bool pg_conn_lost(const struct pg_conn *conn, struct error *err)
{
    if (conn->farewell.kind == ERROR_NONE)
        return pg_set_error(err, ERROR_CONNECT, "talk to the server", PQerrorMessage(conn->pq));
    *err = conn->farewell;
    return false;
}

enum pg_progress pg_conn_connect(struct pg_conn *conn, struct error *err)
{
    switch (PQconnectPoll(conn->pq)) {
    case PGRES_POLLING_READING:
        conn->events = POLLIN;
        return PG_AGAIN;
    case PGRES_POLLING_WRITING:
    case PGRES_POLLING_ACTIVE:
        conn->events = POLLOUT;
        return PG_AGAIN;
    case PGRES_POLLING_OK:
        (void)PQsetNoticeReceiver(conn->pq, take_notice, conn);
        return connected(conn, err) ? PG_DONE : PG_FAILED;
    case PGRES_POLLING_FAILED:
        break;
    }
    (void)pg_set_error(err, ERROR_CONNECT, "connect", PQerrorMessage(conn->pq));
    return PG_FAILED;
}

bool pg_conn_pump(struct pg_conn *conn, struct error *err)
{
    /* Input first: with both directions full, the server waits for us to read. */
    int left = PQconsumeInput(conn->pq) ? PQflush(conn->pq) : -1;
    if (left < 0)
        return pg_conn_lost(conn, err);
    conn->events = (short)(left > 0 ? POLLIN | POLLOUT : POLLIN);
    return true;
}

bool pg_conn_idle(struct pg_conn *conn, struct error *err)
{
    bool alive = pg_conn_pump(conn, err);
    (void)PQisBusy(conn->pq); /* reads the messages in what came */
    return alive;
}

int pg_conn_fd(const struct pg_conn *conn)
{
    return PQsocket(conn->pq);
}

short pg_conn_events(const struct pg_conn *conn)
{
    return conn->events;
}

int pg_conn_backend_pid(const struct pg_conn *conn)
{
    return PQbackendPID(conn->pq);
}

int pg_conn_version(const struct pg_conn *conn)
{
    return PQserverVersion(conn->pq);
}

const char *pg_conn_version_text(const struct pg_conn *conn)
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

void pg_conn_abandon(struct pg_conn *conn)
{
    PGcancel *cancel = conn ? PQgetCancel(conn->pq) : NULL;
    pthread_attr_t attributes;
    pthread_t thread;
    if (cancel) {
        (void)pthread_attr_init(&attributes);
        (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        (void)pthread_attr_setstacksize(&attributes, (size_t)256 * 1024);
        if (pthread_create(&thread, &attributes, cancel_thread, cancel) != 0)
            PQfreeCancel(cancel);
        (void)pthread_attr_destroy(&attributes);
    }
    pg_conn_close(conn);
}

void pg_conn_close(struct pg_conn *conn)
{
    if (!conn)
        return;
    PQfinish(conn->pq);
    free(conn);
}
