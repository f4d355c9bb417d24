/* src/json/member.c */
#include "json/member.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define SAID_MAX 384

enum belfry_err belfry_kube_member_wrong(const struct belfry_kube_members *members, const char *key, const char *format,
                                         ...)
{
    char said[SAID_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(said, sizeof(said), format, args);
    va_end(args);
    return belfry_kube_fault_say(members->fault, "%s%s%s: %s", members->where, members->where[0] == '\0' ? "" : ".",
                                 key, said);
}

static yyjson_val *get(const struct belfry_kube_members *members, const char *key)
{
    yyjson_val *value = yyjson_obj_get(members->object, key);
    return yyjson_is_null(value) ? NULL : value;
}

static const char *type_of(yyjson_val *value)
{
    return yyjson_is_raw(value) ? "number" : yyjson_get_type_desc(value);
}

static enum belfry_err copy_text(yyjson_val *value, char **out)
{
    *out = strndup(yyjson_get_str(value), yyjson_get_len(value));
    return *out == NULL ? BELFRY_ERR_NOMEM : BELFRY_OK;
}

enum belfry_err belfry_kube_member_text(const struct belfry_kube_members *members, const char *key, char **out)
{
    yyjson_val *value = get(members, key);
    *out = NULL;
    if (value == NULL)
        return BELFRY_OK;
    if (!yyjson_is_str(value))
        return belfry_kube_member_wrong(members, key, "must be a text, not a value of type %s", type_of(value));
    if (strlen(yyjson_get_str(value)) != yyjson_get_len(value))
        return belfry_kube_member_wrong(members, key, "holds a zero byte");
    return copy_text(value, out);
}

enum belfry_err belfry_kube_member_need(const struct belfry_kube_members *members, const char *key, char **out)
{
    yyjson_val *value = get(members, key);
    if (value == NULL || (yyjson_is_str(value) && yyjson_get_len(value) == 0))
        return belfry_kube_member_wrong(members, key, value == NULL ? "missing" : "empty");
    return belfry_kube_member_text(members, key, out);
}

enum belfry_err belfry_kube_member_bool(const struct belfry_kube_members *members, const char *key, bool *out)
{
    yyjson_val *value = get(members, key);
    if (value != NULL && !yyjson_is_bool(value))
        return belfry_kube_member_wrong(members, key, "must be true or false, not a value of type %s", type_of(value));
    *out = yyjson_get_bool(value);
    return BELFRY_OK;
}

/* INT64_MAX: not an integer, or too long for 32 bits. */
static int64_t raw_integer(struct belfry_bytes raw)
{
    char digits[16], *end;
    if (raw.len >= sizeof(digits))
        return INT64_MAX;
    memcpy(digits, raw.data, raw.len);
    digits[raw.len] = '\0';
    int64_t value = strtoll(digits, &end, 10);
    return *end == '\0' ? value : INT64_MAX;
}

/* A number is raw text, or a value converted from a YAML form that JSON lacks. */
enum belfry_err belfry_kube_member_int32(const struct belfry_kube_members *members, const char *key, int64_t *out)
{
    yyjson_val *value = get(members, key);
    *out = yyjson_get_sint(value);
    if (yyjson_is_raw(value))
        *out = raw_integer(belfry_bytes_of(yyjson_get_raw(value), yyjson_get_len(value)));
    else if (value != NULL && !yyjson_is_int(value))
        return belfry_kube_member_wrong(members, key, "must be a whole number, not a value of type %s", type_of(value));
    if (*out < INT32_MIN || *out > INT32_MAX)
        return belfry_kube_member_wrong(members, key, "must be a whole number of 32 bits");
    return BELFRY_OK;
}

enum belfry_err belfry_kube_member_list(const struct belfry_kube_members *members, const char *key, size_t max,
                                        yyjson_val **out)
{
    *out = get(members, key);
    if (*out != NULL && !yyjson_is_arr(*out))
        return belfry_kube_member_wrong(members, key, "must be a list, not a value of type %s", type_of(*out));
    if (yyjson_arr_size(*out) > max)
        return belfry_kube_member_wrong(members, key, "has %zu elements: at most %zu are read", yyjson_arr_size(*out),
                                        max);
    return BELFRY_OK;
}

static enum belfry_err enter_member(const struct belfry_kube_members *from, const char *key, yyjson_val *value,
                                    struct belfry_kube_members *out)
{
    if (value != NULL && !yyjson_is_obj(value))
        return belfry_kube_member_wrong(from, key, "must be a map, not a value of type %s", type_of(value));
    *out = (struct belfry_kube_members){.object = value, .fault = from->fault};
    int n = snprintf(out->where, sizeof(out->where), "%s%s%s", from->where, from->where[0] == '\0' ? "" : ".", key);
    if (n >= KUBE_WHERE_MAX) /* cannot happen: our longest path is spec.versions[i].selectableFields[k] */
        memcpy(out->where, "...", sizeof("..."));
    return BELFRY_OK;
}

enum belfry_err belfry_kube_member_object(const struct belfry_kube_members *members, const char *key,
                                          struct belfry_kube_members *out)
{
    return enter_member(members, key, get(members, key), out);
}

enum belfry_err belfry_kube_member_element(const struct belfry_kube_members *members, const char *key, size_t i,
                                           yyjson_val *element, struct belfry_kube_members *out)
{
    char name[KUBE_WHERE_MAX];
    snprintf(name, sizeof(name), "%s[%zu]", key, i);
    return enter_member(members, name, element, out);
}
