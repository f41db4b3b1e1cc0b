/* SPDX-License-Identifier: PostgreSQL */
/* Reads /proc/PID/stat. */
#include "candidate/run/processes.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

static bool read_process(const char *pid, struct process *ret_process)
{
    char path[64], text[512], *end = NULL;
    (void)snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    CLEANUP(fclose_filep) FILE *file = fopen(path, "re");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[size] = '\0';
    const char *after_name = strrchr(text, ')'); /* the name may hold anything */
    if (!after_name || strlen(after_name) < 5)
        return false;
    ret_process->pid = (pid_t)strtol(pid, NULL, 10);
    ret_process->zombie = after_name[2] == 'Z' || after_name[2] == 'X';
    ret_process->parent = (pid_t)strtol(after_name + 4, &end, 10);
    ret_process->group = (pid_t)strtol(end, NULL, 10);
    return true;
}

bool process_has_environment(pid_t pid, const char *pair)
{
    char path[64];
    char *item = NULL;
    size_t room = 0;
    bool found = false;
    (void)snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    CLEANUP(fclose_filep) FILE *file = fopen(path, "re");
    while (file && !found && getdelim(&item, &room, '\0', file) > 0)
        found = strcmp(item, pair) == 0;
    free(item);
    return found;
}

struct child_filter {
    bool (*visit)(void *context, const struct process *process);
    void *context;
};

static bool visit_child(void *context, const struct process *process)
{
    const struct child_filter *filter = context;
    return process->parent != getpid() || filter->visit(filter->context, process);
}

/* The kernel's own list is short, but not every kernel has it. */
void processes_each_child(bool (*visit)(void *context, const struct process *process),
                          void *context)
{
    char path[64];
    char *word = NULL;
    size_t room = 0;
    bool go_on = true;
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    CLEANUP(fclose_filep) FILE *file = fopen(path, "re");
    if (!file) {
        processes_each(visit_child, &(struct child_filter){visit, context});
        return;
    }
    while (go_on && getdelim(&word, &room, ' ', file) > 0) {
        struct process process;
        word[strcspn(word, " \n")] = '\0';
        if (*word && read_process(word, &process))
            go_on = visit(context, &process);
    }
    free(word);
}

void processes_each(bool (*visit)(void *context, const struct process *process), void *context)
{
    DIR *proc = opendir("/proc");
    bool go_on = proc != NULL;
    const struct dirent *entry = NULL;
    while (go_on && (entry = readdir(proc))) {
        struct process process;
        if (*entry->d_name >= '0' && *entry->d_name <= '9' && read_process(entry->d_name, &process))
            go_on = visit(context, &process);
    }
    if (proc)
        (void)closedir(proc);
}
