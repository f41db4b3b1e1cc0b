/* SPDX-License-Identifier: PostgreSQL */
/* Reads Accept and Accept-Encoding in one pass, with no allocation. A header that is not well
 * formed counts as none. */
#include "exporter/negotiate.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

struct slice {
    const char *text;
    size_t size;
};

/* One member of the list: "text/plain;version=0.0.4;q=0.5", or "gzip;q=0". */
struct member {
    struct slice name;
    struct slice version; /* the parameter `version`; size 0: none */
    int q;                /* in thousandths */
};

static bool is_token_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

static bool slice_is(struct slice slice, const char *text)
{
    return strlen(text) == slice.size && strncasecmp(slice.text, text, slice.size) == 0;
}

static void skip_space(const char **p)
{
    while (**p == ' ' || **p == '\t')
        (*p)++;
}

static bool skip_char(const char **p, char c)
{
    if (**p != c)
        return false;
    (*p)++;
    return true;
}

/* The longest run of token characters, and of '/' where a media type is read; empty is an error. */
static bool read_token(const char **p, bool slash, struct slice *ret_token)
{
    const char *start = *p;
    while (is_token_char(**p) || (slash && **p == '/'))
        (*p)++;
    *ret_token = (struct slice){start, (size_t)(*p - start)};
    return *p > start;
}

/* A quoted string; its value is taken as it stands between the quotes, escapes and all. */
static bool read_quoted(const char **p, struct slice *ret_value)
{
    const char *start = ++*p;
    while (**p && **p != '"')
        *p += **p == '\\' && (*p)[1] ? 2 : 1;
    *ret_value = (struct slice){start, (size_t)(*p - start)};
    return skip_char(p, '"');
}

/* "0", "0.25", "1.000". */
static bool read_weight(struct slice text, int *ret_q)
{
    if (text.size == 0 || (text.text[0] != '0' && text.text[0] != '1'))
        return false;
    if (text.size > 1 && text.text[1] != '.')
        return false;
    int q = (text.text[0] - '0') * 1000;
    for (size_t i = 2, unit = 100; i < text.size; i++, unit /= 10) {
        if (text.text[i] < '0' || text.text[i] > '9')
            return false;
        q += (text.text[i] - '0') * (int)unit;
    }
    *ret_q = q;
    return q <= 1000;
}

/* Reads "; name=value" zero or more times; parameters of no interest are let pass. */
static bool read_parameters(const char **p, struct member *member)
{
    for (;;) {
        struct slice name, value;
        skip_space(p);
        if (!skip_char(p, ';'))
            return true;
        skip_space(p);
        if (**p == ';' || **p == ',' || **p == '\0')
            continue; /* RFC 9110 section 5.6.6 lets a parameter be empty */
        if (!read_token(p, false, &name) || !skip_char(p, '='))
            return false;
        if (!(**p == '"' ? read_quoted(p, &value) : read_token(p, false, &value)))
            return false;
        if (slice_is(name, "q") && !read_weight(value, &member->q))
            return false;
        if (slice_is(name, "version"))
            member->version = value;
    }
}

enum step { STEP_MEMBER, STEP_END, STEP_MALFORMED };

/* The next member of the list; empty ones are skipped. */
static enum step next_member(const char **p, struct member *member)
{
    *member = (struct member){.q = 1000};
    do
        skip_space(p);
    while (skip_char(p, ','));
    if (**p == '\0')
        return STEP_END;
    bool well_formed = read_token(p, true, &member->name) && read_parameters(p, member) &&
                       (**p == ',' || **p == '\0');
    return well_formed ? STEP_MEMBER : STEP_MALFORMED;
}

/* How well a format is asked for. Of several members that match, the most specific speaks for it
 * (RFC 9110 section 12.5.1), whatever its weight. */
struct wish {
    int specificity; /* 0: not named, 1: any type, 2: any subtype, 3: the type, 4: its version */
    int q;
    int place; /* in the list */
};

static const struct format {
    const char *type;
    const char *family;
    const char *version;
    const char *content_type;
} formats[FORMAT_COUNT] = {
    [FORMAT_TEXT] = {"text/plain", "text/*", "0.0.4", "text/plain; version=0.0.4; charset=utf-8"},
    [FORMAT_OPENMETRICS] = {"application/openmetrics-text", "application/*", "1.0.0",
                            "application/openmetrics-text; version=1.0.0; charset=utf-8"},
};

/* 0 where the member does not speak of the format. */
static int specificity_of(const struct member *member, const struct format *format)
{
    if (slice_is(member->name, "*/*"))
        return 1;
    if (slice_is(member->name, format->family))
        return 2;
    if (!slice_is(member->name, format->type))
        return 0;
    if (member->version.size == 0)
        return 3;
    return slice_is(member->version, format->version) ? 4 : 0;
}

static void wish_add(struct wish *wish, const struct member *member, int specificity, int place)
{
    if (specificity == 0 || specificity < wish->specificity)
        return;
    if (specificity == wish->specificity && member->q <= wish->q)
        return;
    *wish = (struct wish){specificity, member->q, place};
}

/* Weight 0 is a refusal. Otherwise weight decides, then who was named more exactly, then who was
 * named first. */
static bool preferred(const struct wish *a, const struct wish *b)
{
    if (a->q != b->q || a->q == 0)
        return a->q > b->q;
    if (a->specificity != b->specificity)
        return a->specificity > b->specificity;
    return a->place < b->place;
}

enum exposition_format negotiate_format(const char *accept)
{
    struct wish wishes[FORMAT_COUNT] = {0};
    struct member member;
    enum step step;
    const char *p = accept ? accept : "";
    for (int place = 0; (step = next_member(&p, &member)) == STEP_MEMBER; place++) {
        for (int i = 0; i < FORMAT_COUNT; i++)
            wish_add(&wishes[i], &member, specificity_of(&member, &formats[i]), place);
    }
    bool open = preferred(&wishes[FORMAT_OPENMETRICS], &wishes[FORMAT_TEXT]);
    return open && step == STEP_END ? FORMAT_OPENMETRICS : FORMAT_TEXT;
}

bool negotiate_gzip(const char *accept_encoding)
{
    int gzip = -1, identity = -1, any = -1;
    struct member member;
    enum step step;
    const char *p = accept_encoding ? accept_encoding : "";
    while ((step = next_member(&p, &member)) == STEP_MEMBER) {
        if (slice_is(member.name, "gzip") || slice_is(member.name, "x-gzip"))
            gzip = member.q;
        else if (slice_is(member.name, "identity"))
            identity = member.q;
        else if (slice_is(member.name, "*"))
            any = member.q;
    }
    if (gzip < 0)
        gzip = any;
    return step == STEP_END && gzip > 0 && gzip >= identity;
}

const char *exposition_content_type(enum exposition_format format)
{
    return formats[format].content_type;
}
