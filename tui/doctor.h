/* SPDX-License-Identifier: PostgreSQL */
/* pgleader doctor: facts, a table of checks over them, and what they found. */
#pragma once

#include <stdio.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "tui/doctor_facts.h"

enum severity { SEVERITY_NOTE, SEVERITY_WARNING, SEVERITY_PROBLEM };

struct doctor_server {
    const struct config_server *config;
    bool looked;
    struct error error;  /* why not */
    struct arena *arena; /* of the facts */
    struct doctor_facts facts;
};

struct doctor_check;

struct finding {
    const struct doctor_check *check;
    enum severity severity; /* the check's, or less */
    const char *server;
    const char *evidence;
    const char *statement; /* SQL that mends it, for somebody who may; NULL */
};

struct doctor {
    struct arena *arena;
    struct doctor_server *servers;
    size_t n_servers;
    struct finding *findings;
    size_t n_findings;
    /* while a check runs */
    const struct doctor_check *check;
    const char *server;
};

/* One row: a check of each server that was looked at, or one of all of them. */
struct doctor_check {
    const char *id;
    enum severity severity;
    const char *title, *remedy;
    void (*look)(struct doctor *doctor, const struct doctor_facts *facts,
                 const struct config_server *server);
    void (*look_at_all)(struct doctor *doctor);
};

/* Ended by a row without an id. */
extern const struct doctor_check doctor_checks[];

/* For checks: adds a finding of the check that runs; _note at the severity of a note. */
void doctor_find(struct doctor *doctor, const char *format, ...) PRINTF_LIKE(2, 3);
void doctor_note(struct doctor *doctor, const char *format, ...) PRINTF_LIKE(2, 3);

/* For checks, after one of these: what mends that finding, as psql takes it. */
void doctor_mend(struct doctor *doctor, const char *format, ...) PRINTF_LIKE(2, 3);

/* A name as SQL writes it. */
const char *doctor_quote(struct doctor *doctor, const char *name);

/* Runs every check over the servers that were looked at; the worst findings come first. */
void doctor_examine(struct doctor *doctor);

const char *severity_name(enum severity severity);

/* Exit status: 0 fit (notes alone are no reason against it), 1 findings, 2 could not look. */
enum { DOCTOR_FIT = 0, DOCTOR_FINDINGS = 1, DOCTOR_BLIND = 2 };
int doctor_status(const struct doctor *doctor);

void doctor_print(const struct doctor *doctor, FILE *out);
void doctor_print_json(const struct doctor *doctor, FILE *out);
void doctor_print_list(FILE *out);

int doctor_run(int argc, char **argv);
