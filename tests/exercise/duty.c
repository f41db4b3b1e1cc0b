/* SPDX-License-Identifier: PostgreSQL */
/* How the duty of the failover exercise begins: notes that it runs, locks a file that tells as long
 * as it lives, notes who else is alive, and becomes the worker. Static, so that no time of the
 * dynamic linker's is taken for the kit's. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/exercise/note.h"

static const char *generation;
static int notes;

static void note(const char *kind, const char *more)
{
    char words[192];
    (void)snprintf(words, sizeof words, "%s %s %s %d %s", kind, getenv("PGLEADER_INSTANCE"),
                   generation, (int)getpid(), more);
    note_write(notes, now_ns(), words);
}

/* Another worker's file: gone with its process, or noted because it lives. */
static void look_at(const char *folder, const char *name, const char *own)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = *name == '.' || strcmp(name, own) == 0 ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_SH | LOCK_NB) != 0)
        note("beside", name);
    else if (strtoll(name, NULL, 10) < strtoll(generation, NULL, 10))
        (void)unlink(path);
    (void)close(fd);
}

/* The kernel is the witness of overlaps: it keeps a file locked as long as its process lives. */
static void look_beside(void)
{
    char folder[256], path[512], own[64];
    note_path("alive", folder, sizeof folder);
    (void)snprintf(own, sizeof own, "%s-%d", generation, (int)getpid());
    (void)snprintf(path, sizeof path, "%s/%s", folder, own);
    int mine = open(path, O_RDWR | O_CREAT, 0666); /* for the worker to keep */
    if (mine < 0 || flock(mine, LOCK_EX) != 0)
        exit(1);
    DIR *list = opendir(folder);
    for (const struct dirent *entry; list && (entry = readdir(list));)
        look_at(folder, entry->d_name, own);
    if (list)
        (void)closedir(list);
}

int main(int argc, char **argv)
{
    generation = getenv("PGLEADER_GENERATION");
    if (argc != 2 || !generation)
        return 2;
    notes = note_open("notes");
    note("start", "");
    look_beside();
    (void)execl(argv[1], argv[1], (char *)NULL);
    perror(argv[1]);
    return 1;
}
