/* SPDX-License-Identifier: PostgreSQL */
/* pgleader-run: makes any program a candidate. It runs while we lead, and is ended before the lock
 * is given back. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/standard.h"
#include "candidate/run/arguments.h"
#include "candidate/run/run.h"
#include "candidate/run/status.h"

static void note_usage(struct status *status, const struct error *err)
{
    status->end = END_USAGE;
    status->status = end_rows[END_USAGE].status;
    (void)snprintf(status->reason, sizeof status->reason, "%s", err->message);
    log_write(LOG_ERROR, err->message, "hint", err->hint, NULL);
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    struct error err = {0};
    standard_files_open(O_RDWR);
    bool fine = arguments_read(argc, argv, &arguments, &err);
    log_configure(arguments.log_level, arguments.log_format);
    if (fine && arguments.version)
        return puts("pgleader-run " PGLEADER_VERSION) < 0;
    if (fine && arguments.help) {
        arguments_print_help(stdout);
        return fflush(stdout) != 0;
    }
    struct status status = {.duty = arguments.duty,
                            .instance = arguments.name,
                            .lease = arguments.lease,
                            .generation = -1,
                            .started_us = clock_realtime_us()};
    fine = fine && status_write(&status, arguments.status_file, &err) &&
           run_candidate(&arguments, &status, &err);
    if (!fine)
        note_usage(&status, &err);
    status.ended_us = clock_realtime_us();
    if (!status_write(&status, arguments.status_file, &err) && status.end != END_USAGE)
        log_write(LOG_ERROR, err.message, "duty", arguments.duty, NULL);
    arguments_done(&arguments);
    return status.status;
}
