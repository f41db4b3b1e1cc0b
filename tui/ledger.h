/* SPDX-License-Identifier: PostgreSQL */
/* The ledger's files inside the program. */
#pragma once

struct embedded_file {
    const char *name, *text;
};

/* The numbered files in their order, then roles.sql; ended by a row without a name. */
extern const struct embedded_file ledger_files[];

int ledger_run(int argc, char **argv);
