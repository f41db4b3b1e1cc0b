/* SPDX-License-Identifier: PostgreSQL */
/* Reads the web configuration again when its files change. */
#include "exporter/web_settings.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/text.h"

enum { N_FILES = 4 }; /* the web configuration, certificate, key, client CA */

/* What tells one content of a file from another without reading it. */
struct stamp {
    int error; /* errno of stat, or 0 */
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec modified, changed;
};

struct web_watch {
    char *path;
    pthread_mutex_t mutex;        /* guards current */
    struct web_settings *current; /* never NULL */
    struct stamp stamps[N_FILES]; /* of current's files, from before they were read */
    char *complaint;              /* of the last attempt; NULL: it went well */
};

static void problems_donep(struct problems *problems)
{
    problems_done(problems);
}

static struct stamp stamp_of(const char *path)
{
    struct stat st;
    if (!path)
        return (struct stamp){0};
    if (stat(path, &st) != 0)
        return (struct stamp){.error = errno};
    return (struct stamp){.device = st.st_dev,
                          .inode = st.st_ino,
                          .size = st.st_size,
                          .modified = st.st_mtim,
                          .changed = st.st_ctim};
}

static bool stamp_equal(const struct stamp *a, const struct stamp *b)
{
    return a->error == b->error && a->device == b->device && a->inode == b->inode &&
           a->size == b->size && a->modified.tv_sec == b->modified.tv_sec &&
           a->modified.tv_nsec == b->modified.tv_nsec && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}

static void stamps_of(const char *path, const struct web_config *config, struct stamp *stamps)
{
    const char *const files[N_FILES] = {path, config->cert_file, config->key_file,
                                        config->client_ca_file};
    for (int i = 0; i < N_FILES; i++)
        stamps[i] = stamp_of(files[i]);
}

/* The first problem is the message, the others follow as detail. */
static bool error_from_problems(const struct problems *problems, struct error *err)
{
    error_set(err, ERROR_CONFIG, "%s", problems->items[0]);
    size_t used = 0;
    for (size_t i = 1; i < problems->n && err && used < sizeof err->detail; i++)
        used += (size_t)snprintf(err->detail + used, sizeof err->detail - used, "%s%s",
                                 i > 1 ? "; " : "", problems->items[i]);
    return false;
}

static void web_settings_free(struct web_settings *settings)
{
    tls_free(settings->tls);
    web_config_free(settings->config);
    free(settings);
}

/* The stamps are from before the reading: what changes meanwhile is seen by the next look. */
static bool read_settings(const char *path, struct web_settings **ret_settings,
                          struct stamp *ret_stamps, struct error *err)
{
    CLEANUP(problems_donep) struct problems problems = {0};
    struct web_config *config = NULL;
    struct tls *tls = NULL;
    struct stamp stamp = stamp_of(path);
    if (!web_config_load(path, &config, &problems))
        return error_from_problems(&problems, err);
    stamps_of(path, config, ret_stamps);
    ret_stamps[0] = stamp;
    if (config->cert_file && !tls_load(config, &tls, err)) {
        web_config_free(config);
        return false;
    }
    *ret_settings = xcalloc(1, sizeof **ret_settings);
    **ret_settings = (struct web_settings){.config = config, .tls = tls};
    atomic_init(&(*ret_settings)->references, 1);
    return true;
}

bool web_watch_open(const char *path, struct web_watch **ret_watch, struct error *err)
{
    struct web_watch *watch = xcalloc(1, sizeof *watch);
    if (!read_settings(path, &watch->current, watch->stamps, err)) {
        free(watch);
        return false;
    }
    watch->path = xstrdup(path);
    pthread_mutex_init(&watch->mutex, NULL);
    *ret_watch = watch;
    return true;
}

void web_watch_free(struct web_watch *watch)
{
    if (!watch)
        return;
    web_settings_unref(watch->current);
    pthread_mutex_destroy(&watch->mutex);
    free(watch->complaint);
    free(watch->path);
    free(watch);
}

static bool read_again(struct web_watch *watch, struct error *err)
{
    struct stamp stamps[N_FILES];
    struct web_settings *fresh = NULL;
    if (!read_settings(watch->path, &fresh, stamps, err))
        return false;
    if (!fresh->tls != !watch->current->tls) {
        web_settings_free(fresh);
        return error_set(err, ERROR_CONFIG,
                         "could not apply \"%s\": switching TLS on or off takes a restart",
                         watch->path);
    }
    memcpy(watch->stamps, stamps, sizeof stamps);
    pthread_mutex_lock(&watch->mutex);
    struct web_settings *old = watch->current;
    watch->current = fresh;
    pthread_mutex_unlock(&watch->mutex);
    web_settings_unref(old);
    return true;
}

/* After a failure every look is an attempt: which file was at fault is not known, and a replacement
 * that was caught half-way heals by itself. */
bool web_watch_check(struct web_watch *watch, struct error *err)
{
    struct stamp stamps[N_FILES];
    bool same = !watch->complaint;
    stamps_of(watch->path, watch->current->config, stamps);
    for (int i = 0; i < N_FILES; i++)
        same = same && stamp_equal(&stamps[i], &watch->stamps[i]);
    if (same)
        return false;
    if (read_again(watch, err)) {
        free(watch->complaint);
        watch->complaint = NULL;
        return false;
    }
    bool news = !text_equal(watch->complaint, err->message);
    free(watch->complaint);
    watch->complaint = xstrdup(err->message);
    return news;
}

struct web_settings *web_watch_current(struct web_watch *watch)
{
    pthread_mutex_lock(&watch->mutex);
    struct web_settings *settings = watch->current;
    atomic_fetch_add_explicit(&settings->references, 1, memory_order_relaxed);
    pthread_mutex_unlock(&watch->mutex);
    return settings;
}

void web_settings_unref(struct web_settings *settings)
{
    if (settings && atomic_fetch_sub_explicit(&settings->references, 1, memory_order_acq_rel) == 1)
        web_settings_free(settings);
}
