/* SPDX-License-Identifier: PostgreSQL */
/* pgleader status: who leads, once or again and again, for people and for scripts. */
#pragma once

int status_run(int argc, char **argv);
