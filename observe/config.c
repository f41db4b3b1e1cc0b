/* SPDX-License-Identifier: PostgreSQL */
/* Reads the configuration file: puts each duty on its servers and looks for what contradicts. */
#include "observe/config.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "observe/config_schema.h"
#include "pg/conninfo.h"

/* One duty on one server. */
struct placement {
    size_t server; /* index into the file's servers */
    size_t order;  /* of the placement in the file */
    const struct duty_entry *entry;
};

struct file {
    struct yaml_reader reader;
    struct config *config;
    struct server_entry *servers;
    size_t n_servers;
    struct server_entry **by_name; /* those that have a name, sorted */
    size_t n_by_name;
    struct placement *placements;
    size_t n_placements, room;
};

static void file_done(struct file *file)
{
    free(file->placements);
    arena_free(file->reader.arena);
    config_free(file->config);
}

static void place(struct file *file, size_t server, const struct duty_entry *entry)
{
    if (file->n_placements == file->room) {
        file->room = file->room ? 2 * file->room : 64;
        file->placements = xreallocarray(file->placements, file->room, sizeof *file->placements);
    }
    file->placements[file->n_placements] = (struct placement){server, file->n_placements, entry};
    file->n_placements++;
}

static struct duty_entry *read_duty(struct file *file, const struct yaml_node *node, bool top)
{
    struct duty_entry *entry = arena_alloc(file->reader.arena, sizeof *entry);
    config_read_duty(&file->reader, node, top, entry);
    return entry;
}

static void read_nested_duties(struct file *file, size_t server)
{
    const struct yaml_node *list = file->servers[server].duties;
    if (!list || !yaml_expect(&file->reader, list, YAML_LIST, "\"duties\""))
        return;
    for (const struct yaml_node *node = list->first; node; node = node->next)
        place(file, server, read_duty(file, node, false));
}

/* The name that a server without one goes by. */
static void name_server(struct file *file, struct server_entry *entry)
{
    struct config_server *server = &entry->server;
    if (server->name || !server->conninfo)
        return;
    CLEANUP(free_charp) char *name = conninfo_describe(server->conninfo);
    if (!config_check_name(name))
        server->name = arena_strdup(file->reader.keep, name);
    else
        yaml_problem(&file->reader, entry->line,
                     "could not name the server by its conninfo: that %s; write name:",
                     config_check_name(name));
}

static void read_servers(struct file *file, const struct yaml_node *list)
{
    if (!yaml_expect(&file->reader, list, YAML_LIST, "\"servers\""))
        return;
    if (list->n == 0)
        yaml_problem(&file->reader, list->line,
                     "could not find a server: the list is empty; write - name: and conninfo:");
    file->servers = arena_array(file->reader.arena, list->n, sizeof *file->servers);
    for (const struct yaml_node *node = list->first; node; node = node->next) {
        struct server_entry *entry = &file->servers[file->n_servers++];
        config_read_server(&file->reader, node, entry);
        entry->server.password_file = yaml_path(&file->reader, entry->server.password_file);
        name_server(file, entry);
        read_nested_duties(file, file->n_servers - 1);
    }
}

/* A file without servers watches the one that the environment names. */
static void read_environment(struct file *file)
{
    struct problems problems = {0};
    file->servers = arena_alloc(file->reader.arena, sizeof *file->servers);
    file->servers[0].line = 1;
    file->n_servers = 1;
    if (!config_one_server(file->config->arena, NULL, &file->servers[0].server, &problems))
        yaml_problem(&file->reader, 1,
                     "could not find a server: the file has no \"servers\", and the environment "
                     "is of no help: %s",
                     problems.items[0]);
    problems_done(&problems);
}

static int compare_servers(const void *a, const void *b)
{
    const struct server_entry *x = *(struct server_entry *const *)a;
    const struct server_entry *y = *(struct server_entry *const *)b;
    int order = strcmp(x->server.name, y->server.name);
    return order ? order : (x > y) - (x < y);
}

static void index_servers(struct file *file)
{
    file->by_name = arena_array(file->reader.arena, file->n_servers, sizeof(void *));
    for (size_t i = 0; i < file->n_servers; i++) {
        if (file->servers[i].server.name)
            file->by_name[file->n_by_name++] = &file->servers[i];
    }
    qsort(file->by_name, file->n_by_name, sizeof(void *), compare_servers);
    for (size_t i = 1; i < file->n_by_name; i++) {
        const struct server_entry *first = file->by_name[i - 1], *second = file->by_name[i];
        if (strcmp(first->server.name, second->server.name) == 0)
            yaml_problem(&file->reader, second->line,
                         "could not add the server %s: the one on line %d has the same name; write "
                         "another name:",
                         yaml_show(&file->reader, second->server.name, "here"), first->line);
    }
}

static int compare_name(const void *name, const void *entry)
{
    return strcmp(name, (*(struct server_entry *const *)entry)->server.name);
}

static void place_by_name(struct file *file, const struct yaml_node *name,
                          const struct duty_entry *entry)
{
    if (!yaml_expect(&file->reader, name, YAML_SCALAR, "a server's name"))
        return;
    struct server_entry **found =
        file->n_by_name
            ? bsearch(name->text, file->by_name, file->n_by_name, sizeof(void *), compare_name)
            : NULL;
    if (found)
        place(file, (size_t)(*found - file->servers), entry);
    else
        yaml_problem(&file->reader, name->line,
                     "could not put the duty on %s: no server has that name; write the name of one "
                     "that stands under servers:",
                     yaml_show(&file->reader, name->text, "a server"));
}

static void read_top_duty(struct file *file, const struct yaml_node *node)
{
    struct duty_entry *entry = read_duty(file, node, true);
    const struct yaml_node *names = entry->servers;
    if (!names && file->n_servers == 1) {
        place(file, 0, entry);
    } else if (!names && file->n_servers > 1 && node->kind == YAML_MAP) {
        yaml_problem(&file->reader, node->line,
                     "could not place a duty: there are %zu servers; write servers: [%s], or move "
                     "the duty below its server",
                     file->n_servers, file->n_by_name ? file->by_name[0]->server.name : "NAME");
    } else if (names && yaml_expect(&file->reader, names, YAML_LIST, "\"servers\"")) {
        if (names->n == 0)
            yaml_problem(&file->reader, names->line,
                         "could not place a duty: its list of servers is empty; name at least one");
        for (const struct yaml_node *name = names->first; name; name = name->next)
            place_by_name(file, name, entry);
    }
}

static int compare_numbers(size_t a, size_t b)
{
    return (a > b) - (a < b);
}

/* By server, then name, then place in the file; duties without a name come first. */
static int compare_duty_names(const void *a, const void *b)
{
    const struct placement *x = a, *y = b;
    const char *p = x->entry->duty.name, *q = y->entry->duty.name;
    int order = compare_numbers(x->server, y->server);
    if (order == 0)
        order = strcmp(p ? p : "", q ? q : "");
    return order ? order : compare_numbers(x->order, y->order);
}

/* 0 for the same lock or the same row of the same table. */
static int compare_identity(const struct duty_entry *x, const struct duty_entry *y)
{
    if (x->duty.mechanism != y->duty.mechanism)
        return x->duty.mechanism < y->duty.mechanism ? -1 : 1;
    if (x->duty.mechanism == MECHANISM_LOCK)
        return lock_key_compare(x->duty.key, y->duty.key);
    int order = strcmp(x->duty.lease.table, y->duty.lease.table);
    return order ? order : strcmp(x->duty.lease.row, y->duty.lease.row);
}

/* By server, then lock or lease, then place in the file; unidentified ones come first. */
static int compare_identities(const void *a, const void *b)
{
    const struct placement *x = a, *y = b;
    int order = compare_numbers(x->server, y->server);
    if (order == 0)
        order = (x->entry->identified > y->entry->identified) -
                (x->entry->identified < y->entry->identified);
    if (order == 0 && x->entry->identified)
        order = compare_identity(x->entry, y->entry);
    return order ? order : compare_numbers(x->order, y->order);
}

static int compare_order(const void *a, const void *b)
{
    const struct placement *x = a, *y = b;
    int order = compare_numbers(x->server, y->server);
    return order ? order : compare_numbers(x->order, y->order);
}

static void sort_placements(struct file *file, int (*compare)(const void *, const void *))
{
    if (file->n_placements > 0)
        qsort(file->placements, file->n_placements, sizeof *file->placements, compare);
}

static const char *shown_server(struct file *file, size_t server)
{
    const char *name = file->servers[server].server.name;
    return name ? yaml_show(&file->reader, name, "its server") : "its server";
}

static void find_same_names(struct file *file)
{
    sort_placements(file, compare_duty_names);
    for (size_t i = 1; i < file->n_placements; i++) {
        const struct placement *first = &file->placements[i - 1], *second = &file->placements[i];
        const struct config_duty *x = &first->entry->duty, *y = &second->entry->duty;
        if (first->server != second->server || !x->name || !y->name ||
            strcmp(x->name, y->name) != 0)
            continue;
        if (first->entry == second->entry)
            yaml_problem(&file->reader, y->line,
                         "could not put the duty \"%s\" on %s twice: its list of servers names "
                         "that server again; remove one",
                         y->name, shown_server(file, second->server));
        else
            yaml_problem(&file->reader, y->line,
                         "could not add the duty \"%s\" to %s: it is there already, by line %d; "
                         "remove one or give it another name",
                         y->name, shown_server(file, second->server), x->line);
    }
}

static const char *identity_text(struct file *file, const struct config_duty *duty)
{
    char key[LOCK_KEY_TEXT_SIZE];
    if (duty->mechanism == MECHANISM_LEASE)
        return "lease";
    lock_key_format(duty->key, key);
    return arena_printf(file->reader.arena, "lock %s", key);
}

static void find_same_keys(struct file *file)
{
    sort_placements(file, compare_identities);
    for (size_t i = 1; i < file->n_placements; i++) {
        const struct placement *first = &file->placements[i - 1], *second = &file->placements[i];
        const struct config_duty *x = &first->entry->duty, *y = &second->entry->duty;
        if (first->server != second->server || first->entry == second->entry ||
            !first->entry->identified || !second->entry->identified ||
            compare_identity(first->entry, second->entry) != 0 || text_equal(x->name, y->name))
            continue;
        yaml_problem(&file->reader, y->line,
                     "could not add the duty \"%s\" to %s: its %s is also that of \"%s\" on line "
                     "%d; every duty needs one of its own",
                     y->name ? y->name : "", shown_server(file, second->server),
                     identity_text(file, y), x->name ? x->name : "", x->line);
    }
}

/* Copies what was read into the config's own arrays. */
static void build(struct file *file)
{
    struct config *config = file->config;
    sort_placements(file, compare_order);
    struct config_server *servers = arena_array(config->arena, file->n_servers, sizeof *servers);
    size_t next = 0;
    for (size_t i = 0; i < file->n_servers; i++) {
        size_t first = next;
        while (next < file->n_placements && file->placements[next].server == i)
            next++;
        struct config_duty *duties = arena_array(config->arena, next - first, sizeof *duties);
        for (size_t j = first; j < next; j++)
            duties[j - first] = file->placements[j].entry->duty;
        servers[i] = file->servers[i].server;
        servers[i].duties = duties;
        servers[i].n_duties = next - first;
    }
    config->servers = servers;
    config->n_servers = file->n_servers;
}

static void read_file(struct file *file, const struct yaml_node *root)
{
    struct file_entry top = {0};
    config_read_top(&file->reader, root, &top, file->config);
    if (top.servers)
        read_servers(file, top.servers);
    else if (root->kind == YAML_MAP && !yaml_member(root, "servers"))
        read_environment(file);
    index_servers(file);
    if (top.duties && yaml_expect(&file->reader, top.duties, YAML_LIST, "\"duties\"")) {
        for (const struct yaml_node *node = top.duties->first; node; node = node->next)
            read_top_duty(file, node);
    }
    find_same_names(file);
    find_same_keys(file);
}

/* text NULL: the file of that path. */
static bool load(const char *path, const char *text, size_t size, struct config **ret_config,
                 struct problems *problems)
{
    CLEANUP(file_done) struct file file = {0};
    file.config = config_new(path);
    file.reader = (struct yaml_reader){
        .path = path, .arena = arena_new(), .keep = file.config->arena, .problems = problems};
    const struct yaml_node *root = NULL;
    if (text ? yaml_parse(&file.reader, text, size, &root) : yaml_load(&file.reader, &root))
        read_file(&file, root);
    if (!yaml_finish(&file.reader))
        return false;
    build(&file);
    *ret_config = STEAL(file.config);
    return true;
}

bool config_load(const char *path, struct config **ret_config, struct problems *problems)
{
    return load(path, NULL, 0, ret_config, problems);
}

bool config_parse(const char *path, const char *text, size_t size, struct config **ret_config,
                  struct problems *problems)
{
    return load(path, text, size, ret_config, problems);
}
