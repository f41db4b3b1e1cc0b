/* SPDX-License-Identifier: PostgreSQL */
/* Decodes PostgreSQL's binary format: big-endian integers, microseconds since 2000-01-01. */
#include "pg/decode.h"

#include <arpa/inet.h>
#include <endian.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"

/* Type oids from PostgreSQL's pg_type.dat; they never change. */
enum {
    OID_BOOL = 16,
    OID_CHAR = 18,
    OID_NAME = 19,
    OID_INT8 = 20,
    OID_INT2 = 21,
    OID_INT4 = 23,
    OID_TEXT = 25,
    OID_OID = 26,
    OID_FLOAT8 = 701,
    OID_INET = 869,
    OID_BPCHAR = 1042,
    OID_VARCHAR = 1043,
    OID_TIMESTAMPTZ = 1184,
};

/* 2000-01-01 00:00:00 UTC since 1970-01-01. */
static const int64_t postgres_epoch_us = INT64_C(946684800) * SECOND_US;

struct pg_answer {
    PGresult *result;
};

struct value {
    const char *data;
    int size;
    Oid type;
    bool null;
};

/* A text of the row before in the same column: thousands of sessions have the same address. */
struct echo {
    const char *data; /* of the answer; NULL: none yet */
    int size;
    const char *text;
};

struct pg_answer *answer_new(PGresult *result)
{
    struct pg_answer *answer = xmalloc(sizeof *answer);
    answer->result = result;
    return answer;
}

void answer_free(struct pg_answer *answer)
{
    if (!answer)
        return;
    PQclear(answer->result);
    free(answer);
}

static int64_t read_integer(const struct value *value)
{
    uint16_t two = 0;
    uint32_t four = 0;
    uint64_t eight = 0;
    switch (value->size) {
    case 2:
        memcpy(&two, value->data, 2);
        return (int16_t)be16toh(two);
    case 4:
        memcpy(&four, value->data, 4);
        return value->type == OID_OID ? (int64_t)be32toh(four) : (int32_t)be32toh(four);
    case 8:
        memcpy(&eight, value->data, 8);
        return (int64_t)be64toh(eight);
    default:
        return -1;
    }
}

static int64_t read_time(const struct value *value)
{
    int64_t us = read_integer(value);
    int64_t shifted = 0;
    if (us == INT64_MAX)
        return INT64_MAX;
    if (us == INT64_MIN || __builtin_add_overflow(us, postgres_epoch_us, &shifted))
        return us < 0 ? INT64_MIN + 1 : INT64_MAX;
    return shifted;
}

static double read_double(const struct value *value)
{
    int64_t bits = read_integer(value);
    double number = 0;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static bool is_utf8(const char *data, size_t size)
{
    for (size_t i = 0; i < size;) {
        size_t length = text_utf8_length(data + i, size - i);
        if (length == 0)
            return false;
        i += length;
    }
    return true;
}

/* Eight bytes at a time: names of sessions are mostly that, and thousands are read a second. */
static bool is_ascii(const char *data, size_t size)
{
    uint64_t all = 0, some = 0;
    size_t i = 0;
    for (; i + sizeof some <= size; i += sizeof some) {
        memcpy(&some, data + i, sizeof some);
        all |= some;
    }
    for (; i < size; i++)
        all |= (unsigned char)data[i];
    return (all & UINT64_C(0x8080808080808080)) == 0;
}

static const char *read_text(const struct value *value, struct arena *arena)
{
    size_t size = (size_t)value->size;
    if (is_ascii(value->data, size) || is_utf8(value->data, size))
        return arena_strndup(arena, value->data, size);
    char *out = arena_alloc(arena, 3 * size + 1);
    (void)text_utf8_sanitize(value->data, size, out);
    return out;
}

/* inet on the wire: family (2 is IPv4, 3 is IPv6), bits, is_cidr, size, address. */
static const char *read_inet(const struct value *value, struct arena *arena)
{
    char out[INET6_ADDRSTRLEN] = "";
    const unsigned char *data = (const unsigned char *)value->data;
    int family = value->size >= 4 && data[0] == 2 ? AF_INET : AF_INET6;
    int want = family == AF_INET ? 4 : 16;
    if (value->size < 4 + want || !inet_ntop(family, data + 4, out, sizeof out))
        return NULL;
    return arena_strdup(arena, out);
}

static bool type_fits(enum pg_field field, Oid type)
{
    switch (field) {
    case PG_BOOL:
        return type == OID_BOOL;
    case PG_INT4:
        return type == OID_INT2 || type == OID_INT4;
    case PG_INT8:
        return type == OID_INT2 || type == OID_INT4 || type == OID_INT8 || type == OID_OID;
    case PG_FLOAT8:
        return type == OID_FLOAT8;
    case PG_TIME:
        return type == OID_TIMESTAMPTZ;
    case PG_TEXT:
        return type == OID_TEXT || type == OID_NAME || type == OID_VARCHAR || type == OID_CHAR ||
               type == OID_BPCHAR;
    case PG_INET:
        return type == OID_INET;
    }
    return false;
}

static const char *read_again(const struct value *value, enum pg_field field, struct arena *arena,
                              struct echo *echo)
{
    if (value->null)
        return NULL;
    if (echo->data && echo->size == value->size &&
        memcmp(echo->data, value->data, (size_t)value->size) == 0)
        return echo->text;
    *echo = (struct echo){
        .data = value->data,
        .size = value->size,
        .text = field == PG_INET ? read_inet(value, arena) : read_text(value, arena),
    };
    return echo->text;
}

/* Writes one field of the row's struct at out. */
static void decode_value(const struct value *value, enum pg_field field, struct arena *arena,
                         struct echo *echo, void *out)
{
    switch (field) {
    case PG_BOOL:
        *(bool *)out = !value->null && value->data[0];
        break;
    case PG_INT4:
        *(int32_t *)out = value->null ? -1 : (int32_t)read_integer(value);
        break;
    case PG_INT8:
        *(int64_t *)out = value->null ? -1 : read_integer(value);
        break;
    case PG_FLOAT8:
        *(double *)out = value->null ? NAN : read_double(value);
        break;
    case PG_TIME:
        *(int64_t *)out = value->null ? TIME_UNKNOWN : read_time(value);
        break;
    case PG_TEXT:
    case PG_INET:
        *(const char **)out = read_again(value, field, arena, echo);
        break;
    }
}

static struct value value_at(const PGresult *result, int row, int column, Oid type)
{
    return (struct value){
        .data = PQgetvalue(result, row, column),
        .size = PQgetlength(result, row, column),
        .type = type,
        .null = PQgetisnull(result, row, column),
    };
}

bool decode_time(const PGresult *result, int column, int64_t *ret_us)
{
    if (column < 0 || PQntuples(result) < 1 || PQgetisnull(result, 0, column))
        return false;
    struct value value = value_at(result, 0, column, OID_TIMESTAMPTZ);
    *ret_us = read_time(&value);
    return true;
}

/* A column in the answer. */
struct place {
    int index;
    Oid type;
    struct echo echo;
};

static bool find_columns(const PGresult *result, const struct pg_column *columns,
                         struct place *places, struct error *err)
{
    for (int i = 0; columns[i].name; i++) {
        int index = PQfnumber(result, columns[i].name);
        if (index < 0)
            return error_set(err, ERROR_QUERY,
                             "could not read the answer: column \"%s\" is missing",
                             columns[i].name);
        Oid type = PQftype(result, index);
        if (!type_fits(columns[i].field, type))
            return error_set(err, ERROR_QUERY,
                             "could not read the answer: column \"%s\" has type oid %u",
                             columns[i].name, type);
        places[i] = (struct place){.index = index, .type = type};
    }
    return true;
}

bool pg_answer_decode(const struct pg_answer *answer, const struct pg_column *columns,
                      size_t row_size, struct arena *arena, void **ret_rows, size_t *ret_n,
                      struct error *err)
{
    enum { COLUMNS_MAX = 64 };
    struct place places[COLUMNS_MAX];
    const PGresult *result = answer->result;
    if (!find_columns(result, columns, places, err))
        return false;
    size_t n = (size_t)PQntuples(result);
    char *rows = arena_array(arena, n, row_size);
    for (size_t row = 0; row < n; row++) {
        for (int i = 0; columns[i].name; i++) {
            struct place *place = &places[i];
            struct value value = value_at(result, (int)row, place->index, place->type);
            decode_value(&value, columns[i].field, arena, &place->echo,
                         rows + row * row_size + columns[i].offset);
        }
    }
    *ret_rows = rows;
    *ret_n = n;
    return true;
}

/* Copies one identifier at *text quoted to out, in lower case where SQL reads it so; *text is moved
 * past it. */
static bool quote_identifier(const char **text, FILE *out)
{
    const char *s = *text;
    bool quoted = *s == '"';
    const char *start = s;
    (void)putc('"', out);
    if (quoted) {
        for (s++; *s && !(*s == '"' && s[1] != '"'); s++) {
            (void)putc(*s, out);
            if (*s == '"')
                (void)putc(*s++, out);
        }
        if (*s != '"' || s == start + 1)
            return false;
        s++;
    } else {
        size_t size = strcspn(s, ".\" \t\n");
        if (size == 0)
            return false;
        for (const char *end = s + size; s < end; s++)
            (void)putc(*s >= 'A' && *s <= 'Z' ? *s - 'A' + 'a' : *s, out);
    }
    (void)putc('"', out);
    *text = s;
    return true;
}

bool pg_quote_name(struct arena *arena, const char *name, const char **ret_quoted)
{
    CLEANUP(free_charp) char *buffer = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&buffer, &size);
    const char *rest = name;
    bool ok = quote_identifier(&rest, out);
    if (ok && *rest == '.') {
        rest++;
        (void)putc('.', out);
        ok = quote_identifier(&rest, out);
    }
    ok = fclose(out) == 0 && ok && *rest == '\0';
    if (ok)
        *ret_quoted = arena_strndup(arena, buffer, size);
    return ok;
}
