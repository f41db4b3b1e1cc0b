/* SPDX-License-Identifier: PostgreSQL */
/* The table of ends. */
#include "candidate/run/ends.h"

const struct end_row end_rows[ENDS] = {
    [END_NONE] = {"running", 0, "It has not ended."},
    [END_COMMAND] = {"command-ended", STATUS_OF_ITS_OWN,
                     "The command ended by itself; 128+n by signal n."},
    [END_SIGNAL] = {"signalled", STATUS_OF_ITS_OWN,
                    "Signal n ended the candidacy while no command led: 128+n."},
    [END_NOT_STARTED] = {"not-started", 126,
                         "The command could not be executed; 127 where there is none."},
    [END_USAGE] = {"usage", 64,
                   "The command line, the status file or the health address is wrong."},
    [END_REFUSED] = {"refused", 64, "This database or connection cannot be led through."},
    [END_UNAVAILABLE] = {"unavailable", 69, "The database was not available within --timeout."},
    [END_NOT_ACQUIRED] = {"not-acquired", 75, "It did not come to lead within --timeout."},
    [END_LOST] = {"lost", 76, "Leadership was lost while the command ran."},
    [END_YIELDED] = {"yielded", 76, "An operator asked it to yield while the command ran."},
    [END_NO_PERMISSION] = {"no-permission", 77,
                           "The server refused the login, or a right that is needed."},
};

enum end end_of_lead(enum lead_end lead)
{
    switch (lead) {
    case LEAD_GOES_ON:
    case LEAD_ENDED:
        return END_NONE;
    case LEAD_NO_PERMISSION:
        return END_NO_PERMISSION;
    case LEAD_REFUSED:
        return END_REFUSED;
    }
    return END_NONE;
}
