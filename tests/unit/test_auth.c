/* SPDX-License-Identifier: PostgreSQL */
/* ctest: serial tsan quick */
/* Basic credentials, and who is let in, waits or is turned away. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <openssl/evp.h>

#include "base/clock.h"
#include "base/memory.h"
#include "exporter/auth.h"

#define N(rows) (sizeof(rows) / sizeof *(rows))

/* The passwords: secret, geheim, abc:def, other, slow (cost 8), slower (cost 12). */
static const struct web_user users[] = {
    {"alice", "$2b$04$nVN0/QnaD8I7l6/HJCXODu34Iub3ZQKQJ9/If27aCzzGM6kdgmZlu"},
    {"bob", "$2y$04$NBo5zVe9hNuSvwYSoqOMUe84Zb2uRIDeNJJQvgyjDiyICSSIuuQ7C"},
    {"colon", "$2b$04$Fot2rx0Gsb8WGqT19aHsHOPZ6jmw6zZ1ek6GzetYQ1otyBA6HK.BC"},
    {"old", "$2a$04$HbLfGGR8yH/dgmDLsOchdOH82.A9URMdtVPoicbWRTt7QYhl0p59K"},
};
static const struct web_user slow_users[] = {
    {"slow", "$2b$08$JcCyUFa0eT4vBXhHA/BqLu.2KT7RmRYif9kot6yEk7oml.q.IymnC"}};
static const struct web_user slower_users[] = {
    {"slower", "$2b$12$c4iO5iLeG.TN6vh1GMrw0udJ/HNDndJNs4T0mJh9hJCsnpMmFyWjS"}};
static const struct web_user changed_users[] = {
    {"alice", "$2b$04$HIWWZhjf6wR3K9BUJrAaa.sbVCeZK3cUlcxrGWYv9PUUoe4WRSRF2"}};

static const struct web_config config = {.users = users, .n_users = N(users)};
static const struct web_config slow = {.users = slow_users, .n_users = N(slow_users)};
static const struct web_config slower = {.users = slower_users, .n_users = N(slower_users)};
static const struct web_config changed = {.users = changed_users, .n_users = N(changed_users)};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t woken = PTHREAD_COND_INITIALIZER;
static int n_parked, n_woken;

static void park(struct auth_waiter *waiter)
{
    (void)waiter;
    pthread_mutex_lock(&mutex);
    n_parked++;
    pthread_mutex_unlock(&mutex);
}

static void wake(struct auth_waiter *waiter)
{
    (void)waiter;
    pthread_mutex_lock(&mutex);
    n_woken++;
    pthread_cond_broadcast(&woken);
    pthread_mutex_unlock(&mutex);
}

static struct auth *start(void)
{
    n_parked = n_woken = 0;
    struct auth *auth = auth_new(park, wake, NULL);
    assert_non_null(auth);
    return auth;
}

static void stop(struct auth *auth)
{
    auth_stop(auth);
    auth_free(auth);
}

static void wait_for_all(void)
{
    struct timespec deadline;
    (void)clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 20;
    pthread_mutex_lock(&mutex);
    int error = 0;
    while (n_woken < n_parked && error == 0)
        error = pthread_cond_timedwait(&woken, &mutex, &deadline);
    pthread_mutex_unlock(&mutex);
    assert_int_equal(error, 0);
}

static const char *header_for(const char *text)
{
    static char header[2048];
    size_t used = (size_t)snprintf(header, sizeof header, "Basic ");
    EVP_EncodeBlock((unsigned char *)header + used, (const unsigned char *)text, (int)strlen(text));
    return header;
}

/* The verdict, however long it takes; *ret_parked tells whether it took the thread. */
static enum auth_verdict ask(struct auth *auth, const struct web_config *of, const char *text,
                             bool *ret_parked)
{
    struct auth_waiter waiter;
    enum auth_verdict verdict = auth_check(auth, of, header_for(text), 1, &waiter);
    *ret_parked = verdict == AUTH_UNDECIDED;
    if (*ret_parked) {
        wait_for_all();
        verdict = waiter.verdict;
    }
    return verdict;
}

static void test_parse(void **state)
{
    (void)state;
    static const struct {
        const char *header, *name, *password; /* no name: refused */
    } rows[] = {
        {"Basic YWxpY2U6c2VjcmV0", "alice", "secret"},
        {"basic YWxpY2U6c2VjcmV0", "alice", "secret"},
        {"BASIC   YWxpY2U6c2VjcmV0", "alice", "secret"},
        {"Basic YTpi", "a", "b"},
        {"Basic YTo=", "a", ""},
        {"Basic OmI=", "", "b"},
        {"Basic Og==", "", ""},
        {"Basic YTpiOmM=", "a", "b:c"},
        {"Basic dTpww6Rzcw==", "u", "p\xc3\xa4ss"},
        {NULL, NULL, NULL},
        {"", NULL, NULL},
        {"Basic", NULL, NULL},
        {"Basic ", NULL, NULL},
        {"BasicYTpi", NULL, NULL},
        {"Bearer YTpi", NULL, NULL},
        {"Basic YQ==", NULL, NULL},     /* no colon */
        {"Basic YTpiAGM=", NULL, NULL}, /* a NUL: bcrypt would look no further */
        {"Basic YTo", NULL, NULL},
        {"Basic YTpi=", NULL, NULL},
        {"Basic =", NULL, NULL},
        {"Basic ====", NULL, NULL},
        {"Basic YT=i", NULL, NULL},
        {"Basic YTpi YTpi", NULL, NULL},
        {"Basic YTp\xc3", NULL, NULL},
        {"Basic YTpi\n", NULL, NULL},
    };
    for (size_t i = 0; i < N(rows); i++) {
        struct credentials got;
        bool parsed = credentials_parse(rows[i].header, &got);
        if (parsed != (rows[i].name != NULL) ||
            strcmp(got.name, rows[i].name ? rows[i].name : "") != 0 ||
            strcmp(got.password, rows[i].name ? rows[i].password : "") != 0)
            fail_msg("%s: \"%s\", \"%s\"", rows[i].header, got.name, got.password);
    }
}

/* What just fits is taken, and one byte more is not. */
static void test_parse_lengths(void **state)
{
    (void)state;
    static const struct {
        size_t name, password;
        bool fits;
    } rows[] = {{AUTH_NAME_SIZE - 1, AUTH_PASSWORD_SIZE - 1, true},
                {AUTH_NAME_SIZE, 1, false},
                {1, AUTH_PASSWORD_SIZE, false},
                {AUTH_NAME_SIZE - 1, 0, true},
                {400, 400, false}};
    for (size_t i = 0; i < N(rows); i++) {
        char text[1024];
        struct credentials got;
        memset(text, 'x', sizeof text);
        text[rows[i].name] = ':';
        text[rows[i].name + 1 + rows[i].password] = '\0';
        assert_int_equal(credentials_parse(header_for(text), &got), rows[i].fits);
        assert_int_equal(strlen(got.name), rows[i].fits ? rows[i].name : 0);
        assert_int_equal(strlen(got.password), rows[i].fits ? rows[i].password : 0);
    }
}

/* The first answer takes the thread; the second comes from memory and is the same. */
static void test_verdicts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum auth_verdict want;
    } rows[] = {
        {"alice:secret", AUTH_GRANTED},  {"bob:geheim", AUTH_GRANTED},
        {"colon:abc:def", AUTH_GRANTED}, {"old:other", AUTH_GRANTED},
        {"alice:geheim", AUTH_REFUSED},  {"alice:", AUTH_REFUSED},
        {"alice:Secret", AUTH_REFUSED},  {"alice:secret ", AUTH_REFUSED},
        {"Alice:secret", AUTH_REFUSED},  {"nobody:secret", AUTH_REFUSED},
        {"nobody:geheim", AUTH_REFUSED}, {"nobody:abc:def", AUTH_REFUSED},
        {"nobody:other", AUTH_REFUSED},  {":", AUTH_REFUSED},
    };
    struct auth *auth = start();
    for (size_t i = 0; i < N(rows) * 2; i++) {
        bool parked;
        enum auth_verdict got = ask(auth, &config, rows[i % N(rows)].text, &parked);
        if (got != rows[i % N(rows)].want || parked != (i < N(rows)))
            fail_msg("%s: verdict %d, parked %d, time %zu", rows[i % N(rows)].text, got, parked,
                     i / N(rows) + 1);
    }
    struct auth_waiter waiter;
    assert_int_equal(auth_check(auth, &config, NULL, 1, &waiter), AUTH_REFUSED);
    assert_int_equal(auth_check(auth, &config, "Basic x", 1, &waiter), AUTH_REFUSED);
    stop(auth);
}

/* A new hash is a new question: neither the old yes nor the old no holds. */
static void test_hash_changes(void **state)
{
    (void)state;
    bool parked;
    struct auth *auth = start();
    assert_int_equal(ask(auth, &config, "alice:secret", &parked), AUTH_GRANTED);
    assert_int_equal(ask(auth, &config, "alice:secret2", &parked), AUTH_REFUSED);
    assert_int_equal(ask(auth, &changed, "alice:secret", &parked), AUTH_REFUSED);
    assert_int_equal(ask(auth, &changed, "alice:secret2", &parked), AUTH_GRANTED);
    stop(auth);
}

/* A thousand wrong passwords neither push out the right one nor take more memory (there is no
 * allocation in auth_check at all). */
static void test_wrong_do_not_push_out_right(void **state)
{
    (void)state;
    bool parked;
    struct auth *auth = start();
    assert_int_equal(ask(auth, &config, "alice:secret", &parked), AUTH_GRANTED);
    for (int i = 0; i < 1000; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "alice:wrong%d", i);
        assert_int_equal(ask(auth, &config, text, &parked), AUTH_REFUSED);
        assert_true(parked);
    }
    assert_int_equal(ask(auth, &config, "alice:secret", &parked), AUTH_GRANTED);
    assert_false(parked);
    assert_int_equal(ask(auth, &config, "alice:wrong999", &parked), AUTH_REFUSED);
    assert_false(parked);
    assert_int_equal(ask(auth, &config, "alice:wrong0", &parked), AUTH_REFUSED);
    assert_true(parked); /* forgotten */
    stop(auth);
}

/* One address can fill a part of the queue, all of them the whole; the rest is turned away at once.
 * Those who ask the same share one place. */
static void test_queue(void **state)
{
    (void)state;
    static struct auth_waiter waiters[2][64];
    int busy = 0;
    struct auth *auth = start();
    int64_t start_us = clock_monotonic_us();
    for (int i = 0; i < 64; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "slower:wrong%d", i);
        busy += auth_check(auth, &slower, header_for(text), 7, &waiters[0][i]) == AUTH_BUSY;
    }
    assert_int_equal(busy, 64 - 8);
    for (int i = 0; i < 64; i++)
        assert_int_equal(auth_check(auth, &slower, header_for("slower:slower"), 8, &waiters[1][i]),
                         AUTH_UNDECIDED);
    int64_t took_us = clock_monotonic_us() - start_us;
    assert_true(took_us < SECOND_US); /* nobody was hashed for meanwhile */
    auth_stop(auth);
    assert_int_equal(n_parked, 8 + 64);
    assert_int_equal(n_woken, n_parked);
    for (int i = 0; i < 64; i++)
        assert_int_equal(waiters[1][i].verdict, AUTH_BUSY);
    struct auth_waiter late;
    assert_int_equal(auth_check(auth, &slower, header_for("slower:x"), 9, &late), AUTH_BUSY);
    auth_free(auth);
}

static void test_same_question_is_asked_once(void **state)
{
    (void)state;
    static struct auth_waiter waiters[64];
    struct auth *auth = start();
    for (int i = 0; i < 64; i++)
        assert_int_equal(auth_check(auth, &slow, header_for("slow:slow"), 1, &waiters[i]),
                         AUTH_UNDECIDED);
    wait_for_all();
    for (int i = 0; i < 64; i++)
        assert_int_equal(waiters[i].verdict, AUTH_GRANTED);
    stop(auth);
}

/* Processor time of all threads: what others do on the machine does not count. */
static int64_t spent_us(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    return now.tv_sec * SECOND_US + now.tv_nsec / 1000;
}

static int64_t least_time_us(struct auth *auth, const char *name)
{
    int64_t least_us = INT64_MAX;
    for (int i = 0; i < 9; i++) {
        char text[64];
        bool parked;
        (void)snprintf(text, sizeof text, "%s:%d", name, i);
        int64_t start_us = spent_us();
        assert_int_equal(ask(auth, &slow, text, &parked), AUTH_REFUSED);
        int64_t took_us = spent_us() - start_us;
        least_us = took_us < least_us ? took_us : least_us;
    }
    return least_us;
}

/* An unknown name costs what a known one does: the least of nine times is nearly free of noise. */
static void test_unknown_user_costs_as_much(void **state)
{
    (void)state;
    struct auth *auth = start();
    int64_t known_us = least_time_us(auth, "slow");
    int64_t unknown_us = least_time_us(auth, "nobody");
    stop(auth);
    assert_true(known_us > 3000); /* it was bcrypt at cost 8 */
    assert_in_range(unknown_us * 100 / known_us, 50, 200);
}

/* Stopping does not wait for a long hash; the thread then cleans up by itself. */
static void test_stop_does_not_wait(void **state)
{
    (void)state;
    struct auth_waiter waiter;
    struct web_user user = slower_users[0];
    char hash[64];
    (void)snprintf(hash, sizeof hash, "$2b$16%s", user.hash + 6); /* some 4 s */
    user.hash = hash;
    const struct web_config very_slow = {.users = &user, .n_users = 1};
    struct auth *auth = start();
    int64_t start_us = clock_monotonic_us();
    assert_int_equal(auth_check(auth, &very_slow, header_for("slower:x"), 1, &waiter),
                     AUTH_UNDECIDED);
    stop(auth);
    assert_true(clock_monotonic_us() - start_us < SECOND_US);
    assert_int_equal(waiter.verdict, AUTH_BUSY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_parse_lengths),
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_hash_changes),
        cmocka_unit_test(test_wrong_do_not_push_out_right),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_same_question_is_asked_once),
        cmocka_unit_test(test_unknown_user_costs_as_much),
        cmocka_unit_test(test_stop_does_not_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
