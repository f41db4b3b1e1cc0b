/* SPDX-License-Identifier: PostgreSQL */
/* A row of the table of metrics, what it is asked about, and how its samples are written. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "exporter/negotiate.h"

struct duty;
struct picture;
struct process;
struct published;
struct snapshot;

enum metric_type { METRIC_GAUGE, METRIC_COUNTER, METRIC_HISTOGRAM, METRIC_INFO };

/* What one sample is about, and when it is exposed at all. */
enum metric_scope {
    SCOPE_PROGRAM, /* this process; judged at the scrape */
    SCOPE_SERVER,  /* every configured server, reachable or not */
    SCOPE_FRESH,   /* a server with a fresh snapshot */
    SCOPE_DUTY,    /* every duty of a fresh server */
    SCOPE_NAMED,   /* every duty of a fresh server but the discovered ones */
};

/* A number, or nothing where it is not known. */
enum value_kind { VALUE_ABSENT, VALUE_INTEGER, VALUE_SECONDS, VALUE_REAL };
struct value {
    enum value_kind kind;
    union {
        int64_t integer; /* microseconds for VALUE_SECONDS */
        double real;
    };
};

struct value value_integer(int64_t value);
struct value value_flag(bool value);
struct value value_count(int64_t value); /* absent below 0 */
struct value value_time(int64_t us);     /* absent for TIME_UNKNOWN; infinity is infinite */
struct value value_span(int64_t us);     /* a duration; absent below 0 */
struct value value_real(double value);   /* absent for NAN */
struct value value_if(bool known, struct value value);

/* later - earlier; absent where one is not known, infinite where later is. */
struct value value_between(int64_t earlier_us, int64_t later_us);

/* What a row is asked about; fields that its scope does not have are NULL. */
struct subject {
    const char *labels; /* `{server="a",duty="b"`, escaped, not closed; "" without labels */
    size_t labels_size;
    const struct picture *picture;
    const struct published *published;
    const struct snapshot *snapshot;
    const struct duty *duty;
    const struct process *process;
    bool fresh;
};

struct writer {
    FILE *out;
    enum exposition_format format;
    const struct metric *metric;
    size_t name_size; /* of the metric's name */
    bool headed;      /* its HELP and TYPE are written */
    bool labelled;    /* the sample being written has a label */
};

/* One family. Exactly one of get and write is set. */
struct metric {
    const char *name; /* as its samples are called; a histogram's without _bucket, _count, _sum */
    enum metric_type type;
    const char *help;
    const char *labels; /* "server,duty", in the order written; "" for none */
    enum metric_scope scope;
    struct value (*get)(const struct subject *subject);                  /* its one sample */
    void (*write)(struct writer *writer, const struct subject *subject); /* all of its samples */
};

/* The table, in metrics.c; the row after the last has no name. */
extern const struct metric metrics[];

const char *metric_type_name(enum metric_type type);

/* Turns to another family; its head is written before its first sample, so that a family without
 * samples leaves no trace. */
void writer_turn(struct writer *writer, const struct metric *metric);

/* The whole sample of a row without labels of its own; nothing for an absent value. */
void writer_sample(struct writer *writer, const struct subject *subject, struct value value);

/* A sample with labels of its own: open, any number of labels, close. suffix is "" or "_bucket" and
 * the like. The value must not be absent. */
void writer_open(struct writer *writer, const struct subject *subject, const char *suffix);
void writer_label(struct writer *writer, const char *name, const char *text);
void writer_close(struct writer *writer, struct value value);
