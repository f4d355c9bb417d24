/* src/serve/json/json_read.c */
#include "serve/json/json_read.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include <yyjson.h>

#include "serve/json/go_base64.h"
#include "serve/json/json_int.h"
#include "wire/write.h"
#include "json/json_alc.h"

#define FIELDS_MAX 64 /* of a message: etcd's have no more than 17 */

enum wire_type { WIRE_VARINT = 0, WIRE_LEN = 2 };

/* The lengths of messages and bytes are known when these are written: there is room for the longest before them, and
 * shorter ones are padded, as the format allows. */
#define LENGTH_BYTES 5

struct reader {
    struct belfry_buf *out;
    unsigned depth;
    char *why;
};

/* One message while it is read. */
struct message {
    const ProtobufCMessageDescriptor *type;
    uint64_t seen;  /* its fields, as bits */
    unsigned oneof; /* offset of the choice that was made among fields that exclude each other; 0: none */
};

__attribute__((format(printf, 2, 3))) static enum belfry_err fail(struct reader *reader, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(reader->why, JSON_READ_WHY, format, args);
    va_end(args);
    return BELFRY_ERR_INVALID;
}

/* ---- what is written ---- */

static enum belfry_err write_varint(struct belfry_buf *out, uint64_t value)
{
    uint8_t bytes[BELFRY_WRITE_VARINT_MAX];
    return belfry_buf_append(out, bytes, (size_t)(belfry_write_varint(bytes, value) - bytes));
}

static enum belfry_err write_tag(struct belfry_buf *out, const ProtobufCFieldDescriptor *field, enum wire_type type)
{
    return write_varint(out, (uint64_t)field->id << 3 | type);
}

/* What follows until end_length() has a length before it. *out_at: for that one. */
static enum belfry_err begin_length(struct belfry_buf *out, const ProtobufCFieldDescriptor *field, size_t *out_at)
{
    static const uint8_t room[LENGTH_BYTES];
    enum belfry_err err = write_tag(out, field, WIRE_LEN);
    *out_at = belfry_buf_len(out);
    return err == BELFRY_OK ? belfry_buf_append(out, room, sizeof(room)) : err;
}

static void end_length(struct belfry_buf *out, size_t at)
{
    size_t len = belfry_buf_len(out) - at - LENGTH_BYTES;
    uint8_t *to = out->data + out->start + at;
    for (unsigned i = 0; i < LENGTH_BYTES; i++)
        to[i] = (uint8_t)((len >> (7 * i) & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
}

/* Is a zero written, too? One in a list, and one that says which of several fields is there. Elsewhere it is as if it
 * was not there, for etcd as well: an empty range_end that is written is another one than none. */
static bool writes_zero(const ProtobufCFieldDescriptor *field)
{
    return field->label == PROTOBUF_C_LABEL_REPEATED || (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

static enum belfry_err write_number(struct belfry_buf *out, const ProtobufCFieldDescriptor *field, uint64_t number)
{
    if (number == 0 && !writes_zero(field))
        return BELFRY_OK;
    enum belfry_err err = write_tag(out, field, WIRE_VARINT);
    return err == BELFRY_OK ? write_varint(out, number) : err;
}

/* ---- values ---- */

static const char *type_name(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_BOOL:
        return "bool";
    case PROTOBUF_C_TYPE_BYTES:
        return "bytes";
    case PROTOBUF_C_TYPE_STRING:
        return "string";
    case PROTOBUF_C_TYPE_ENUM:
        return "enum";
    case PROTOBUF_C_TYPE_INT64:
        return "int64";
    case PROTOBUF_C_TYPE_UINT64:
        return "uint64";
    case PROTOBUF_C_TYPE_UINT32:
        return "uint32";
    default:
        return "int32";
    }
}

static enum belfry_err bad_value(struct reader *reader, const ProtobufCFieldDescriptor *field)
{
    return fail(reader, "proto: invalid value for %s field %s", type_name(field), field->name);
}

static struct belfry_bytes text_of(yyjson_val *value)
{
    return belfry_bytes_of(yyjson_get_str(value), yyjson_get_len(value));
}

/* A number, or a string that holds one. False: it is none that fits. */
static bool read_number(const ProtobufCFieldDescriptor *field, yyjson_val *value, uint64_t *out)
{
    bool negative;
    uint64_t amount;
    bool is_raw = yyjson_is_raw(value);
    if (!is_raw && !yyjson_is_str(value))
        return false;
    struct belfry_bytes text = is_raw ? belfry_bytes_of(yyjson_get_raw(value), yyjson_get_len(value)) : text_of(value);
    if (!json_int_read(text, &negative, &amount))
        return false;
    bool is_unsigned = field->type == PROTOBUF_C_TYPE_UINT64 || field->type == PROTOBUF_C_TYPE_UINT32;
    bool is_short = field->type != PROTOBUF_C_TYPE_INT64 && field->type != PROTOBUF_C_TYPE_UINT64;
    uint64_t most = is_short ? (is_unsigned ? UINT32_MAX : INT32_MAX) : is_unsigned ? UINT64_MAX : INT64_MAX;
    if (negative ? amount > (is_unsigned ? 0 : most + 1) : amount > most)
        return false;
    *out = negative ? ~amount + 1 : amount;
    return true;
}

static enum belfry_err read_enum(struct reader *reader, const ProtobufCFieldDescriptor *field, yyjson_val *value)
{
    uint64_t number;
    if (yyjson_is_str(value)) {
        const ProtobufCEnumValue *known =
            protobuf_c_enum_descriptor_get_value_by_name(field->descriptor, yyjson_get_str(value));
        if (known == NULL || strlen(known->name) != yyjson_get_len(value))
            return BELFRY_OK;
        number = (uint64_t)(int64_t)known->value;
    } else if (!read_number(field, value, &number)) {
        return bad_value(reader, field);
    }
    return write_number(reader->out, field, number);
}

static enum belfry_err read_scalar(struct reader *reader, const ProtobufCFieldDescriptor *field, yyjson_val *value)
{
    uint64_t number = yyjson_get_bool(value);
    bool is_good = field->type == PROTOBUF_C_TYPE_BOOL ? yyjson_is_bool(value) : read_number(field, value, &number);
    if (!is_good)
        return bad_value(reader, field);
    return write_number(reader->out, field, number);
}

static enum belfry_err read_text(struct reader *reader, const ProtobufCFieldDescriptor *field, yyjson_val *value)
{
    size_t at;
    if (!yyjson_is_str(value))
        return bad_value(reader, field);
    size_t before = belfry_buf_len(reader->out);
    enum belfry_err err = begin_length(reader->out, field, &at);
    if (err != BELFRY_OK)
        return err;
    if (field->type == PROTOBUF_C_TYPE_STRING)
        err = belfry_buf_append(reader->out, yyjson_get_str(value), yyjson_get_len(value));
    else
        err = go_base64_read(text_of(value), reader->out);
    if (err == BELFRY_ERR_INVALID)
        return bad_value(reader, field);
    if (err == BELFRY_OK && belfry_buf_len(reader->out) == at + LENGTH_BYTES && !writes_zero(field))
        reader->out->end = reader->out->start + before;
    else
        end_length(reader->out, at);
    return err;
}

static enum belfry_err read_members(struct reader *reader, const ProtobufCMessageDescriptor *type, yyjson_val *value);

static enum belfry_err read_message(struct reader *reader, const ProtobufCFieldDescriptor *field, yyjson_val *value)
{
    size_t at;
    enum belfry_err err = begin_length(reader->out, field, &at);
    if (err == BELFRY_OK)
        err = read_members(reader, field->descriptor, value);
    if (err == BELFRY_OK)
        end_length(reader->out, at);
    return err;
}

static enum belfry_err read_value(struct reader *reader, const ProtobufCFieldDescriptor *field, yyjson_val *value)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return read_message(reader, field, value);
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_STRING:
        return read_text(reader, field, value);
    case PROTOBUF_C_TYPE_ENUM:
        return read_enum(reader, field, value);
    default:
        return read_scalar(reader, field, value);
    }
}

static enum belfry_err read_list(struct reader *reader, const ProtobufCFieldDescriptor *field, yyjson_val *value)
{
    size_t i, n;
    yyjson_val *item;
    enum belfry_err err = BELFRY_OK;
    if (!yyjson_is_arr(value))
        return fail(reader, "proto: syntax error: the value of %s is no array", field->name);
    yyjson_arr_foreach(value, i, n, item)
    {
        if (err == BELFRY_OK)
            err = read_value(reader, field, item);
    }
    return err;
}

/* ---- names ---- */

/* Is `name` the camelCase of `field`? */
static bool is_camel(const char *field, struct belfry_bytes name)
{
    size_t i = 0;
    for (; *field != '\0'; field++, i++) {
        bool is_upper = *field == '_' && field[1] >= 'a' && field[1] <= 'z';
        char c = is_upper ? (char)(*++field - 'a' + 'A') : *field;
        if (i >= name.len || name.data[i] != c)
            return false;
    }
    return i == name.len;
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *type, struct belfry_bytes name)
{
    for (unsigned i = 0; i < type->n_fields; i++) {
        const char *own = type->fields[i].name;
        if (belfry_bytes_equal(name, belfry_bytes_str(own)) || is_camel(own, name))
            return &type->fields[i];
    }
    return NULL;
}

/* A field that is there twice, or beside one that excludes it, is an error. */
static enum belfry_err note_field(struct reader *reader, struct message *message, const ProtobufCFieldDescriptor *field,
                                  bool is_null)
{
    uint64_t bit = (uint64_t)1 << (field - message->type->fields);
    if ((message->seen & bit) != 0)
        return fail(reader, "proto: duplicate field \"%s\"", field->name);
    message->seen |= bit;
    if (is_null || (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0)
        return BELFRY_OK;
    if (message->oneof == field->quantifier_offset)
        return fail(reader, "proto: error parsing \"%s\", another field of its oneof is already set", field->name);
    message->oneof = field->quantifier_offset;
    return BELFRY_OK;
}

static enum belfry_err read_member(struct reader *reader, struct message *message, yyjson_val *key, yyjson_val *value)
{
    const ProtobufCFieldDescriptor *field = find_field(message->type, text_of(key));
    if (field == NULL)
        return BELFRY_OK;
    enum belfry_err err = note_field(reader, message, field, yyjson_is_null(value));
    if (err != BELFRY_OK || yyjson_is_null(value))
        return err;
    return field->label == PROTOBUF_C_LABEL_REPEATED ? read_list(reader, field, value)
                                                     : read_value(reader, field, value);
}

static enum belfry_err read_members(struct reader *reader, const ProtobufCMessageDescriptor *type, yyjson_val *value)
{
    size_t i, n;
    yyjson_val *key, *member;
    struct message message = {.type = type};
    enum belfry_err err = BELFRY_OK;
    _Static_assert(sizeof(message.seen) * 8 >= FIELDS_MAX, "a bit for each field");
    if (!yyjson_is_obj(value) || type->n_fields > FIELDS_MAX)
        return fail(reader, "proto: syntax error: a value of %s is no object", type->name);
    if (reader->depth == JSON_READ_DEPTH)
        return fail(reader, "proto: exceeded max recursion depth");
    reader->depth++;
    yyjson_obj_foreach(value, i, n, key, member)
    {
        if (err == BELFRY_OK)
            err = read_member(reader, &message, key, member);
    }
    reader->depth--;
    return err;
}

enum belfry_err json_read(const ProtobufCMessageDescriptor *message, struct belfry_bytes text, struct belfry_buf *out,
                          char why[JSON_READ_WHY])
{
    struct reader reader = {.out = out, .why = why};
    yyjson_read_err error;
    size_t before = belfry_buf_len(out);
    why[0] = '\0';
    /* without YYJSON_READ_INSITU the text is not changed */
    yyjson_doc *doc =
        yyjson_read_opts((char *)(uintptr_t)text.data, text.len, YYJSON_READ_NUMBER_AS_RAW, &belfry_json_alc, &error);
    if (doc == NULL && error.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        return BELFRY_ERR_NOMEM;
    if (doc == NULL)
        return fail(&reader, "%s, at byte %zu", error.msg, error.pos);
    enum belfry_err err = read_members(&reader, message, yyjson_doc_get_root(doc));
    yyjson_doc_free(doc);
    if (err != BELFRY_OK)
        out->end = out->start + before;
    return err;
}
