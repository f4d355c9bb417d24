/* src/client/range_bytes.c */
#include "client/range_bytes.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

static const struct belfry_bytes zero = {"", 1}; /* one zero byte: the first key; as an end, "to the last key" */

struct belfry_range belfry_key(const char *key)
{
    return (struct belfry_range){.key = belfry_bytes_str(key), .kind = BELFRY_KEY};
}

struct belfry_range belfry_prefix(const char *prefix)
{
    return (struct belfry_range){.key = belfry_bytes_str(prefix), .kind = BELFRY_PREFIX};
}

struct belfry_range belfry_from(const char *key)
{
    return (struct belfry_range){.key = belfry_bytes_str(key), .kind = BELFRY_FROM};
}

struct belfry_range belfry_interval(const char *key, const char *end)
{
    return (struct belfry_range){.key = belfry_bytes_str(key), .end = belfry_bytes_str(end), .kind = BELFRY_INTERVAL};
}

struct belfry_range belfry_key_bytes(const void *key, size_t len)
{
    return (struct belfry_range){.key = belfry_bytes_of(key, len), .kind = BELFRY_KEY};
}

struct belfry_range belfry_prefix_bytes(const void *prefix, size_t len)
{
    return (struct belfry_range){.key = belfry_bytes_of(prefix, len), .kind = BELFRY_PREFIX};
}

const char *belfry_range_why(enum belfry_err err)
{
    return err == BELFRY_ERR_INVALID ? "the range is empty, or is of no known kind" : NULL;
}

/* The end of a prefix: cut it after its last byte below 0xff, and add one to that byte. */
static size_t prefix_end(struct belfry_bytes prefix)
{
    size_t len = prefix.len;
    while (len > 0 && (unsigned char)prefix.data[len - 1] == 0xff)
        len--;
    return len;
}

enum belfry_err belfry_range_wire(struct belfry_range range, struct belfry_wire_range **out)
{
    struct belfry_bytes key = range.key.len > 0 ? range.key : zero, end = {NULL, 0};
    size_t raise = 0; /* length of a prefix's end; 0: not a prefix */
    switch (range.kind) {
    case BELFRY_KEY:
        if (range.key.len == 0)
            return BELFRY_ERR_INVALID;
        break;
    case BELFRY_PREFIX:
        raise = prefix_end(range.key);
        end = raise > 0 ? belfry_bytes_of(range.key.data, raise) : zero;
        break;
    case BELFRY_FROM:
        end = zero;
        break;
    case BELFRY_INTERVAL:
        if (belfry_bytes_cmp(range.key, range.end) >= 0)
            return BELFRY_ERR_INVALID;
        end = range.end;
        break;
    default: /* an invalid number from the caller */
        return BELFRY_ERR_INVALID;
    }
    struct belfry_wire_range *wire = malloc(sizeof(*wire) + key.len + end.len);
    if (wire == NULL)
        return BELFRY_ERR_NOMEM;
    char *bytes = (char *)(wire + 1);
    memcpy(bytes, key.data, key.len);
    if (end.len > 0)
        memcpy(bytes + key.len, end.data, end.len);
    if (raise > 0)
        bytes[key.len + raise - 1]++;
    wire->key = belfry_bytes_of(bytes, key.len);
    wire->end = belfry_bytes_of(bytes + key.len, end.len);
    *out = wire;
    return BELFRY_OK;
}
