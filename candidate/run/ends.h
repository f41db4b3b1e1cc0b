/* SPDX-License-Identifier: PostgreSQL */
/* How pgleader-run can end, as rows: the words of the status file, the exit status, the sentence of
 * the log and of --help. */
#pragma once

#include "candidate/lead.h"

enum end {
    END_NONE, /* it goes on */
    END_COMMAND,
    END_SIGNAL,
    END_NOT_STARTED,
    END_USAGE,
    END_REFUSED,
    END_UNAVAILABLE,
    END_NOT_ACQUIRED,
    END_LOST,
    END_YIELDED,
    END_NO_PERMISSION,
    ENDS,
};

enum { STATUS_OF_ITS_OWN = -1, STATUS_OF_A_SIGNAL = 128, STATUS_NOT_FOUND = 127 };

struct end_row {
    const char *outcome; /* "not-acquired" */
    int status;          /* or STATUS_OF_ITS_OWN, as the sentence says */
    const char *sentence;
};

extern const struct end_row end_rows[ENDS];

/* What a candidate that cannot go on comes to; END_NONE while it can. */
enum end end_of_lead(enum lead_end lead);
