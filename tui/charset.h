/* SPDX-License-Identifier: PostgreSQL */
/* Which characters the terminal shows. */
#pragma once

/* Takes the locale that the environment names, for nl_langinfo(CODESET) to tell. */
void charset_take(void);
