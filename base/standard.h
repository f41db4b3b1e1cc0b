/* SPDX-License-Identifier: PostgreSQL */
/* Standard input, output and error, of which a program may be started without. */
#pragma once

/* Where one is closed the first socket would take its place, and what is printed would reach a
 * server: /dev/null stands for it. access is O_RDONLY, where who can print nothing is to say so, or
 * O_RDWR. To be called before anything is opened. */
void standard_files_open(int access);
