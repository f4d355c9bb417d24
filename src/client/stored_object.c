/* src/client/stored_object.c */
#include "client/stored_object.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define REV_DIGITS 18 /* a decimal number of this length fits into 63 bits */

static enum belfry_err alloc(size_t key_len, size_t value_len, struct belfry_object **out)
{
    if (key_len > BELFRY_OBJECT_MAX || value_len > BELFRY_OBJECT_MAX - key_len)
        return BELFRY_ERR_TOO_LARGE;
    struct belfry_object *object = malloc(sizeof(*object) + key_len + value_len);
    if (object == NULL)
        return BELFRY_ERR_NOMEM;
    *object = (struct belfry_object){.key_len = (uint32_t)key_len, .value_len = (uint32_t)value_len, .refs = 1};
    *out = object;
    return BELFRY_OK;
}

static char *append(char *to, struct belfry_bytes bytes)
{
    if (bytes.len > 0)
        memcpy(to, bytes.data, bytes.len);
    return to + bytes.len;
}

enum belfry_err belfry_object_of_key(const struct belfry_object_key_value *kv, struct belfry_object **out)
{
    struct belfry_object *object;
    enum belfry_err err = alloc(kv->key.len, kv->value.len, &object);
    if (err != BELFRY_OK)
        return err;
    append(append(object->bytes, kv->key), kv->value);
    object->rev = kv->rev;
    object->create_rev = kv->create_rev;
    object->writes = kv->writes;
    object->lease = kv->lease;
    *out = object;
    return BELFRY_OK;
}

static int64_t number_of(struct belfry_bytes digits)
{
    int64_t number = 0;
    if (digits.len == 0 || digits.len > REV_DIGITS)
        return 0;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.data[i] < '0' || digits.data[i] > '9')
            return 0;
        number = number * 10 + (digits.data[i] - '0');
    }
    return number;
}

enum belfry_err belfry_object_of_kube(const struct belfry_object_parts *parts, struct belfry_object **out)
{
    struct belfry_object *object;
    size_t key_len = parts->ns.len + (parts->ns.len > 0) + parts->name.len;
    if (parts->uid.len > UINT16_MAX || parts->version.len > UINT16_MAX)
        return BELFRY_ERR_TOO_LARGE;
    enum belfry_err err = alloc(key_len, parts->head.len + parts->tail.len, &object);
    if (err != BELFRY_OK)
        return err;
    char *to = append(object->bytes, parts->ns);
    if (parts->ns.len > 0)
        *to++ = '/';
    to = append(to, parts->name);
    append(append(to, parts->head), parts->tail);
    object->ns_len = (uint32_t)parts->ns.len;
    object->of_kube = 1;
    object->uid_len = (uint16_t)parts->uid.len;
    object->version_len = (uint16_t)parts->version.len;
    if (parts->uid.len > 0)
        object->uid_at = (uint32_t)(parts->head.len + (size_t)(parts->uid.data - parts->tail.data));
    if (parts->version.len > 0)
        object->version_at = (uint32_t)(parts->head.len + (size_t)(parts->version.data - parts->tail.data));
    object->rev = number_of(parts->version);
    *out = object;
    return BELFRY_OK;
}

bool belfry_object_same(const struct belfry_object *a, const struct belfry_object *b)
{
    if (!a->of_kube && (a->create_rev != b->create_rev || a->rev != b->rev))
        return false;
    return belfry_bytes_equal(belfry_object_uid(a), belfry_object_uid(b)) &&
           belfry_bytes_equal(belfry_object_version(a), belfry_object_version(b)) &&
           belfry_bytes_equal(belfry_object_value(a), belfry_object_value(b));
}

size_t belfry_object_bytes(const struct belfry_object *object)
{
    return sizeof(*object) + object->key_len + object->value_len;
}

struct belfry_object *belfry_object_ref(struct belfry_object *object)
{
    assert(object->refs > 0);
    object->refs++;
    return object;
}

void belfry_object_unref(struct belfry_object *object)
{
    if (object == NULL)
        return;
    assert(object->refs > 0);
    if (--object->refs == 0)
        free(object);
}

/* ---- public functions ---- */

struct belfry_bytes belfry_object_key(const struct belfry_object *object)
{
    return belfry_bytes_of(object->bytes, object->key_len);
}

struct belfry_bytes belfry_object_value(const struct belfry_object *object)
{
    return belfry_bytes_of(object->bytes + object->key_len, object->value_len);
}

int64_t belfry_object_rev(const struct belfry_object *object)
{
    return object->rev;
}

struct belfry_bytes belfry_object_ns(const struct belfry_object *object)
{
    return belfry_bytes_of(object->bytes, object->ns_len);
}

struct belfry_bytes belfry_object_name(const struct belfry_object *object)
{
    size_t skip = object->ns_len + (object->ns_len > 0);
    return object->of_kube ? belfry_bytes_of(object->bytes + skip, object->key_len - skip)
                           : belfry_bytes_of(object->bytes, 0);
}

struct belfry_bytes belfry_object_uid(const struct belfry_object *object)
{
    return belfry_bytes_of(object->bytes + object->key_len + object->uid_at, object->uid_len);
}

struct belfry_bytes belfry_object_version(const struct belfry_object *object)
{
    return belfry_bytes_of(object->bytes + object->key_len + object->version_at, object->version_len);
}

int64_t belfry_object_create_rev(const struct belfry_object *object)
{
    return object->create_rev;
}

int64_t belfry_object_writes(const struct belfry_object *object)
{
    return object->writes;
}

int64_t belfry_object_lease(const struct belfry_object *object)
{
    return object->lease;
}

/* The reference count is not visible to users, so it may change. */
static struct belfry_object *countable(const struct belfry_object *object)
{
    return (struct belfry_object *)(uintptr_t)object;
}

const struct belfry_object *belfry_object_hold(const struct belfry_object *object)
{
    return belfry_object_ref(countable(object));
}

void belfry_object_release(const struct belfry_object *object)
{
    belfry_object_unref(countable(object));
}
