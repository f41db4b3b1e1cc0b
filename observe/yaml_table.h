/* SPDX-License-Identifier: PostgreSQL */
/* One table says what a map of a file may hold; reading, defaults, checks and every message come
 * from it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "observe/yaml.h"

/* What a field's value is, and what `offset` points to in the struct that is filled. */
enum yaml_type {
    YAML_TEXT,        /* const char *, in reader->keep; not empty unless `check` is there */
    YAML_INT,         /* int32_t */
    YAML_BOOL,        /* bool */
    YAML_DURATION,    /* int64_t, microseconds */
    YAML_TIME,        /* int64_t, microseconds since the Unix epoch */
    YAML_CHOICE,      /* an enum: the index of the word in `choices` */
    YAML_NODE,        /* const struct yaml_node *: the caller reads it; never a null */
    YAML_UNSUPPORTED, /* nothing: known from elsewhere, but naming it is a mistake */
};

struct yaml_field {
    const char *name;
    enum yaml_type type;
    size_t offset;
    bool required;
    bool secret;                             /* the value is never shown in a message */
    const char *fallback;                    /* as it would be written, or NULL: left as it was */
    const char *(*check)(const void *value); /* NULL, or why the value will not do */
    const char *const *choices;              /* YAML_CHOICE; ended by NULL */
    const char *help;                        /* "write %s": what a right value looks like */
};

struct yaml_table {
    const char *what;                /* "a duty" */
    const struct yaml_field *fields; /* at most 32, ended by one without a name */
};

/* Fills *out from the map. Every mistake is reported once, with its line: a node that is no map, an
 * unknown key (with the nearest known one), a key twice, a missing one, a value of the wrong type
 * or refused by its check. A field with a mistake keeps what it had. */
void yaml_read_table(struct yaml_reader *reader, const struct yaml_node *map,
                     const struct yaml_table *table, void *out);

/* True if the node is of that kind; else reports it ("a duty" is what is wanted), once. */
bool yaml_expect(struct yaml_reader *reader, const struct yaml_node *node, enum yaml_kind kind,
                 const char *what) MUSTCHECK;

/* A whole number in decimal without quotes, from min to max; else reports it, under its key or, for
 * a list's member, under `what`. */
bool yaml_read_int64(struct yaml_reader *reader, const struct yaml_node *node, const char *what,
                     int64_t min, int64_t max, const char *help, int64_t *ret_value) MUSTCHECK;
