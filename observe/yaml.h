/* SPDX-License-Identifier: PostgreSQL */
/* A YAML file as a plain tree in which every node knows its line. The only module that knows the
 * YAML library. Refused, each with its line: aliases, tags, merge keys, several documents, nesting
 * past YAML_DEPTH, more than YAML_SIZE bytes or YAML_BRACKETS, NUL characters and text that is not
 * UTF-8. (libfyaml keeps every token of a flow collection until that may no longer be a key: 350
 * bytes a bracket.) */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"

enum { YAML_DEPTH = 16, YAML_SIZE = 4 << 20, YAML_BRACKETS = 100000, YAML_PROBLEMS = 1000 };

enum yaml_kind {
    YAML_SCALAR,
    YAML_LIST,
    YAML_MAP,
    YAML_BROKEN, /* a mistake that is reported already: readers pass over it in silence */
};

struct yaml_node {
    enum yaml_kind kind;
    int line;                      /* where it begins; for a member of a map: where its key is */
    bool plain;                    /* a scalar without quotes; only such a one can be a number */
    const char *key;               /* its name in the map above; NULL elsewhere */
    const char *text;              /* the scalar's text; NULL for the other kinds */
    const struct yaml_node *first; /* members of a map or a list, in the file's order */
    const struct yaml_node *next;
    size_t n; /* members */
};

/* What one reading needs. Zero-initialise, then set the first four. */
struct yaml_reader {
    const char *path;          /* for messages, and what yaml_load opens */
    struct arena *arena;       /* the tree's: may be freed once everything is read */
    struct arena *keep;        /* the result's: what the table reader copies goes here */
    struct problems *problems; /* every mistake is added as "PATH:LINE: could not ...: why" */
    size_t n_problems; /* how many this reading met; past YAML_PROBLEMS they are counted only */
};

/* Reads the file, or text in memory. False where there is no tree to go on with; the reason is
 * among the problems. True may still have met problems: the result counts only if n_problems is 0.
 */
bool yaml_load(struct yaml_reader *reader, const struct yaml_node **ret_root) MUSTCHECK;
bool yaml_parse(struct yaml_reader *reader, const char *text, size_t size,
                const struct yaml_node **ret_root) MUSTCHECK;

/* Adds "PATH:LINE: " and the message. */
void yaml_problem(struct yaml_reader *reader, int line, const char *format, ...) PRINTF_LIKE(3, 4);

/* Ends a reading: puts its problems in the order of their lines and says how many were left out.
 * True if there was none. */
bool yaml_finish(struct yaml_reader *reader) MUSTCHECK;

/* The first member of that name in a map, or NULL. */
const struct yaml_node *yaml_member(const struct yaml_node *map, const char *key);

/* True for a scalar that stands for "no value": empty, ~ or null without quotes. */
bool yaml_is_null(const struct yaml_node *node);

/* A path that stands in the file: if relative, it counts from the file's own directory. In
 * reader->keep; NULL stays NULL. */
const char *yaml_path(struct yaml_reader *reader, const char *path);

/* The text in quotes for a message, or `otherwise` where it is long or might hold a password. */
const char *yaml_show(struct yaml_reader *reader, const char *text, const char *otherwise);
