/* SPDX-License-Identifier: PostgreSQL */
/* pgleader top: the live screen. */
#pragma once

int top_run(int argc, char **argv);
