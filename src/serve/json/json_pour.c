/* src/serve/json/json_pour.c */
#include "serve/json/json_pour.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/sim.h"
#include "json/json.h"

#define FIRST_LEVELS 4
#define NUMBER_TEXT  24 /* the longest: a sign, 20 digits, two quotes, NUL */

enum wire_type { WIRE_VARINT, WIRE_FIXED64, WIRE_LEN, WIRE_FIXED32 = 5 };

/* A message that is open; or the numbers of a packed list, which have no tags. */
struct json_pour_level {
    const ProtobufCMessageDescriptor *message; /* NULL: a packed list */
    uint64_t end;                              /* where it ends, as json_pour.at */
    const ProtobufCFieldDescriptor *list;      /* whose bracket is open; NULL: none's */
    unsigned last;                             /* number of the last field that was written */
    bool has_members;
};

void json_pour_init(struct json_pour *pour)
{
    *pour = (struct json_pour){.step = JSON_POUR_TAG};
    belfry_buf_init(&pour->text);
}

void json_pour_fini(struct json_pour *pour)
{
    free(pour->levels);
    belfry_buf_fini(&pour->text);
    json_pour_init(pour);
}

size_t json_pour_bytes(const struct json_pour *pour)
{
    return pour->cap * sizeof(*pour->levels) + pour->text.cap;
}

uint64_t json_pour_left(const struct json_pour *pour)
{
    return pour->depth == 0 ? 0 : pour->levels[0].end - pour->at;
}

static struct json_pour_level *top(const struct json_pour *pour)
{
    return &pour->levels[pour->depth - 1];
}

static enum belfry_err put(struct belfry_buf *out, const char *text)
{
    return belfry_buf_append(out, text, strlen(text));
}

/* ---- messages in messages ---- */

/* Errors: BELFRY_ERR_LIMIT, BELFRY_ERR_NOMEM. */
static enum belfry_err push(struct json_pour *pour, const ProtobufCMessageDescriptor *message, uint64_t len)
{
    if (pour->depth == JSON_POUR_DEPTH)
        return BELFRY_ERR_LIMIT;
    if (pour->depth == pour->cap) {
        unsigned cap = pour->cap == 0 ? FIRST_LEVELS : pour->cap * 2;
        struct json_pour_level *levels = realloc(pour->levels, cap * sizeof(*levels));
        if (levels == NULL)
            return BELFRY_ERR_NOMEM;
        pour->levels = levels;
        pour->cap = cap;
    }
    pour->levels[pour->depth++] = (struct json_pour_level){.message = message, .end = pour->at + len};
    return BELFRY_OK;
}

static enum belfry_err close_list(struct json_pour_level *level, struct belfry_buf *out)
{
    if (level->list == NULL)
        return BELFRY_OK;
    level->list = NULL;
    return put(out, "]");
}

/* A field is complete: closes the messages that end with it. */
static enum belfry_err close_levels(struct json_pour *pour, struct belfry_buf *out)
{
    enum belfry_err err = BELFRY_OK;
    while (err == BELFRY_OK && pour->depth > 0 && top(pour)->end == pour->at) {
        struct json_pour_level *level = top(pour);
        if (level->message != NULL) {
            err = close_list(level, out);
            if (err == BELFRY_OK)
                err = put(out, "}");
        }
        pour->depth--;
    }
    if (pour->depth == 0) {
        free(pour->levels);
        pour->levels = NULL;
        pour->cap = 0;
        return err;
    }
    pour->step = top(pour)->message != NULL ? JSON_POUR_TAG : JSON_POUR_NUMBER;
    return err;
}

enum belfry_err json_pour_begin(struct json_pour *pour, const ProtobufCMessageDescriptor *message, uint64_t len,
                                struct belfry_buf *out)
{
    pour->at = 0;
    enum belfry_err err = push(pour, message, len);
    if (err == BELFRY_OK)
        err = put(out, "{");
    return err == BELFRY_OK ? close_levels(pour, out) : err;
}

/* ---- names ---- */

static bool is_list(const ProtobufCFieldDescriptor *field)
{
    return field->label == PROTOBUF_C_LABEL_REPEATED;
}

/* Writes what comes before a value of the field under way. Errors: BELFRY_ERR_PROTOCOL (it was there before, and others
 * came between), BELFRY_ERR_NOMEM. */
static enum belfry_err begin_value(struct json_pour *pour, struct json_pour_level *level, struct belfry_buf *out)
{
    const ProtobufCFieldDescriptor *field = pour->field;
    if (level->list == field)
        return put(out, ",");
    if (level->has_members && field->id <= level->last)
        return BELFRY_ERR_PROTOCOL;
    enum belfry_err err = close_list(level, out);
    if (err == BELFRY_OK)
        err = put(out, level->has_members ? ",\"" : "\"");
    if (err == BELFRY_OK)
        err = put(out, field->name);
    if (err == BELFRY_OK)
        err = put(out, is_list(field) ? "\":[" : "\":");
    level->list = is_list(field) ? field : NULL;
    level->last = field->id;
    level->has_members = true;
    return err;
}

/* Is a zero shown, too? One in a list, and one that says which of several fields is there. */
static bool shows_zero(const ProtobufCFieldDescriptor *field)
{
    return is_list(field) || (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

/* ---- values ---- */

static enum belfry_err put_enum(const ProtobufCFieldDescriptor *field, uint64_t number, struct belfry_buf *out)
{
    char text[NUMBER_TEXT];
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(field->descriptor, (int)(int32_t)number);
    if (value == NULL) {
        snprintf(text, sizeof(text), "%" PRId32, (int32_t)number);
        return put(out, text);
    }
    enum belfry_err err = put(out, "\"");
    if (err == BELFRY_OK)
        err = put(out, value->name);
    return err == BELFRY_OK ? put(out, "\"") : err;
}

static enum belfry_err put_number(const ProtobufCFieldDescriptor *field, uint64_t number, struct belfry_buf *out)
{
    char text[NUMBER_TEXT];
    switch (field->type) {
    case PROTOBUF_C_TYPE_BOOL:
        return put(out, number != 0 ? "true" : "false");
    case PROTOBUF_C_TYPE_ENUM:
        return put_enum(field, number, out);
    case PROTOBUF_C_TYPE_INT64:
        snprintf(text, sizeof(text), "\"%" PRId64 "\"", (int64_t)number);
        break;
    case PROTOBUF_C_TYPE_UINT64:
        snprintf(text, sizeof(text), "\"%" PRIu64 "\"", number);
        break;
    case PROTOBUF_C_TYPE_UINT32:
        snprintf(text, sizeof(text), "%" PRIu32, (uint32_t)number);
        break;
    default:
        snprintf(text, sizeof(text), "%" PRId32, (int32_t)number);
        break;
    }
    return put(out, text);
}

static bool is_number(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_BOOL || field->type == PROTOBUF_C_TYPE_ENUM ||
           field->type == PROTOBUF_C_TYPE_INT64 || field->type == PROTOBUF_C_TYPE_UINT64 ||
           field->type == PROTOBUF_C_TYPE_INT32 || field->type == PROTOBUF_C_TYPE_UINT32;
}

/* The message in which the field under way is: that of a packed list is one further out. */
static struct json_pour_level *level_of_field(const struct json_pour *pour)
{
    return top(pour)->message != NULL ? top(pour) : top(pour) - 1;
}

static enum belfry_err on_number(struct json_pour *pour, struct belfry_buf *out)
{
    const ProtobufCFieldDescriptor *field = pour->field;
    enum belfry_err err = BELFRY_OK;
    if (field != NULL && (pour->varint != 0 || shows_zero(field))) {
        err = begin_value(pour, level_of_field(pour), out);
        if (err == BELFRY_OK)
            err = put_number(field, pour->varint, out);
    }
    return err == BELFRY_OK ? close_levels(pour, out) : err;
}

/* Writes whole groups of three; at the end of the field also what is left. */
static enum belfry_err put_base64(struct json_pour *pour, struct belfry_bytes bytes, struct belfry_buf *out)
{
    enum belfry_err err = BELFRY_OK;
    while (pour->n_carry > 0 && pour->n_carry < 3 && bytes.len > 0) {
        pour->carry[pour->n_carry++] = (uint8_t)bytes.data[0];
        bytes = belfry_bytes_of(bytes.data + 1, bytes.len - 1);
    }
    if (pour->n_carry == 3 || (pour->n_carry > 0 && pour->left == 0)) {
        err = belfry_base64_encode(BELFRY_BASE64_STANDARD, belfry_bytes_of(pour->carry, pour->n_carry), out);
        pour->n_carry = 0;
    }
    size_t whole = pour->left == 0 ? bytes.len : bytes.len / 3 * 3;
    if (err == BELFRY_OK && whole > 0)
        err = belfry_base64_encode(BELFRY_BASE64_STANDARD, belfry_bytes_of(bytes.data, whole), out);
    for (size_t i = whole; i < bytes.len && !BELFRY_MUTANT(gateway_carry_lost); i++)
        pour->carry[pour->n_carry++] = (uint8_t)bytes.data[i];
    return err;
}

static enum belfry_err pass_bytes(struct json_pour *pour, struct belfry_bytes bytes, struct belfry_buf *out)
{
    enum belfry_err err = put_base64(pour, bytes, out);
    if (err == BELFRY_OK && pour->left == 0)
        err = put(out, "\"");
    return err;
}

static enum belfry_err pass_string(struct json_pour *pour, struct belfry_bytes bytes, struct belfry_buf *out)
{
    enum belfry_err err = belfry_buf_append(&pour->text, bytes.data, bytes.len);
    if (err != BELFRY_OK || pour->left > 0)
        return err;
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_text(&json, NULL, belfry_buf_bytes(&pour->text));
    belfry_buf_fini(&pour->text);
    return belfry_json_finish(&json);
}

/* ---- fields ---- */

/* Bytes, a string or a message begins, or a packed list, or something that is not known. */
static enum belfry_err on_length(struct json_pour *pour, struct belfry_buf *out)
{
    const ProtobufCFieldDescriptor *field = pour->field;
    uint64_t len = pour->varint;
    if (len > top(pour)->end - pour->at)
        return BELFRY_ERR_PROTOCOL;
    pour->left = len;
    pour->step = field == NULL                           ? JSON_POUR_SKIP
                 : field->type == PROTOBUF_C_TYPE_BYTES  ? JSON_POUR_BYTES
                 : field->type == PROTOBUF_C_TYPE_STRING ? JSON_POUR_STRING
                                                         : JSON_POUR_TAG;
    if (field == NULL || (len == 0 && field->type != PROTOBUF_C_TYPE_MESSAGE && !shows_zero(field)))
        return len == 0 ? close_levels(pour, out) : BELFRY_OK;
    if (is_number(field)) { /* packed */
        enum belfry_err err = push(pour, NULL, len);
        return err == BELFRY_OK ? close_levels(pour, out) : err;
    }
    enum belfry_err err = begin_value(pour, top(pour), out);
    if (err == BELFRY_OK && field->type == PROTOBUF_C_TYPE_MESSAGE) {
        err = push(pour, field->descriptor, len);
        if (err == BELFRY_OK)
            err = put(out, "{");
        return err == BELFRY_OK ? close_levels(pour, out) : err;
    }
    if (err == BELFRY_OK && field->type == PROTOBUF_C_TYPE_BYTES)
        err = put(out, len == 0 ? "\"\"" : "\"");
    else if (err == BELFRY_OK && len == 0)
        err = put(out, "\"\"");
    return err == BELFRY_OK && len == 0 ? close_levels(pour, out) : err;
}

/* Does a value come in the form of this field? If it does not, it is passed over. */
static bool fits(const ProtobufCFieldDescriptor *field, enum wire_type type)
{
    if (type == WIRE_VARINT)
        return is_number(field);
    if (type != WIRE_LEN)
        return false;
    return field->type == PROTOBUF_C_TYPE_BYTES || field->type == PROTOBUF_C_TYPE_STRING ||
           field->type == PROTOBUF_C_TYPE_MESSAGE || (is_number(field) && is_list(field));
}

static enum belfry_err on_tag(struct json_pour *pour)
{
    struct json_pour_level *level = top(pour);
    enum wire_type type = (enum wire_type)(pour->varint & 7);
    pour->field = pour->varint >> 3 > UINT32_MAX
                      ? NULL
                      : protobuf_c_message_descriptor_get_field(level->message, (unsigned)(pour->varint >> 3));
    if (pour->field != NULL && !fits(pour->field, type))
        pour->field = NULL;
    switch (type) {
    case WIRE_VARINT:
        pour->step = JSON_POUR_NUMBER;
        return BELFRY_OK;
    case WIRE_LEN:
        pour->step = JSON_POUR_LENGTH;
        return BELFRY_OK;
    case WIRE_FIXED64:
    case WIRE_FIXED32:
        pour->left = type == WIRE_FIXED64 ? 8 : 4;
        pour->step = JSON_POUR_SKIP;
        return pour->left > level->end - pour->at ? BELFRY_ERR_PROTOCOL : BELFRY_OK;
    }
    return BELFRY_ERR_PROTOCOL; /* groups: no message of etcd's has one */
}

/* ---- bytes ---- */

static enum belfry_err pass_varint(struct json_pour *pour, uint8_t byte, struct belfry_buf *out)
{
    pour->at++;
    pour->varint |= (uint64_t)(byte & 0x7f) << pour->shift;
    pour->shift += 7;
    if (byte >= 0x80)
        return pour->shift >= 70 || pour->at == top(pour)->end ? BELFRY_ERR_PROTOCOL : BELFRY_OK;
    enum belfry_err err;
    if (pour->step == JSON_POUR_TAG)
        err = pour->at == top(pour)->end ? BELFRY_ERR_PROTOCOL : on_tag(pour);
    else
        err = pour->step == JSON_POUR_LENGTH ? on_length(pour, out) : on_number(pour, out);
    pour->varint = 0;
    pour->shift = 0;
    return err;
}

/* Of a field whose length is known. */
static enum belfry_err pass_run(struct json_pour *pour, struct belfry_bytes bytes, struct belfry_buf *out)
{
    enum belfry_err err = BELFRY_OK;
    pour->at += bytes.len;
    pour->left -= bytes.len;
    if (pour->step == JSON_POUR_BYTES)
        err = pass_bytes(pour, bytes, out);
    else if (pour->step == JSON_POUR_STRING)
        err = pass_string(pour, bytes, out);
    return err == BELFRY_OK && pour->left == 0 ? close_levels(pour, out) : err;
}

enum belfry_err json_pour_pass(struct json_pour *pour, struct belfry_bytes bytes, struct belfry_buf *out)
{
    enum belfry_err err = BELFRY_OK;
    if (BELFRY_MUTANT(gateway_number_restarts))
        pour->varint = 0;
    for (size_t i = 0; i < bytes.len && err == BELFRY_OK;) {
        if (pour->depth == 0)
            return BELFRY_ERR_PROTOCOL;
        if (pour->step <= JSON_POUR_LENGTH) {
            err = pass_varint(pour, (uint8_t)bytes.data[i++], out);
            continue;
        }
        size_t n = bytes.len - i < pour->left ? bytes.len - i : (size_t)pour->left;
        err = pass_run(pour, belfry_bytes_of(bytes.data + i, n), out);
        i += n;
    }
    return err;
}
