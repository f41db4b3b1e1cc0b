/* SPDX-License-Identifier: PostgreSQL */
/* Connection strings: checked and named without ever showing a password. */
#pragma once

#include "base/error.h"

/* False if libpq cannot read it, or would misread a password in it; the error text holds nothing of
 * the string. */
bool conninfo_check(const char *conninfo, struct error *err) MUSTCHECK;

/* "host:port/dbname" of what it (and the environment, for what it leaves out) names; from malloc. A
 * socket directory is shown as "local". */
char *conninfo_describe(const char *conninfo) __attribute__((malloc, returns_nonnull));

/* Overwrites a string that holds a password with what conninfo_describe says of it: for the command
 * line, which everybody may see. */
void conninfo_hide_password(char *conninfo);

/* The same without passwords, as another program can use it: keyword=value pairs of what it says
 * itself; "" where that is nothing; from malloc. */
char *conninfo_public(const char *conninfo) __attribute__((malloc, returns_nonnull));
