/* SPDX-License-Identifier: PostgreSQL */
/* A program on a terminal that is known cell by cell, by libvterm. For tests of what a person sees.
 *
 *   vterm_harness ROWS COLUMNS COMMAND [ARGUMENT]...
 *
 * It reads commands from standard input, one a line, and answers each by a line:
 *
 *   keys HEX           what a person types, in hexadecimal
 *   size ROWS COLUMNS  another size
 *   hold, read         the terminal takes nothing any more, and goes on
 *   hang-up            the terminal goes away
 *   look               all that is known, as a JSON object
 *
 * The command is killed at the end of standard input. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <utmp.h>
#include <vterm.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"

enum { FD_COMMANDS, FD_CHILD, FD_TERMINAL, FDS };

/* What a cell looks like, as one number; a colour stands above these. */
enum { CELL_BOLD = 1, CELL_UNDERLINE = 2, CELL_REVERSE = 4, CELL_BACKGROUND = 8, CELL_COLOUR = 16 };

struct harness {
    VTerm *vterm;
    VTermScreen *screen;
    int rows, columns;
    int master; /* -1: hung up */
    bool held;
    bool visible, alternate;
    VTermPos cursor;
    struct termios before;
    pid_t pid;
    bool stopped, ended;
    int status; /* as a shell shows it */
    int64_t ended_us, cpu_us;
};

static int set_property(VTermProp property, VTermValue *value, void *context)
{
    struct harness *harness = context;
    if (property == VTERM_PROP_CURSORVISIBLE)
        harness->visible = value->boolean;
    if (property == VTERM_PROP_ALTSCREEN)
        harness->alternate = value->boolean;
    return 1;
}

static int move_cursor(VTermPos to, VTermPos from, int visible, void *context)
{
    (void)from;
    (void)visible;
    ((struct harness *)context)->cursor = to;
    return 1;
}

static void open_screen(struct harness *harness)
{
    static const VTermScreenCallbacks callbacks = {.movecursor = move_cursor,
                                                   .settermprop = set_property};
    harness->vterm = vterm_new(harness->rows, harness->columns);
    harness->screen = vterm_obtain_screen(harness->vterm);
    vterm_set_utf8(harness->vterm, 1);
    vterm_screen_enable_altscreen(harness->screen, 1);
    vterm_screen_set_callbacks(harness->screen, &callbacks, harness);
    vterm_screen_reset(harness->screen, 1);
}

static void die(const char *what)
{
    (void)fprintf(stderr, "vterm_harness: could not %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

static void start(struct harness *harness, char **argv)
{
    int slave = -1;
    struct winsize size = {.ws_row = (unsigned short)harness->rows,
                           .ws_col = (unsigned short)harness->columns};
    if (openpty(&harness->master, &slave, NULL, NULL, &size) != 0 ||
        tcgetattr(slave, &harness->before) != 0)
        die("open a terminal");
    harness->pid = fork();
    if (harness->pid < 0)
        die("fork");
    if (harness->pid == 0) {
        sigset_t none;
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)close(harness->master);
        if (login_tty(slave) == 0)
            (void)execvp(argv[0], argv);
        _exit(127);
    }
    (void)close(slave);
    (void)fcntl(harness->master, F_SETFL, O_NONBLOCK);
    (void)fcntl(harness->master, F_SETFD, FD_CLOEXEC);
}

/* Everything that the program has written so far. */
static void read_terminal(struct harness *harness)
{
    char bytes[65536];
    ssize_t n = 0;
    while (harness->master >= 0 && !harness->held &&
           (n = read(harness->master, bytes, sizeof bytes)) > 0)
        (void)vterm_input_write(harness->vterm, bytes, (size_t)n);
    vterm_screen_flush_damage(harness->screen);
}

static void read_child(struct harness *harness, int signals)
{
    struct signalfd_siginfo info;
    struct rusage used;
    int status = 0;
    while (read(signals, &info, sizeof info) == (ssize_t)sizeof info)
        continue;
    while (!harness->ended &&
           wait4(harness->pid, &status, WNOHANG | WUNTRACED | WCONTINUED, &used) > 0) {
        harness->stopped = WIFSTOPPED(status);
        harness->ended = WIFEXITED(status) || WIFSIGNALED(status);
        harness->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        harness->ended_us = clock_monotonic_us();
        harness->cpu_us = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * SECOND_US +
                          used.ru_utime.tv_usec + used.ru_stime.tv_usec;
    }
}

static void print_character(uint32_t point)
{
    static const unsigned char heads[] = {0, 0xC0, 0xE0, 0xF0};
    int more = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    if (point == '"' || point == '\\')
        (void)putchar('\\');
    (void)putchar((int)(heads[more] | point >> (6 * more)));
    while (more-- > 0)
        (void)putchar((int)(0x80 | (point >> (6 * more) & 0x3F)));
}

/* The right half of a wide character is an empty cell. */
static void print_text(const VTermScreenCell *cell)
{
    (void)putchar('"');
    if (!cell->chars[0])
        (void)putchar(' ');
    for (int i = 0; i < VTERM_MAX_CHARS_PER_CELL; i++) {
        if (!cell->chars[i] || cell->chars[i] == UINT32_MAX)
            break;
        print_character(cell->chars[i]);
    }
    (void)putchar('"');
}

static void print_look(const VTermScreenCell *cell)
{
    int look = (cell->attrs.bold ? CELL_BOLD : 0) | (cell->attrs.underline ? CELL_UNDERLINE : 0) |
               (cell->attrs.reverse ? CELL_REVERSE : 0);
    if (!VTERM_COLOR_IS_DEFAULT_BG(&cell->bg))
        look |= CELL_BACKGROUND;
    if (!VTERM_COLOR_IS_DEFAULT_FG(&cell->fg))
        look |= CELL_COLOUR *
                (VTERM_COLOR_IS_INDEXED(&cell->fg) ? 1 + cell->fg.indexed.idx : 1 + UINT8_MAX);
    (void)printf("%d", look);
}

/* A list of rows, each a list of what print() says of a cell. */
static void print_cells(const struct harness *harness, const char *name,
                        void (*print)(const VTermScreenCell *cell))
{
    (void)printf("\"%s\":[", name);
    for (int row = 0; row < harness->rows; row++) {
        (void)printf("%s[", row ? "," : "");
        for (int column = 0; column < harness->columns; column++) {
            VTermScreenCell cell = {0};
            (void)vterm_screen_get_cell(harness->screen, (VTermPos){row, column}, &cell);
            if (column)
                (void)putchar(',');
            print(&cell);
        }
        (void)putchar(']');
    }
    (void)fputs("],", stdout);
}

static void print_line(const char *name, const struct termios *line)
{
    (void)printf("\"%s\":[%u,%u,%u,%u,\"", name, line->c_iflag, line->c_oflag, line->c_cflag,
                 line->c_lflag);
    for (int i = 0; i < NCCS; i++)
        (void)printf("%02x", line->c_cc[i]);
    (void)fputs("\"],", stdout);
}

static const char *boolean(bool value)
{
    return value ? "true" : "false";
}

static void look(const struct harness *harness)
{
    struct termios now;
    (void)putchar('{');
    print_cells(harness, "cells", print_text);
    print_cells(harness, "looks", print_look);
    print_line("before", &harness->before);
    if (harness->master >= 0 && tcgetattr(harness->master, &now) == 0)
        print_line("line", &now);
    (void)printf("\"cursor\":[%d,%d],\"visible\":%s,\"alternate\":%s,\"stopped\":%s,",
                 harness->cursor.row, harness->cursor.col, boolean(harness->visible),
                 boolean(harness->alternate), boolean(harness->stopped));
    if (harness->ended)
        (void)printf("\"status\":%d,\"ended\":%.6f,\"cpu\":%.6f,", harness->status,
                     (double)harness->ended_us / SECOND_US, (double)harness->cpu_us / SECOND_US);
    (void)printf("\"pid\":%d}\n", (int)harness->pid);
}

static void type(const struct harness *harness, const char *hex)
{
    for (; hex[0] && hex[1]; hex += 2) {
        char digits[] = {hex[0], hex[1], '\0'};
        char key = (char)strtol(digits, NULL, 16);
        if (write(harness->master, &key, 1) != 1)
            die("type");
    }
}

static void resize(struct harness *harness, const char *words)
{
    char *end = NULL;
    long rows = strtol(words, &end, 10), columns = strtol(end, NULL, 10);
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    harness->rows = size.ws_row;
    harness->columns = size.ws_col;
    vterm_set_size(harness->vterm, harness->rows, harness->columns);
    (void)ioctl(harness->master, TIOCSWINSZ, &size);
}

static void obey(struct harness *harness, char *command)
{
    char *words = command + strcspn(command, " ");
    words += *words == ' ';
    if (text_equal(command, "look")) {
        look(harness);
        return;
    }
    if (strncmp(command, "keys ", 5) == 0) {
        type(harness, words);
    } else if (strncmp(command, "size ", 5) == 0) {
        resize(harness, words);
    } else if (text_equal(command, "hang-up")) {
        (void)close(harness->master);
        harness->master = -1;
    } else {
        harness->held = text_equal(command, "hold");
    }
    (void)puts("ok");
}

/* False at the end of standard input. */
static bool read_command(struct harness *harness)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n = getline(&line, &room, stdin);
    if (n > 0) {
        line[strcspn(line, "\n")] = '\0';
        obey(harness, line);
        (void)fflush(stdout);
    }
    free(line);
    return n > 0;
}

static void run(struct harness *harness, int signals)
{
    for (;;) {
        bool reads = harness->master >= 0 && !harness->held && !harness->ended;
        struct pollfd fds[FDS] = {
            [FD_COMMANDS] = {.fd = STDIN_FILENO, .events = POLLIN},
            [FD_CHILD] = {.fd = signals, .events = POLLIN},
            [FD_TERMINAL] = {.fd = reads ? harness->master : -1, .events = POLLIN},
        };
        if (poll(fds, FDS, -1) < 0)
            continue;
        if (fds[FD_CHILD].revents)
            read_child(harness, signals);
        read_terminal(harness);
        if (fds[FD_COMMANDS].revents && !read_command(harness))
            return;
    }
}

int main(int argc, char **argv)
{
    struct harness harness = {.visible = true};
    sigset_t child;
    if (argc < 4)
        return EXIT_FAILURE;
    (void)setvbuf(stdin, NULL, _IONBF, 0); /* else poll(2) would not know of a second line */
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &child, NULL);
    int signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    harness.rows = (int)strtol(argv[1], NULL, 10);
    harness.columns = (int)strtol(argv[2], NULL, 10);
    open_screen(&harness);
    start(&harness, argv + 3);
    run(&harness, signals);
    if (!harness.ended) {
        (void)kill(harness.pid, SIGKILL);
        (void)waitpid(harness.pid, NULL, 0);
    }
    vterm_free(harness.vterm);
    return EXIT_SUCCESS;
}
