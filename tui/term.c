/* SPDX-License-Identifier: PostgreSQL */
/* curses behind a grid and key codes. */
#include "tui/term.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <term.h>
#include <termios.h>

#include <curses.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "tui/outlet.h"

enum { ESCAPE_MS = 25, PAIRS = 3, LEAVE_SIZE = 256, PIPE_SIZE = 1024 * 1024 };

/* How long a terminal that takes nothing is waited for when it is given back. */
#define LEAVE_US (SECOND_US / 5)

struct terminal {
    SCREEN *screen;
    FILE *paint;    /* where curses draws: memory, from which the outlet takes it, or a pipe */
    int paint_from; /* the pipe's other end; -1: memory */
    WINDOW *keys;   /* a pad, which is not refreshed when a key is asked for */
    struct outlet outlet;
    struct termios ours; /* the line's settings while the terminal is taken */
    int error_aside;     /* what standard error was */
    int error_from;      /* where it is read meanwhile: memory, or a pipe */
    bool colours;
};

/* For a crash: what gives the terminal back, made ready beforehand. */
static struct {
    struct termios before;
    int fd;
    char leave[LEAVE_SIZE];
    volatile sig_atomic_t taken;
} rescue;

static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { CRASHES = sizeof crashes / sizeof *crashes };

bool term_usable(void)
{
    const char *name = getenv("TERM");
    int error = 0;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !name || !*name)
        return false;
    if (setupterm(name, STDOUT_FILENO, &error) != OK)
        return false;
    const char *move = tigetstr("cup");
    bool usable = move && move != (char *)-1;
    (void)del_curterm(cur_term);
    return usable;
}

bool term_unicode(void)
{
    return text_equal(nl_langinfo(CODESET), "UTF-8");
}

/* Nothing but what is safe in a signal handler. */
static void give_back_and_die(int number)
{
    if (rescue.taken) {
        rescue.taken = 0;
        ssize_t written = write(rescue.fd, rescue.leave, strlen(rescue.leave));
        (void)written;
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &rescue.before);
    }
    (void)raise(number); /* SA_RESETHAND: now it ends the program */
}

static void add_string(const char *capability)
{
    const char *text = tigetstr(capability);
    size_t n = strlen(rescue.leave);
    if (text && text != (char *)-1 && n + strlen(text) < LEAVE_SIZE)
        (void)snprintf(rescue.leave + n, LEAVE_SIZE - n, "%s", text);
}

static void prepare_rescue(void)
{
    struct sigaction action = {.sa_handler = give_back_and_die,
                               .sa_flags = (int)(SA_RESETHAND | SA_NODEFER)};
    rescue.leave[0] = '\0';
    add_string("sgr0");
    add_string("cnorm");
    add_string("rmkx");
    add_string("rmcup");
    for (int i = 0; i < CRASHES; i++)
        (void)sigaction(crashes[i], &action, NULL);
}

/* Memory counts as a file. */
static bool files_are_limited(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/* What is written to the one is read from the other, which never waits. */
static bool open_pipe(int *ret_to, int *ret_from)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    (void)fcntl(ends[1], F_SETPIPE_SZ, PIPE_SIZE);
    *ret_from = ends[0];
    *ret_to = ends[1];
    return true;
}

/* Standard error goes to memory: what libraries print there would tear the screen. */
static void set_error_aside(struct terminal *term)
{
    CLEANUP(close_fdp) int to = -1;
    term->error_aside = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (term->error_aside < 0)
        return;
    if (!files_are_limited()) {
        to = memfd_create("pgleader", MFD_CLOEXEC);
        term->error_from = to >= 0 ? fcntl(to, F_DUPFD_CLOEXEC, 3) : -1;
    } else if (open_pipe(&to, &term->error_from)) {
        (void)fcntl(to, F_SETFL, O_NONBLOCK); /* when it is full, the rest is lost */
    }
    if (to >= 0)
        (void)dup2(to, STDERR_FILENO);
}

/* What was said meanwhile is shown now. On a terminal that takes nothing more nobody may say
 * anything from here on. */
static void bring_error_back(const struct terminal *term, bool readable)
{
    char text[4096];
    ssize_t n = 0;
    if (term->error_aside < 0)
        return;
    bool mute = !readable && isatty(term->error_aside);
    CLEANUP(close_fdp) int nowhere = mute ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
    (void)fflush(stderr);
    (void)dup2(mute ? nowhere : term->error_aside, STDERR_FILENO);
    (void)lseek(term->error_from, 0, SEEK_SET);
    while ((n = read(term->error_from, text, sizeof text)) > 0) {
        if (write(STDERR_FILENO, text, (size_t)n) != n)
            return;
    }
}

static void start_colours(struct terminal *term)
{
    const char *no_color = getenv("NO_COLOR");
    if ((no_color && *no_color) || start_color() == ERR || use_default_colors() == ERR ||
        COLORS < 8)
        return;
    (void)init_pair(1, COLOR_RED, -1);
    (void)init_pair(2, COLOR_YELLOW, -1);
    (void)init_pair(3, COLOR_GREEN, -1);
    term->colours = true;
}

static void set_line(const struct termios *settings)
{
    (void)tcsetattr(STDIN_FILENO, TCSANOW, settings);
}

/* Without flow control Ctrl-S is a key like any other, which freezes nothing; and a terminal that
 * was stopped before goes on. */
static bool take_line(void)
{
    if (tcgetattr(STDIN_FILENO, &rescue.before) != 0)
        return false;
    struct termios settings = rescue.before;
    settings.c_iflag &= ~(tcflag_t)IXON;
    set_line(&settings);
    return true;
}

/* Where curses never waits for the terminal. */
static void paint_aside(struct terminal *term, int fd)
{
    CLEANUP(close_fdp) int to = -1;
    if (!files_are_limited())
        to = memfd_create("pgleader", MFD_CLOEXEC);
    else
        (void)open_pipe(&to, &term->paint_from);
    if (to >= 0)
        (void)dup3(to, fd, O_CLOEXEC);
}

/* curses asks its file for the line's settings, and writes to it, however long that takes. So the
 * file is the terminal first, and memory once the settings are made. */
static bool start_curses(struct terminal *term)
{
    int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    term->paint = fd >= 0 ? fdopen(fd, "w") : NULL;
    term->screen = term->paint ? newterm(NULL, term->paint, stdin) : NULL;
    if (!term->screen)
        return false;
    (void)cbreak();
    (void)noecho();
    (void)nonl();
    (void)tcgetattr(STDIN_FILENO, &term->ours);
    paint_aside(term, fd);
    return true;
}

static void release(struct terminal *term)
{
    const int asides[] = {term->paint_from, term->error_from, term->error_aside};
    if (term->screen)
        delscreen(term->screen);
    if (term->paint)
        (void)fclose(term->paint);
    for (size_t i = 0; i < sizeof asides / sizeof *asides; i++) {
        if (asides[i] >= 0)
            (void)close(asides[i]);
    }
    outlet_close(&term->outlet);
    free(term);
}

bool term_open(struct terminal **ret_term, struct error *err)
{
    if (!take_line())
        return error_set_errno(err, errno, "could not take the terminal");
    struct terminal *term = xcalloc(1, sizeof *term);
    term->paint_from = term->error_from = term->error_aside = -1;
    outlet_open(&term->outlet, STDOUT_FILENO);
    if (!start_curses(term)) {
        set_line(&rescue.before);
        release(term);
        return error_set(err, ERROR_SYSTEM, "could not take the terminal: TERM=%s is not known",
                         getenv("TERM"));
    }
    rescue.fd = term->outlet.fd;
    rescue.taken = 1;
    prepare_rescue();
    set_error_aside(term);
    (void)intrflush(stdscr, FALSE);
    (void)typeahead(-1); /* a picture is always whole */
    term->keys = newpad(1, 1);
    (void)keypad(term->keys, TRUE);
    (void)nodelay(term->keys, TRUE);
    (void)set_escdelay(ESCAPE_MS);
    (void)curs_set(0);
    start_colours(term);
    *ret_term = term;
    return true;
}

static void take_paint(struct terminal *term)
{
    if (term->paint_from >= 0)
        outlet_take_pipe(&term->outlet, term->paint_from);
    else
        outlet_take(&term->outlet, fileno(term->paint));
}

static void send_paint(struct terminal *term)
{
    take_paint(term);
    (void)outlet_flush(&term->outlet);
}

/* Where there is no other screen to leave, as on the console, the picture stays: the shell gets its
 * last line empty. */
static void clear_last_line(void)
{
    const char *leave = tigetstr("rmcup");
    if (leave && leave != (char *)-1)
        return;
    (void)move(LINES - 1, 0);
    (void)clrtoeol();
    (void)refresh();
}

/* False: the terminal does not take what would put it right. */
static bool give_back(struct terminal *term)
{
    clear_last_line();
    (void)endwin(); /* shows the cursor, and the next refresh hides it again */
    send_paint(term);
    bool taken = outlet_drain(&term->outlet, LEAVE_US);
    set_line(&rescue.before);
    rescue.taken = 0;
    return taken;
}

void term_close(struct terminal *term)
{
    if (!term)
        return;
    bool taken = give_back(term);
    bring_error_back(term, taken);
    release(term);
}

void term_size(const struct terminal *term, int *ret_width, int *ret_height)
{
    (void)term;
    struct winsize size = {0};
    *ret_width = COLS;
    *ret_height = LINES;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
        *ret_width = size.ws_col;
        *ret_height = size.ws_row;
    }
}

void term_resize(struct terminal *term)
{
    int width = 0, height = 0;
    term_size(term, &width, &height);
    (void)resizeterm(height, width);
    (void)clearok(stdscr, TRUE);
}

void term_redraw(struct terminal *term)
{
    (void)term;
    (void)clearok(stdscr, TRUE);
}

static attr_t attributes(unsigned attr)
{
    attr_t out = A_NORMAL;
    if (attr & GRID_BOLD)
        out |= A_BOLD;
    if (attr & GRID_DIM)
        out |= A_DIM;
    if (attr & GRID_REVERSE)
        out |= A_REVERSE;
    if (attr & GRID_UNDERLINE)
        out |= A_UNDERLINE;
    return out;
}

static short colour(const struct terminal *term, unsigned attr)
{
    if (!term->colours)
        return 0;
    return (short)(attr & GRID_RED ? 1 : attr & GRID_YELLOW ? 2 : attr & GRID_GREEN ? 3 : 0);
}

static void put_row(const struct terminal *term, const struct grid *grid, int row)
{
    const struct cell *cells = &grid->cells[(size_t)row * (size_t)grid->width];
    for (int column = 0; column < grid->width; column++) {
        const struct cell *cell = &cells[column];
        cchar_t out;
        if (!cell->text[0] || (cell->text[0] == L' ' && !cell->text[1] && !cell->attr))
            continue;
        (void)setcchar(&out, cell->text, attributes(cell->attr), colour(term, cell->attr), NULL);
        (void)mvadd_wch(row, column, &out);
    }
}

static void paint(struct terminal *term)
{
    (void)refresh();
    take_paint(term);
}

/* A pipe that is full would be waited for, and nobody empties it meanwhile: row by row. */
static void draw_by_rows(struct terminal *term, const struct grid *grid)
{
    if (is_cleared(stdscr)) {
        (void)erase();
        paint(term);
    }
    for (int row = 0; row < grid->height; row++) {
        (void)move(row, 0);
        (void)clrtoeol();
        put_row(term, grid, row);
        paint(term);
    }
}

void term_draw(struct terminal *term, const struct grid *grid)
{
    if (term->paint_from >= 0) {
        draw_by_rows(term, grid);
    } else {
        (void)erase();
        for (int row = 0; row < grid->height; row++)
            put_row(term, grid, row);
        (void)refresh();
    }
    send_paint(term);
}

int term_busy(struct terminal *term)
{
    return outlet_flush(&term->outlet) ? -1 : term->outlet.fd;
}

static int translate(wint_t key)
{
    static const struct {
        int curses, code;
    } keys[] = {
        {KEY_UP, CODE_UP},         {KEY_DOWN, CODE_DOWN},
        {KEY_LEFT, CODE_LEFT},     {KEY_RIGHT, CODE_RIGHT},
        {KEY_PPAGE, CODE_PAGE_UP}, {KEY_NPAGE, CODE_PAGE_DOWN},
        {KEY_HOME, CODE_HOME},     {KEY_END, CODE_END},
        {KEY_ENTER, CODE_ENTER},   {KEY_F(1), CODE_F1},
        {KEY_F(4), CODE_F4},       {KEY_F(6), CODE_F6},
        {KEY_F(5), CODE_F5},       {KEY_F(9), CODE_F9},
        {KEY_F(10), CODE_F10},     {KEY_BACKSPACE, CODE_BACKSPACE},
        {KEY_BTAB, CODE_BACKTAB},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if ((wint_t)keys[i].curses == key)
            return keys[i].code;
    }
    return CODE_NONE;
}

int term_key(struct terminal *term)
{
    wint_t key = 0;
    int kind = 0;
    do {
        kind = wget_wch(term->keys, &key);
    } while (kind == KEY_CODE_YES && translate(key) == CODE_NONE);
    if (kind == ERR)
        return CODE_NONE;
    if (kind == KEY_CODE_YES)
        return translate(key);
    if (key == L'\r' || key == L'\n')
        return CODE_ENTER;
    return key == 0x7F || key == 0x08 ? CODE_BACKSPACE : (int)key;
}

void term_send(struct terminal *term, const char *sequence)
{
    outlet_add(&term->outlet, sequence, strlen(sequence));
    (void)outlet_flush(&term->outlet);
}

void term_forget_keys(struct terminal *term)
{
    (void)term;
    (void)tcflush(STDIN_FILENO, TCIFLUSH);
    (void)flushinp(); /* what curses has read already */
}

void term_suspend(struct terminal *term)
{
    (void)give_back(term);
    (void)raise(SIGSTOP);
}

void term_resume(struct terminal *term)
{
    set_line(&term->ours);
    rescue.taken = 1;
    (void)keypad(term->keys, TRUE);
    term_resize(term);
}
