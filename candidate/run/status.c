/* SPDX-License-Identifier: PostgreSQL */
/* Writes the status file. */
#include "candidate/run/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "candidate/run/json.h"

static void write_command(struct json *json, int wait_status)
{
    if (WIFSIGNALED(wait_status))
        json_number(json, "command_signal", WTERMSIG(wait_status));
    else
        json_number(json, "command_status", WEXITSTATUS(wait_status));
}

static void write_object(const struct status *status, FILE *out)
{
    const struct end_row *row = &end_rows[status->end];
    struct json json = json_begin(out);
    json_text(&json, "outcome", row->outcome);
    if (status->end == END_NONE)
        json_number(&json, "pid", getpid());
    else
        json_number(&json, "status", status->status);
    json_text(&json, "reason", *status->reason ? status->reason : row->sentence);
    json_text(&json, "duty", status->duty);
    json_text(&json, "instance", status->instance);
    json_text(&json, "key", status->key);
    json_text(&json, "lease", status->lease);
    if (status->generation >= 0)
        json_number(&json, "generation", status->generation);
    json_text(&json, "rule", status->rule);
    if (status->has_command)
        write_command(&json, status->command);
    json_time(&json, "started", status->started_us);
    json_time(&json, "leading_since", status->leading_us);
    json_time(&json, "ended", status->ended_us);
    json_end(&json);
}

static bool write_whole(int fd, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t written = write(fd, text, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return false;
        text += written;
        size -= (size_t)written;
    }
    return true;
}

/* errno says why not. */
static bool write_file(const char *path, int flags, const char *text, size_t size)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0666);
    if (fd < 0)
        return false;
    bool ok = write_whole(fd, text, size);
    int why = errno;
    if (close(fd) != 0 && ok)
        return false;
    errno = why;
    return ok;
}

static bool replace_file(const char *path, const char *text, size_t size)
{
    CLEANUP(free_charp) char *beside = xasprintf("%s.%d", path, (int)getpid());
    (void)unlink(beside);
    bool ok = write_file(beside, O_CREAT | O_EXCL, text, size) && rename(beside, path) == 0;
    int why = errno;
    if (!ok)
        (void)unlink(beside);
    errno = why;
    return ok;
}

/* A pipe, a terminal or /dev/null must not be replaced; a file that is mounted, as a container's
 * termination log is, or stands in a directory that is not ours cannot be. */
static bool put(const char *path, const char *text, size_t size)
{
    struct stat found;
    bool there = stat(path, &found) == 0;
    if ((!there || S_ISREG(found.st_mode)) && replace_file(path, text, size))
        return true;
    return there && write_file(path, O_TRUNC | O_NOCTTY | O_NONBLOCK, text, size);
}

bool status_write(const struct status *status, const char *path, struct error *err)
{
    CLEANUP(free_charp) char *text = NULL;
    CLEANUP(free_charp) char *target = NULL;
    size_t size = 0;
    if (!path)
        return true;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        abort();
    write_object(status, out);
    if (fclose(out) != 0)
        abort();
    target = realpath(path, NULL); /* what a symbolic link names is replaced, not the link */
    if (put(target ? target : path, text, size))
        return true;
    return error_set_errno(err, errno, "could not write the status file \"%s\"", path);
}
