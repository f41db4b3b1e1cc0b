/* SPDX-License-Identifier: PostgreSQL */
/* Builds the tree from the parser's events. The library's own documents are not used: they compare
 * every key of a map with every other, expand aliases, and have no line for a map. */
#include "observe/yaml.h"

#include <stdlib.h>
#include <string.h>

#include <libfyaml.h>

#include "base/memory.h"
#include "base/text.h"
#include "observe/file.h"

/* A map or a list that is still open. */
struct level {
    struct yaml_node *node;
    const struct yaml_node **tail; /* where the next member is hung */
    const char *key;               /* of the member to come; NULL: a map waits for a key */
    int key_line;
    bool key_broken;
    bool flow; /* written with brackets, which may lack their end */
};

struct builder {
    struct yaml_reader *reader;
    struct level levels[YAML_DEPTH];
    size_t depth;
    const struct yaml_node *root;
    int line; /* of the last event that had one */
    int documents;
};

const char *yaml_path(struct yaml_reader *reader, const char *path)
{
    const char *slash = strrchr(reader->path, '/');
    if (!path || *path == '/' || !slash)
        return path;
    return arena_printf(reader->keep, "%.*s/%s", (int)(slash - reader->path), reader->path, path);
}

const struct yaml_node *yaml_member(const struct yaml_node *map, const char *key)
{
    for (const struct yaml_node *node = map->first; node; node = node->next) {
        if (node->key && strcmp(node->key, key) == 0)
            return node;
    }
    return NULL;
}

bool yaml_is_null(const struct yaml_node *node)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    if (node->kind != YAML_SCALAR || !node->plain)
        return false;
    for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++) {
        if (strcmp(node->text, nulls[i]) == 0)
            return true;
    }
    return false;
}

static void iter_destroyp(struct fy_token_iter **iter)
{
    fy_token_iter_destroy(*iter);
}

/* The size of a token's text; copied to out unless that is NULL. Piece by piece, because
 * fy_token_get_text of libfyaml 0.7.12 leaks where a text has many escapes. That version also
 * invents quotes where '''' stands within single quotes; *ret_doubtful says so. */
static size_t token_text(struct fy_token *token, char *out, bool *ret_doubtful)
{
    CLEANUP(iter_destroyp) struct fy_token_iter *iter = fy_token_iter_create(token);
    const struct fy_iter_chunk *chunk = NULL;
    bool single = fy_token_scalar_style(token) == FYSS_SINGLE_QUOTED, after_quote = false;
    size_t size = 0;
    int failed = 0;
    *ret_doubtful = false;
    while (iter && (chunk = fy_token_iter_chunk_next(iter, chunk, &failed))) {
        bool quote = single && chunk->len == 1 && *chunk->str == '\'';
        *ret_doubtful |= quote && after_quote;
        after_quote = quote;
        if (out)
            memcpy(out + size, chunk->str, chunk->len);
        size += chunk->len;
    }
    return size;
}

/* False, and reported, for text that we do not take. */
static bool check_scalar(struct builder *b, const char *text, size_t size, bool doubtful)
{
    if (doubtful) {
        yaml_problem(b->reader, b->line,
                     "could not read the text: '''' within single quotes is read wrongly by some "
                     "versions of the YAML library; put the text in double quotes");
        return false;
    }
    for (size_t i = 0; i < size;) {
        size_t length = text[i] ? text_utf8_length(text + i, size - i) : 0;
        if (length == 0) {
            yaml_problem(b->reader, b->line,
                         "could not read the text: an escape in it stands for %s; remove it",
                         text[i] ? "no character" : "a NUL character");
            return false;
        }
        i += length;
    }
    return true;
}

/* The scalar's text in the arena, or NULL where it holds what we do not take. */
static const char *scalar_text(struct builder *b, struct fy_token *token)
{
    bool doubtful = false;
    size_t size = token ? token_text(token, NULL, &doubtful) : 0;
    char *text = arena_alloc(b->reader->arena, size + 1);
    if (token)
        (void)token_text(token, text, &doubtful);
    return check_scalar(b, text, size, doubtful) ? text : NULL;
}

static struct yaml_node *node_new(struct builder *b, enum yaml_kind kind)
{
    struct yaml_node *node = arena_alloc(b->reader->arena, sizeof *node);
    node->kind = kind;
    node->line = b->line;
    return node;
}

/* Hangs a node below the map or list that is open, or makes it the root. */
static void attach(struct builder *b, struct yaml_node *node)
{
    if (b->depth == 0) {
        b->root = node;
        return;
    }
    struct level *level = &b->levels[b->depth - 1];
    if (level->node->kind == YAML_MAP) {
        node->key = level->key;
        node->line = level->key_line;
        if (level->key_broken)
            node->kind = YAML_BROKEN;
        level->key = NULL;
        level->key_broken = false;
    }
    *level->tail = node;
    level->tail = &node->next;
    level->node->n++;
}

static bool wants_key(const struct builder *b)
{
    return b->depth > 0 && b->levels[b->depth - 1].node->kind == YAML_MAP &&
           !b->levels[b->depth - 1].key;
}

/* Takes the key of a map's next member; text NULL: one that is reported already. */
static void take_key(struct builder *b, const char *text, bool plain)
{
    struct level *level = &b->levels[b->depth - 1];
    level->key_broken = !text;
    level->key = text ? text : "";
    level->key_line = b->line;
    if (plain && text && strcmp(text, "<<") == 0) {
        yaml_problem(b->reader, b->line,
                     "could not merge: merge keys (<<) are not supported; write the keys out");
        level->key_broken = true;
    }
}

static bool on_scalar(struct builder *b, struct fy_event *event)
{
    struct fy_token *token = event->scalar.value;
    bool plain = fy_token_scalar_style(token) == FYSS_PLAIN;
    const char *text = scalar_text(b, token);
    if (wants_key(b)) {
        take_key(b, text, plain);
        return true;
    }
    struct yaml_node *node = node_new(b, text ? YAML_SCALAR : YAML_BROKEN);
    node->text = text;
    node->plain = plain;
    attach(b, node);
    return true;
}

static bool on_open(struct builder *b, struct fy_event *event, enum yaml_kind kind)
{
    if (wants_key(b)) {
        yaml_problem(b->reader, b->line,
                     "could not read the file past this line: a map or a list is no key; put a "
                     "text with { } [ ] in quotes");
        return false;
    }
    if (b->depth == YAML_DEPTH) {
        yaml_problem(b->reader, b->line,
                     "could not read the file past this line: it nests deeper than %d levels; "
                     "nothing here needs that",
                     YAML_DEPTH);
        return false;
    }
    struct yaml_node *node = node_new(b, kind);
    attach(b, node);
    b->levels[b->depth++] = (struct level){
        .node = node,
        .tail = &node->first,
        .flow = fy_event_get_node_style(event) == FYNS_FLOW,
    };
    return true;
}

static bool on_alias(struct builder *b)
{
    yaml_problem(b->reader, b->line,
                 "could not follow an alias (*): aliases are not supported; write the value out, "
                 "or put a text that begins with * in quotes");
    if (wants_key(b))
        take_key(b, NULL, false);
    else
        attach(b, node_new(b, YAML_BROKEN));
    return true;
}

static bool on_document(struct builder *b)
{
    if (b->documents++ == 0)
        return true;
    yaml_problem(b->reader, b->line,
                 "could not read the file past this line: a second document begins; remove the "
                 "--- and what is above it, or below");
    return false;
}

/* False: there is no point in going on; the reason is reported. */
static bool on_event(struct builder *b, struct fy_event *event)
{
    const struct fy_mark *mark = fy_event_start_mark(event);
    if (mark)
        b->line = mark->line + 1;
    if (fy_event_get_tag_token(event))
        yaml_problem(b->reader, b->line,
                     "could not apply a tag (!): tags are not supported; remove it, or put a text "
                     "that begins with ! in quotes");
    switch (event->type) {
    case FYET_DOCUMENT_START:
        return on_document(b);
    case FYET_SCALAR:
        return on_scalar(b, event);
    case FYET_ALIAS:
        return on_alias(b);
    case FYET_MAPPING_START:
        return on_open(b, event, YAML_MAP);
    case FYET_SEQUENCE_START:
        return on_open(b, event, YAML_LIST);
    case FYET_MAPPING_END:
    case FYET_SEQUENCE_END:
        b->depth--;
        return true;
    case FYET_NONE:
    case FYET_STREAM_START:
    case FYET_STREAM_END:
    case FYET_DOCUMENT_END:
        break;
    }
    return true;
}

/* The parser's own complaint. What it quotes from the file is left out. */
static void report_syntax(struct builder *b, struct fy_diag *diag)
{
    void *iterator = NULL;
    const struct fy_diag_error *first = fy_diag_errors_iterate(diag, &iterator);
    const char *why = first && first->msg ? first->msg : "the parser gave up";
    int line = first && first->line > 0 ? first->line : b->line;
    int length = (int)strcspn(why, "'(<");
    while (length > 0 && (why[length - 1] == ' ' || why[length - 1] == '\n'))
        length--;
    const struct level *open = b->depth ? &b->levels[b->depth - 1] : NULL;
    CLEANUP(free_charp) char *inside = NULL;
    if (open && open->flow && open->node->line < line)
        inside = xasprintf(", in the %s that begins on line %d",
                           open->node->kind == YAML_LIST ? "list" : "map", open->node->line);
    yaml_problem(b->reader, line,
                 "could not read the file past this line: it is not YAML: %.*s%s; check "
                 "indentation, colons and quotes here and just above",
                 length, why, inside ? inside : "");
}

static void discard(struct fy_diag *diag, void *user, const char *text, size_t size)
{
    (void)diag, (void)user, (void)text, (void)size;
}

static bool run_parser(struct builder *b, struct fy_parser *parser, struct fy_diag *diag)
{
    for (;;) {
        struct fy_event *event = fy_parser_parse(parser);
        if (!event)
            break;
        bool more = on_event(b, event);
        fy_parser_event_free(parser, event);
        if (!more)
            return false;
    }
    if (fy_parser_get_stream_error(parser) || b->depth > 0) {
        report_syntax(b, diag);
        return false;
    }
    return true;
}

/* The first line with a byte that is no text, or 0. *ret_brackets counts [ and {. */
static int scan_bytes(const char *text, size_t size, int *ret_brackets)
{
    int line = 1;
    *ret_brackets = 0;
    for (size_t i = 0; i < size;) {
        size_t length = text[i] ? text_utf8_length(text + i, size - i) : 0;
        if (length == 0)
            return line;
        line += text[i] == '\n';
        *ret_brackets += text[i] == '[' || text[i] == '{';
        i += length;
    }
    return 0;
}

static bool check_bytes(struct yaml_reader *reader, const char *text, size_t size)
{
    int brackets = 0;
    int line = size > YAML_SIZE ? 0 : scan_bytes(text, size, &brackets);
    if (size > YAML_SIZE)
        yaml_problem(reader, 1, "could not read the file: it has more than %d bytes", YAML_SIZE);
    else if (line)
        yaml_problem(reader, line,
                     "could not read the file: a byte on this line is not UTF-8 text; save the "
                     "file as UTF-8");
    else if (brackets > YAML_BRACKETS)
        yaml_problem(reader, 1,
                     "could not read the file: it has more than %d brackets; write lists and maps "
                     "by indentation",
                     YAML_BRACKETS);
    else
        return true;
    return false;
}

bool yaml_parse(struct yaml_reader *reader, const char *text, size_t size,
                const struct yaml_node **ret_root)
{
    if (!check_bytes(reader, text, size))
        return false;
    struct builder b = {.reader = reader, .line = 1};
    struct fy_diag_cfg diag_cfg = {.output_fn = discard, .level = FYET_ERROR};
    struct fy_diag *diag = fy_diag_create(&diag_cfg);
    if (diag)
        fy_diag_set_collect_errors(diag, true);
    struct fy_parse_cfg cfg = {.flags = FYPCF_JSON_NONE, .diag = diag};
    struct fy_parser *parser = diag ? fy_parser_create(&cfg) : NULL;
    if (!parser || fy_parser_set_string(parser, text, size) != 0)
        abort(); /* only for want of memory */
    bool ok = run_parser(&b, parser, diag);
    fy_parser_destroy(parser);
    fy_diag_destroy(diag);
    if (ok && (!b.root || yaml_is_null(b.root))) {
        yaml_problem(reader, 1, "could not find a setting: the file is empty");
        return false;
    }
    if (ok)
        *ret_root = b.root;
    return ok;
}

bool yaml_load(struct yaml_reader *reader, const struct yaml_node **ret_root)
{
    CLEANUP(free_charp) char *text = NULL;
    size_t size = 0;
    struct error err;
    if (!file_read(reader->path, YAML_SIZE, &text, &size, &err)) {
        yaml_problem(reader, 1, "could not read the file: %s", err.message);
        return false;
    }
    return yaml_parse(reader, text, size, ret_root);
}
