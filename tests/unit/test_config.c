/* SPDX-License-Identifier: PostgreSQL */
/* What every mistake in a configuration file is answered with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "observe/config_schema.h"

#define SERVER "servers: [{name: a, conninfo: \"\"}]\n"
#define TWO "servers: [{name: a, conninfo: \"\"}, {name: b, conninfo: \"\"}]\n"
#define DUTY(rest) SERVER "duties:\n- {duty: a/b, " rest "}\n"
#define LOCK(key) DUTY("lock: " key)
#define LEASE(rest) DUTY("lease: {" rest "}")

/* Each problem must begin as its line in `want` does, after the file's name; "" for a right file.
 */
static const struct {
    const char *yaml;
    const char *want;
} rows[] = {
    /* the file as YAML */
    {"", "1: could not find a setting: the file is empty"},
    {"# nothing\n\n", "1: could not find a setting: the file is empty"},
    {"~\n", "1: could not find a setting: the file is empty"},
    {"just words\n", "1: could not read the file: a map is wanted here, not a single value"},
    {"- a\n", "1: could not read the file: a map is wanted here, not a list"},
    {"a: b: c\n", "1: could not read the file past this line: it is not YAML"},
    {SERVER "poll:\n\tinterval: 1s\n",
     "3: could not read the file past this line: it is not YAML: tab character may not be used as "
     "indentation; check"},
    {SERVER "poll: {interval: 1s\n",
     "3: could not read the file past this line: it is not YAML: missing comma in flow mapping, "
     "in the map that begins on line 2; check"},
    {SERVER "poll: \"1s\n", "2: could not read the file past this line: it is not YAML"},
    {SERVER "poll: *fast\n", "2: could not follow an alias (*): aliases are not supported"},
    {SERVER "*a : 1\n", "2: could not follow an alias (*)"},
    {SERVER "poll: &fast {interval: 1s}\n", ""},
    {SERVER "poll:\n  <<: {interval: 1s}\n", "3: could not merge: merge keys (<<)"},
    {SERVER "poll: !!map {interval: 1s}\n", "2: could not apply a tag (!)"},
    {SERVER "? [a]\n: b\n", "2: could not read the file past this line: a map or a list is no key"},
    {SERVER "---\n" SERVER, "2: could not read the file past this line: a second document"},
    {"--- \n" SERVER "...\n", ""},
    {"\xEF\xBB\xBF" SERVER, ""},
    {"servers: [{name: a, conninfo: \"\"}]\r\npoll: {interval: 1s}\r\n", ""},
    {SERVER "a: \xFF\n", "2: could not read the file: a byte on this line is not UTF-8"},
    {SERVER "a: \"\\0\"\n", "2: could not read the text: an escape in it stands for a NUL"},
    {DUTY("lock: 1, team: 'a''b'''"), ""},
    {SERVER "duties:\n- duty: a/b\n  lock: 1\n  team: 'x <> '''' '\n",
     "5: could not read the text: '''' within single quotes is read wrongly by some versions"},
    {"[[[[[[[[[[[[[[[[[[[[", "1: could not read the file past this line: it nests deeper than 16"},

    /* keys */
    {SERVER "polls: {interval: 1s}\n",
     "2: could not use \"polls\": the file has no such key; did you mean poll?"},
    {SERVER "polling: {interval: 1s}\n",
     "2: could not use \"polling\": the file has no such key; it has servers, duties, discovery, "
     "poll"},
    {DUTY("lock: 1, stall_afer: 5m"),
     "3: could not use \"stall_afer\": a duty has no such key; did you mean stall_after?"},
    {DUTY("lokc: 1"), "3: could not read a duty: it has neither \"lock\" nor \"lease\"\n"
                      "3: could not use \"lokc\": a duty has no such key; did you mean lock?"},
    {SERVER "poll: {interval: 1s}\npoll: {interval: 2s}\n",
     "3: could not use \"poll\" again: it stands on line 2 already; remove one"},
    {SERVER "poll:\n", "2: could not read \"poll\": it has no value; write {interval: 1s}"},
    {SERVER "poll: 1s\n", "2: could not read poll: a map is wanted here, not a single value"},
    {SERVER "poll: [1s]\n", "2: could not read poll: a map is wanted here, not a list"},

    /* values by their type */
    {SERVER "poll: {interval: 100ms}\n", ""},
    {SERVER "poll: {interval: \"15s\"}\n", ""},
    {SERVER "poll: {interval: 99ms}\n", "2: could not read \"interval\": \"99ms\" is out of range; "
                                        "write a duration from 100ms to 15s"},
    {SERVER "poll: {interval: 16s}\n", "2: could not read \"interval\": \"16s\" is out of range"},
    {SERVER "poll: {interval: 1}\n", "2: could not read \"interval\": \"1\" has no unit"},
    {SERVER "poll: {interval: -1s}\n", "2: could not read \"interval\": \"-1s\" is not a duration"},
    {SERVER "poll: {interval: 1 s}\n", "2: could not read \"interval\": \"1 s\" is not a duration"},
    {SERVER "poll: {interval: {}}\n", "2: could not read \"interval\": it is a map"},
    {SERVER "poll: {interval: 99999999999999999999s}\n", "2: could not read \"interval\""},
    {SERVER "discovery: {enabled: false, after: 0, limit: 10000}\n", ""},
    {SERVER "discovery: {enabled: yes}\n",
     "2: could not read \"enabled\": \"yes\" is neither true nor false; write true or false"},
    {SERVER "discovery: {enabled: \"true\"}\n",
     "2: could not read \"enabled\": \"true\" is text, because of its quotes"},
    {SERVER "discovery: {after: 36500000d}\n", "2: could not read \"after\": \"36500000d\" is out"},
    {SERVER "discovery: {limit: 0}\n", "2: could not read \"limit\": \"0\" is out of range"},
    {SERVER "discovery: {limit: 5.0}\n", "2: could not read \"limit\": \"5.0\" is not a whole"},
    {SERVER "discovery: {limit: 1e3}\n", "2: could not read \"limit\": \"1e3\" is not a whole"},
    {SERVER "discovery: {limit: 1_000}\n", "2: could not read \"limit\": \"1_000\" is not a whole"},
    {SERVER "discovery: {limit: \"50\"}\n", "2: could not read \"limit\": \"50\" is text, because"},
    {SERVER "discovery: {limit: 0x10}\n", "2: could not read \"limit\": \"0x10\" is not a whole"},
    {SERVER "discovery: {limit: 99999999999}\n", "2: could not read \"limit\": \"99999999999\" is"},
    {DUTY("lock: 1, min_candidates: 0"), "3: could not read \"min_candidates\": \"0\" is out of"},
    {DUTY("lock: 1, stall_after: 0"), "3: could not read \"stall_after\": \"0\" is out of range"},
    {DUTY("lock: 1, team: \"\""), "3: could not read \"team\": it is empty; write the name of"},
    {DUTY("lock: 1, team: null"), "3: could not read \"team\": it has no value; write"},
    {DUTY("lock: 1, team: \"null\""), ""},
    {DUTY("lock: 1, team: [x]"), "3: could not read \"team\": it is a list; write"},
    {DUTY("lock: 1, alerts_paused_until: 2026-01-15T06:00:00Z"), ""},
    {DUTY("lock: 1, alerts_paused_until: \"2026-01-15 06:00 +0530\""), ""},
    {DUTY("lock: 1, alerts_paused_until: 2026-01-15T06:00:00"),
     "3: could not read \"alerts_paused_until\": \"2026-01-15T06:00:00\" has no time zone; write a "
     "date, a time and a zone, like 2026-12-24T18:00:00Z"},
    {DUTY("lock: 1, alerts_paused_until: 2026-01-15"),
     "3: could not read \"alerts_paused_until\": \"2026-01-15\" is not a date and time"},
    {DUTY("lock: 1, alerts_paused_until: 2026-02-30T00:00Z"),
     "3: could not read \"alerts_paused_until\": \"2026-02-30T00:00Z\" is a day that no calendar"},
    {DUTY("lock: 1, alerts_paused_until: 2026-01-15T25:00Z"),
     "3: could not read \"alerts_paused_until\": \"2026-01-15T25:00Z\" is not a date and time"},
    {DUTY("lock: 1, alerts_paused_until: 2026-01-15T06:00+1:0"),
     "3: could not read \"alerts_paused_until\": \"2026-01-15T06:00+1:0\" is not a date and time"},

    /* servers */
    {"servers: []\n", "1: could not find a server: the list is empty"},
    {"servers:\n", "1: could not read \"servers\": it has no value"},
    {"servers: a\n", "1: could not read \"servers\": a list is wanted here, not a single value"},
    {"servers:\n- a\n", "2: could not read a server: a map is wanted here, not a single value"},
    {"servers:\n- ~\n", "2: could not read a server: a map is wanted here, not nothing"},
    {"servers:\n- name: a\n", "2: could not read a server: \"conninfo\" is missing; write host="},
    {"servers:\n- name: a\n  conninfo: 5\n",
     "3: could not read \"conninfo\": it is not what libpq"},
    {"servers:\n- name: a\n  conninfo: \"host=x\"\n  expect: master\n",
     "4: could not read \"expect\": \"master\" is none of the words that stand here; write "
     "primary, standby or any"},
    {"servers:\n- {name: a, conninfo: \"\"}\n- {name: a, conninfo: host=x}\n",
     "3: could not add the server \"a\": the one on line 2 has the same name; write another name:"},
    {"servers:\n- conninfo: host=x dbname=d\n- conninfo: dbname=d host=x\n",
     "3: could not add the server \"x:5432/d\": the one on line 2 has the same name"},
    {"servers:\n- {name: \"postgresql://u:p@h/d\", conninfo: \"\"}\n",
     "2: could not read \"name\": it looks like a connection string"},
    {"servers:\n- {name: \"a\\nb\", conninfo: \"\"}\n", "2: could not read \"name\": it holds a"},
    {"servers:\n- {name: a, conninfo: \"\", duties: {}}\n",
     "2: could not read \"duties\": a list is wanted here, not a map"},

    /* duties */
    {SERVER "duties: []\n", ""},
    {SERVER "duties:\n- jobs/a\n", "3: could not read a duty: a map is wanted here"},
    {SERVER "duties:\n- lock: 1\n", "3: could not read a duty: \"duty\" is missing; write name"},
    {SERVER "duties:\n- {duty: ab, lock: 1}\n",
     "3: could not read \"duty\": \"ab\" is not the name of a duty; write namespace/name"},
    {SERVER "duties:\n- {duty: A/b, lock: 1}\n", "3: could not read \"duty\": \"A/b\" is not"},
    {SERVER "duties:\n- {duty: a/b/c, lock: 1}\n", "3: could not read \"duty\": \"a/b/c\" is not"},
    {DUTY("lock: 1, lease: {table: t, row: r}"),
     "3: could not use \"lease\" beside \"lock\" (line 3): a duty is elected by one of them"},
    {SERVER "duties:\n- duty: a/b\n", "3: could not read a duty: it has neither \"lock\" nor"},
    {SERVER "duties:\n- {duty: a/b, lock: 1}\n- {duty: a/b, lock: 2}\n",
     "4: could not add the duty \"a/b\" to \"a\": it is there already, by line 3; remove one"},
    {SERVER "duties:\n- {duty: a/b, lock: 1}\n- {duty: a/c, lock: [0, 1]}\n", ""},
    {SERVER "duties:\n- {duty: a/b, lock: -7}\n- {duty: a/c, lock: -7}\n",
     "4: could not add the duty \"a/c\" to \"a\": its lock -7 is also that of \"a/b\" on line 3; "
     "every duty needs one of its own"},
    {SERVER "duties:\n- {duty: a/b, lock: [1, -7]}\n- {duty: a/c, lock: [1, -7]}\n",
     "4: could not add the duty \"a/c\" to \"a\": its lock 1,-7 is also that of \"a/b\" on line 3"},
    {SERVER "duties:\n- {duty: a/b, lease: {table: t, row: r}}\n"
            "- {duty: a/c, lease: {table: t, row: s}}\n"
            "- {duty: a/d, lease: {table: t, row: r}}\n",
     "5: could not add the duty \"a/d\" to \"a\": its lease is also that of \"a/b\" on line 3"},
    {"servers:\n- {name: a, conninfo: \"\", duties: [{duty: a/b, lock: 1}]}\n"
     "- {name: b, conninfo: \"\", duties: [{duty: a/b, lock: 1}]}\n",
     ""},
    {"servers:\n- {name: a, conninfo: \"\", duties: [{duty: a/b, lock: 1, servers: [a]}]}\n",
     "2: could not use \"servers\": the duty stands below its server already"},
    {TWO "duties:\n- {duty: a/b, lock: 1}\n",
     "3: could not place a duty: there are 2 servers; write servers: [a], or move the duty below"},
    {TWO "duties:\n- {duty: a/b, lock: 1, servers: [b, a]}\n", ""},
    {TWO "duties:\n- {duty: a/b, lock: 1, servers: []}\n",
     "3: could not place a duty: its list of servers is empty"},
    {TWO "duties:\n- {duty: a/b, lock: 1, servers: a}\n",
     "3: could not read \"servers\": a list is wanted here, not a single value"},
    {TWO "duties:\n- duty: a/b\n  lock: 1\n  servers: [a, c]\n",
     "5: could not put the duty on \"c\": no server has that name"},
    {TWO "duties:\n- {duty: a/b, lock: 1, servers: [a, a]}\n",
     "3: could not put the duty \"a/b\" on \"a\" twice"},
    {"servers:\n- {name: a, conninfo: \"\", duties: [{duty: a/b, lock: 1}]}\nduties:\n"
     "- {duty: a/c, lock: 1}\n",
     "4: could not add the duty \"a/c\" to \"a\": its lock 1 is also that of \"a/b\" on line 2"},

    /* locks */
    {LOCK("9223372036854775807"), ""},
    {LOCK("-9223372036854775808"), ""},
    {LOCK("9223372036854775808"), "3: could not read \"lock\": \"9223372036854775808\" is out of "
                                  "range; write an int8 like 742118"},
    {LOCK("-9223372036854775809"), "3: could not read \"lock\": \"-9223372036854775809\" is out"},
    {LOCK("1.0"), "3: could not read \"lock\": \"1.0\" is not a whole number in decimal digits"},
    {LOCK("\"742118\""), "3: could not read \"lock\": \"742118\" is text, because of its quotes"},
    {LOCK("010"), "3: could not read \"lock\": \"010\" begins with a zero"},
    {SERVER "duties:\n- duty: a/b\n  lock: 12,-7\n",
     "4: could not read \"lock\": \"12,-7\" is not a whole number in decimal digits; write an int8 "
     "like 742118, two int4 like [12, -7], or {derive: v1, environment: prod}"},
    {LOCK("[-2147483648, 2147483647]"), ""},
    {LOCK("[1]"), "3: could not read \"lock\": the list has 1 items; write two whole numbers"},
    {LOCK("[1, 2, 3]"), "3: could not read \"lock\": the list has 3 items"},
    {LOCK("[1, 2147483648]"), "3: could not read \"lock\": \"2147483648\" is out of range"},
    {LOCK("[-2147483649, 2]"), "3: could not read \"lock\": \"-2147483649\" is out of range"},
    {LOCK("[a, [b]]"), "3: could not read \"lock\": \"a\" is not a whole number\n"
                       "3: could not read \"lock\": it is not a number"},
    {LOCK("{derive: v1, environment: prod}"), ""},
    {LOCK("{derive: v2, environment: prod}"), "3: could not derive the lock: version \"v2\" is"},
    {LOCK("{derive: v1}"), "3: could not read a derived lock: \"environment\" is missing"},
    {LOCK("{}"), "3: could not read a derived lock: \"derive\" is missing; write v1\n"
                 "3: could not read a derived lock: \"environment\" is missing"},

    /* leases and progress */
    {LEASE("table: public.leader_lease, row: r"), ""},
    {LEASE("table: \"\\\"Odd \\\"\\\".name\\\".t\", row: 5, acquired_column: a$1"), ""},
    {LEASE("table: t"), "3: could not read a lease: \"row\" is missing"},
    {LEASE("table: \"t; drop table t\", row: r"),
     "3: could not read \"table\": \"t; drop table t\" is not the name of a table; write"},
    {LEASE("table: a.b.c, row: r"), "3: could not read \"table\": \"a.b.c\" is not the name of a"},
    {LEASE("table: t, row: r, holder_column: a.b"),
     "3: could not read \"holder_column\": \"a.b\" is not the name of a column"},
    {LEASE("table: t, row: r, expires_column: 1x"), "3: could not read \"expires_column\""},
    {DUTY("lock: 1, progress: {table: t, column: c, where: \"x = '1'\"}"), ""},
    {DUTY("lock: 1, progress: {table: t}"), "3: could not read progress: \"column\" is missing"},
    {DUTY("lock: 1, progress: t"), "3: could not read progress: a map is wanted here"},

    /* every mistake at once, in the order of the lines */
    {TWO "polls: 1\nduties:\n- {duty: a/b, lock: x}\n- {duty: a/b, lock: 1, servers: [c]}\n"
         "discovery: {limit: many}\n",
     "2: could not use \"polls\"\n"
     "4: could not place a duty\n"
     "4: could not read \"lock\"\n"
     "5: could not put the duty on \"c\"\n"
     "6: could not read \"limit\": \"many\" is not a whole number"},
};

static void print_problems(const struct problems *problems)
{
    for (size_t i = 0; i < problems->n; i++)
        print_error("  %s\n", problems->items[i]);
}

/* True if the problems are those of want, one a line, each the beginning of one. */
static bool problems_match(const struct problems *problems, const char *want)
{
    size_t n = 0;
    for (const char *line = want; *line; n++) {
        size_t length = strcspn(line, "\n");
        if (n >= problems->n || strncmp(problems->items[n], "t.yml:", 6) != 0 ||
            strncmp(problems->items[n] + 6, line, length) != 0)
            return false;
        line += length + (line[length] == '\n');
    }
    return n == problems->n;
}

static void each_mistake_has_its_line_and_its_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CLEANUP(config_freep) struct config *config = NULL;
        CLEANUP(problems_done) struct problems problems = {0};
        bool ok = config_parse("t.yml", rows[i].yaml, strlen(rows[i].yaml), &config, &problems);
        if (ok != (*rows[i].want == '\0') || ok != (config != NULL) ||
            !problems_match(&problems, rows[i].want)) {
            print_problems(&problems);
            fail_msg("row %zu:\n%s\nwanted:\n%s", i, rows[i].yaml, rows[i].want);
        }
    }
}

/* Text that would take an unguarded reader very long, or all memory. */
static void bombs_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *piece;
        size_t times;
        const char *want;
    } bombs[] = {
        {"[", 3000000, "1: could not read the file: it has more than 100000 brackets"},
        {"[\n", 90000, "17: could not read the file past this line: it nests deeper"},
        {"- ", 100000, "1: could not read the file past this line: it nests deeper"},
        {"? ", 100000, "1: could not read the file past this line: a map or a list is no key"},
        {"a: ", 100000, "1: could not read the file past this line"},
        {"#\n", 3000000, "1: could not read the file: it has more than 4194304 bytes"},
    };
    for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++) {
        size_t length = strlen(bombs[i].piece), size = length * bombs[i].times;
        CLEANUP(free_charp) char *text = xmalloc(size);
        for (size_t j = 0; j < bombs[i].times; j++)
            memcpy(text + j * length, bombs[i].piece, length);
        CLEANUP(config_freep) struct config *config = NULL;
        CLEANUP(problems_done) struct problems problems = {0};
        assert_false(config_parse("t.yml", text, size, &config, &problems));
        if (!problems_match(&problems, bombs[i].want)) {
            print_problems(&problems);
            fail_msg("bomb %zu, wanted: %s", i, bombs[i].want);
        }
    }
}

static void a_flood_of_mistakes_is_counted(void **state)
{
    (void)state;
    CLEANUP(free_charp) char *yaml = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&yaml, &size);
    for (int i = 0; i < 100000; i++)
        (void)fprintf(out, "k%d:\n", i);
    assert_int_equal(fclose(out), 0);
    CLEANUP(config_freep) struct config *config = NULL;
    CLEANUP(problems_done) struct problems problems = {0};
    assert_false(config_parse("t.yml", yaml, size, &config, &problems));
    assert_int_equal(problems.n, 1001);
    assert_non_null(strstr(problems.items[1000], "there are 100000, these are 1000 of them"));
}

/* What stands at a path instead of a file that can be read. */
static void a_path_that_is_no_readable_file_says_why(void **state)
{
    (void)state;
    char directory[] = "/tmp/pgleader-test-XXXXXX";
    assert_non_null(mkdtemp(directory));
    CLEANUP(free_charp) char *secret = xasprintf("%s/secret.yml", directory);
    CLEANUP(free_charp) char *fifo = xasprintf("%s/fifo", directory);
    CLEANUP(free_charp) char *missing = xasprintf("%s/missing.yml", directory);
    FILE *out = fopen(secret, "w");
    assert_true(out && fputs(SERVER, out) >= 0 && fclose(out) == 0);
    assert_int_equal(chmod(secret, 0) | mkfifo(fifo, 0644) | chmod(directory, 0755), 0);
    const struct {
        const char *path, *want;
    } paths[] = {
        {directory, "could not read the file: Is a directory"},
        {fifo, "could not read the file: it is not a regular file"},
        {"/dev/zero", "could not read the file: it is not a regular file"},
        {missing, "could not read the file: No such file or directory"},
        {secret, "could not read the file: Permission denied"},
    };
    bool root = geteuid() == 0;
    assert_true(!root || seteuid(65534) == 0); /* root reads everything */
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        CLEANUP(config_freep) struct config *config = NULL;
        CLEANUP(problems_done) struct problems problems = {0};
        CLEANUP(free_charp) char *want = xasprintf("%s:1: %s", paths[i].path, paths[i].want);
        assert_false(config_load(paths[i].path, &config, &problems));
        assert_int_equal(problems.n, 1);
        assert_string_equal(problems.items[0], want);
    }
    assert_true(!root || seteuid(0) == 0);
    assert_int_equal(prctl(PR_SET_DUMPABLE, 1), 0); /* seteuid ends it; leak checkers need it */
    assert_int_equal(unlink(secret) | unlink(fifo) | rmdir(directory), 0);
}

/* Files whose authors put a connection string where it cannot be read. */
static const struct {
    const char *yaml;
} leaky[] = {
    {"servers:\n- {name: a, conninfo: host=x pass word=hunter2}\n"},
    {"servers:\n- {name: a, conninfo: \"hunter2\"}\n"},
    {"servers:\n- {name: a, conninfo: \"host=x password='hunter2\"}\n"},
    {"servers:\n- {name: a, conninfo: \"password=hunter2 nonsense=1\"}\n"},
    {"servers:\n- {name: a, conninfo: \"postgresql://u:hunter2@[x/d\"}\n"},
    {"servers:\n- {name: a, conninfo: \"postgresql://u:hunter2@x/d?bad\"}\n"},
    {"servers:\n- {name: a, conninfo: \"postgresql://u:hunter2%zz@x/d\"}\n"},
    {"servers:\n- {name: a, conninfo: [\"password=hunter2\"]}\n"},
    {"servers:\n- {name: \"password=hunter2\", conninfo: \"\"}\n"},
    {"servers:\n- {conninfo: \"dbname='postgresql://u:hunter2@x/d'\"}\n"},
    {"servers:\n- {conninfo: \"user='password=hunter2' host=x\"}\n"},
    {"servers:\n- {host=x password=hunter2}\n"},
    {"servers:\n- host=x password=hunter2\n"},
    {"servers:\n- postgresql://u:hunter2@x/d\n"},
    {"servers: postgresql://u:hunter2@x/d\n"},
    {"password=hunter2\n"},
    {"password=hunter2: x\n"},
    {"servers:\n- {name: a, conninfo: \"\", password: hunter2}\n"},
    {"servers:\n- {name: a, conninfo: \"\", expect: \"password=hunter2\"}\n"},
    {"servers:\n- {name: a, conninfo: !hunter2!x y}\n"},
    {"servers:\n- name: a\n  conninfo: \"host=x password=\\qhunter2\"\n"},
    {"servers:\n- name: a\n  conninfo: host=x password=hunter2: x\n"},
    {"servers:\n- name: a\n  conninfo: *hunter2\n"},
    {SERVER "duties:\n- {duty: \"postgresql://u:hunter2@x/d\", lock: \"password=hunter2\"}\n"},
    {TWO "duties:\n- {duty: a/b, lock: 1, servers: [\"password=hunter2\"]}\n"},
};

static void no_message_holds_a_password(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof leaky / sizeof *leaky; i++) {
        CLEANUP(config_freep) struct config *config = NULL;
        CLEANUP(problems_done) struct problems problems = {0};
        if (config_parse("t.yml", leaky[i].yaml, strlen(leaky[i].yaml), &config, &problems))
            fail_msg("accepted: %s", leaky[i].yaml);
        assert_true(problems.n > 0);
        for (size_t j = 0; j < problems.n; j++) {
            if (strstr(problems.items[j], "hunter2"))
                fail_msg("%s\ngave: %s", leaky[i].yaml, problems.items[j]);
        }
    }
}

int main(void)
{
    static const char *const variables[] = {"PGHOST", "PGPORT", "PGDATABASE", "PGUSER",
                                            "PGSERVICE"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        (void)unsetenv(variables[i]); /* they would change the default names of servers */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mistake_has_its_line_and_its_reason),
        cmocka_unit_test(bombs_are_refused),
        cmocka_unit_test(a_flood_of_mistakes_is_counted),
        cmocka_unit_test(a_path_that_is_no_readable_file_says_why),
        cmocka_unit_test(no_message_holds_a_password),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
