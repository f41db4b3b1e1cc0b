/* SPDX-License-Identifier: PostgreSQL */
/* Passwords against bcrypt hashes, with a memory of verdicts and a short queue. */
#include "exporter/auth.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <time.h>

#include <crypt.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/memory.h"

enum {
    KEY_SIZE = 32,
    GRANTED_MAX = 256, /* known to be right; each user has one */
    REFUSED_MAX = 256, /* known to be wrong; apart, so that they cannot push out the right ones */
    QUEUE_MAX = 32,
    QUEUE_MAX_PER_ORIGIN = 8,
    HASH_SIZE = 128,
    STOP_WAIT_MS = 300,
};

/* A user, a password and the hash that they were held against, as one number. A new hash in the
 * configuration is thereby a new question. */
struct key {
    unsigned char bytes[KEY_SIZE];
};

struct memory {
    struct key *keys;
    size_t n, max;
    size_t next; /* the oldest, once it is full */
};

struct job {
    struct key key;
    char hash[HASH_SIZE];
    char password[AUTH_PASSWORD_SIZE];
    bool known; /* false: no such user, the hash is another's and the verdict stands */
    uint64_t origin;
    struct auth_waiter *waiters;
};

/* Shared by two threads; the last of them frees it: a hash that takes long is not waited for. */
struct auth {
    void (*park)(struct auth_waiter *);
    void (*wake)(struct auth_waiter *);
    unsigned char secret[KEY_SIZE]; /* of this process: keys say nothing elsewhere */
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t work;
    bool stopping;
    bool finished;  /* the thread touches nothing any more */
    bool abandoned; /* the thread is to free all of it */
    struct memory granted, refused;
    struct job queue[QUEUE_MAX]; /* the first is being hashed */
    size_t n_queued;
};

bool credentials_parse(const char *authorization, struct credentials *ret_credentials)
{
    static const char scheme[] = "basic ";
    unsigned char plain[AUTH_NAME_SIZE + AUTH_PASSWORD_SIZE + 3];
    memset(ret_credentials, 0, sizeof *ret_credentials);
    if (!authorization || strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
        return false;
    const char *coded = authorization + sizeof scheme - 1;
    coded += strspn(coded, " ");
    size_t size = strlen(coded);
    size_t padding = size >= 2 && coded[size - 1] == '=' ? 1 + (coded[size - 2] == '=') : 0;
    if (size == 0 || size % 4 != 0 || size / 4 * 3 > sizeof plain ||
        strspn(coded, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") !=
            size - padding)
        return false;
    int decoded = EVP_DecodeBlock(plain, (const unsigned char *)coded, (int)size);
    size_t length = decoded < 0 ? 0 : (size_t)decoded - padding;
    const unsigned char *colon = memchr(plain, ':', length);
    size_t name_size = colon ? (size_t)(colon - plain) : length;
    bool fits = colon && !memchr(plain, '\0', length) && name_size < AUTH_NAME_SIZE &&
                length - name_size - 1 < AUTH_PASSWORD_SIZE;
    if (fits) {
        memcpy(ret_credentials->name, plain, name_size);
        memcpy(ret_credentials->password, colon + 1, length - name_size - 1);
    }
    explicit_bzero(plain, sizeof plain);
    return fits;
}

static void credentials_wipe(struct credentials *credentials)
{
    explicit_bzero(credentials, sizeof *credentials);
}

static bool memory_has(const struct memory *memory, const struct key *key)
{
    for (size_t i = 0; i < memory->n; i++) {
        if (CRYPTO_memcmp(memory->keys[i].bytes, key->bytes, KEY_SIZE) == 0)
            return true;
    }
    return false;
}

static void memory_add(struct memory *memory, const struct key *key)
{
    memory->keys[memory->next] = *key;
    memory->next = (memory->next + 1) % memory->max;
    if (memory->n < memory->max)
        memory->n++;
}

static struct memory memory_new(size_t max)
{
    return (struct memory){.keys = xcalloc(max, sizeof(struct key)), .max = max};
}

/* None of the three holds a NUL, so that it parts them. */
static struct key key_of(const struct auth *auth, const struct credentials *credentials,
                         const char *hash, bool known)
{
    unsigned char text[AUTH_NAME_SIZE + AUTH_PASSWORD_SIZE + HASH_SIZE + 1] = {known};
    struct key key = {0};
    size_t size = 1;
    const char *const parts[] = {credentials->name, hash, credentials->password};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t length = strlen(parts[i]) + 1;
        memcpy(text + size, parts[i], length);
        size += length;
    }
    if (!HMAC(EVP_sha256(), auth->secret, KEY_SIZE, text, size, key.bytes, NULL))
        abort();
    explicit_bzero(text, sizeof text);
    return key;
}

/* The hash to hold the password against. For a name that nobody has it is one of the users', always
 * the same for the same name: costs, where they differ, then tell nothing either. */
static const char *hash_for(const struct auth *auth, const struct web_config *config,
                            const char *name, bool *ret_known)
{
    unsigned char digest[KEY_SIZE];
    uint32_t number;
    if (!HMAC(EVP_sha256(), auth->secret, KEY_SIZE, (const unsigned char *)name, strlen(name),
              digest, NULL))
        abort();
    memcpy(&number, digest, sizeof number);
    const char *hash = web_config_hash(config, name);
    *ret_known = hash != NULL;
    return hash ? hash : config->users[number % config->n_users].hash;
}

static void job_wake(struct auth *auth, struct job *job, enum auth_verdict verdict)
{
    for (struct auth_waiter *waiter = job->waiters, *next; waiter; waiter = next) {
        next = waiter->next;
        waiter->verdict = verdict;
        auth->wake(waiter);
    }
    job->waiters = NULL;
}

/* The job that already asks this question, or a new one; NULL when there is no room. */
static struct job *job_for(struct auth *auth, const struct key *key, uint64_t origin)
{
    size_t same_origin = 0;
    for (size_t i = 0; i < auth->n_queued; i++) {
        if (CRYPTO_memcmp(auth->queue[i].key.bytes, key->bytes, KEY_SIZE) == 0)
            return &auth->queue[i];
        same_origin += auth->queue[i].origin == origin;
    }
    if (auth->stopping || auth->n_queued == QUEUE_MAX || same_origin >= QUEUE_MAX_PER_ORIGIN)
        return NULL;
    struct job *job = &auth->queue[auth->n_queued++];
    *job = (struct job){.key = *key, .origin = origin};
    return job;
}

enum auth_verdict auth_check(struct auth *auth, const struct web_config *config,
                             const char *authorization, uint64_t origin, struct auth_waiter *waiter)
{
    CLEANUP(credentials_wipe) struct credentials credentials;
    bool known = false;
    if (!credentials_parse(authorization, &credentials))
        return AUTH_REFUSED;
    const char *hash = hash_for(auth, config, credentials.name, &known);
    if (strlen(hash) >= HASH_SIZE)
        return AUTH_REFUSED;
    struct key key = key_of(auth, &credentials, hash, known);
    enum auth_verdict verdict = AUTH_BUSY;
    pthread_mutex_lock(&auth->mutex);
    if (memory_has(&auth->granted, &key)) {
        verdict = AUTH_GRANTED;
    } else if (memory_has(&auth->refused, &key)) {
        verdict = AUTH_REFUSED;
    } else {
        struct job *job = job_for(auth, &key, origin);
        if (job) {
            memcpy(job->hash, hash, strlen(hash) + 1);
            memcpy(job->password, credentials.password, sizeof job->password);
            job->known = known;
            verdict = waiter->verdict = AUTH_UNDECIDED;
            auth->park(waiter);
            waiter->next = job->waiters;
            job->waiters = waiter;
            pthread_cond_signal(&auth->work);
        }
    }
    pthread_mutex_unlock(&auth->mutex);
    return verdict;
}

static bool password_fits(const char *password, const char *hash, struct crypt_data *data)
{
    const char *made = crypt_rn(password, hash, data, (int)sizeof *data);
    size_t size = strlen(hash);
    bool fits = made && strlen(made) == size && CRYPTO_memcmp(made, hash, size) == 0;
    explicit_bzero(data, sizeof *data);
    return fits;
}

static void auth_destroy(struct auth *auth)
{
    pthread_mutex_destroy(&auth->mutex);
    pthread_cond_destroy(&auth->work);
    free(auth->granted.keys);
    free(auth->refused.keys);
    explicit_bzero(auth, sizeof *auth);
    free(auth);
}

/* Takes the verdict on the first of the queue to those who wait for it. */
static void finish_first(struct auth *auth, enum auth_verdict verdict)
{
    struct job *first = &auth->queue[0];
    memory_add(verdict == AUTH_GRANTED ? &auth->granted : &auth->refused, &first->key);
    job_wake(auth, first, verdict);
    auth->n_queued--;
    memmove(first, first + 1, auth->n_queued * sizeof *first);
    explicit_bzero(&auth->queue[auth->n_queued], sizeof *first);
}

/* Hashes what stands in the queue, at a low priority: scrapes and polls go before. */
static void *auth_main(void *argument)
{
    struct auth *auth = argument;
    struct crypt_data *data = xcalloc(1, sizeof *data);
    struct job job;
    (void)setpriority(PRIO_PROCESS, 0, 10); /* on Linux 0 is the calling thread */
    pthread_mutex_lock(&auth->mutex);
    while (!auth->stopping) {
        if (auth->n_queued == 0) {
            pthread_cond_wait(&auth->work, &auth->mutex);
            continue;
        }
        job = auth->queue[0];
        pthread_mutex_unlock(&auth->mutex);
        bool granted = password_fits(job.password, job.hash, data) && job.known;
        explicit_bzero(&job, sizeof job);
        pthread_mutex_lock(&auth->mutex);
        if (!auth->stopping)
            finish_first(auth, granted ? AUTH_GRANTED : AUTH_REFUSED);
    }
    auth->finished = true;
    bool abandoned = auth->abandoned;
    pthread_mutex_unlock(&auth->mutex);
    free(data);
    if (abandoned)
        auth_destroy(auth);
    return NULL;
}

struct auth *auth_new(void (*park)(struct auth_waiter *waiter),
                      void (*wake)(struct auth_waiter *waiter), struct error *err)
{
    struct auth *auth = xcalloc(1, sizeof *auth);
    auth->park = park;
    auth->wake = wake;
    auth->granted = memory_new(GRANTED_MAX);
    auth->refused = memory_new(REFUSED_MAX);
    pthread_mutex_init(&auth->mutex, NULL);
    pthread_cond_init(&auth->work, NULL);
    if (RAND_bytes(auth->secret, KEY_SIZE) != 1)
        abort();
    int why = pthread_create(&auth->thread, NULL, auth_main, auth);
    if (why == 0) {
        (void)pthread_setname_np(auth->thread, "web-auth");
        return auth;
    }
    error_set_errno(err, why, "could not start the web server's thread for passwords");
    auth_destroy(auth);
    return NULL;
}

void auth_stop(struct auth *auth)
{
    pthread_mutex_lock(&auth->mutex);
    auth->stopping = true;
    for (size_t i = 0; i < auth->n_queued; i++)
        job_wake(auth, &auth->queue[i], AUTH_BUSY);
    auth->n_queued = 0;
    pthread_cond_signal(&auth->work);
    pthread_mutex_unlock(&auth->mutex);
}

void auth_free(struct auth *auth)
{
    struct timespec deadline;
    if (!auth)
        return;
    (void)clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_nsec += STOP_WAIT_MS * 1000000;
    deadline.tv_sec += deadline.tv_nsec / 1000000000;
    deadline.tv_nsec %= 1000000000;
    if (pthread_timedjoin_np(auth->thread, NULL, &deadline) == 0) {
        auth_destroy(auth);
        return;
    }
    pthread_t thread = auth->thread;
    pthread_mutex_lock(&auth->mutex);
    bool finished = auth->finished;
    auth->abandoned = !finished;
    pthread_mutex_unlock(&auth->mutex);
    if (!finished) {
        (void)pthread_detach(thread);
        return;
    }
    (void)pthread_join(thread, NULL);
    auth_destroy(auth);
}
