/* SPDX-License-Identifier: PostgreSQL */
/* What the service manager hears, and that nothing happens where there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/notify.h"

/* A service manager's socket, under a name of its own that needs no file. */
static int listen_as_manager(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[64];
    int length = snprintf(name, sizeof name, "@pgleader-test-%d", (int)getpid());
    memcpy(address.sun_path + 1, name + 1, (size_t)length - 1);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)length);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
    return fd;
}

static void say_everything(void)
{
    notify_ready();
    notify_status("%d of %d servers up,\n%s", 2, 3, "READY=");
    notify_watchdog();
    notify_reloading();
    notify_stopping();
}

static void test_messages(void **state)
{
    (void)state;
    static const char *const wanted[] = {"READY=1",
                                         "STATUS=2 of 3 servers up, READY=", "WATCHDOG=1",
                                         "RELOADING=1\nMONOTONIC_USEC=", "STOPPING=1"};
    char message[256];
    int fd = listen_as_manager();
    say_everything();
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        ssize_t size = recv(fd, message, sizeof message - 1, 0);
        assert_true(size > 0);
        message[size] = '\0';
        char *number = strstr(message, "USEC=");
        if (number)
            number[strlen("USEC=")] = '\0';
        assert_string_equal(message, wanted[i]);
    }
    assert_int_equal(recv(fd, message, sizeof message, 0), -1);
    (void)close(fd);
}

/* Neither no manager nor one that is gone is an error. */
static void test_nobody_listens(void **state)
{
    (void)state;
    say_everything(); /* the socket of the test before is closed */
    (void)unsetenv("NOTIFY_SOCKET");
    say_everything();
    assert_int_equal(notify_watchdog_interval_us(), 0);
}

static void test_watchdog_interval(void **state)
{
    (void)state;
    char pid[16];
    (void)setenv("WATCHDOG_USEC", "30000000", 1);
    assert_int_equal(notify_watchdog_interval_us(), 15 * SECOND_US);
    (void)setenv("WATCHDOG_PID", "1", 1); /* meant for another process */
    assert_int_equal(notify_watchdog_interval_us(), 0);
    (void)snprintf(pid, sizeof pid, "%d", (int)getpid());
    (void)setenv("WATCHDOG_PID", pid, 1);
    assert_int_equal(notify_watchdog_interval_us(), 15 * SECOND_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_watchdog_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
