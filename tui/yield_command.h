/* SPDX-License-Identifier: PostgreSQL */
/* `pgleader yield`. */
#pragma once

int yield_run(int argc, char **argv);
