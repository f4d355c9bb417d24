/* src/kfollow/resource_kv.c */
#include "kfollow/resource_kv.h"

#include "base/xxh64.h"
#include "wire/write.h"

bool resource_rv_read(struct belfry_bytes text, int64_t *out)
{
    int64_t rv = 0;
    if (text.len == 0 || text.data[0] == '0')
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (c < '0' || c > '9' || rv > (INT64_MAX - (c - '0')) / 10)
            return false;
        rv = rv * 10 + (c - '0');
    }
    *out = rv;
    return true;
}

int64_t resource_uid_mark(struct belfry_bytes uid)
{
    return (int64_t)(belfry_xxh64(0, uid) >> 1);
}

struct belfry_wire_kv resource_kv_of(const struct resource_object *object, const struct ingest_found *before)
{
    return (struct belfry_wire_kv){.key = object->key,
                                   .value = object->json,
                                   .mod_rev = object->rv,
                                   .create_rev = before != NULL ? before->create_rev : object->rv,
                                   .version = before != NULL ? before->version + 1 : 1,
                                   .lease = resource_uid_mark(object->uid)};
}

enum belfry_err resource_kv_write(const struct belfry_wire_kv *kv, struct belfry_buf *room, struct belfry_wire_kv *out)
{
    size_t size = belfry_write_kv_size(kv);
    uint8_t *to;
    belfry_buf_clear(room);
    enum belfry_err err = belfry_buf_reserve(room, size, &to);
    if (err != BELFRY_OK)
        return err;
    belfry_write_kv(kv, to);
    belfry_buf_grown(room, size);
    return belfry_scan_kv(belfry_buf_bytes(room), out);
}

enum belfry_err resource_event_write(const struct belfry_wire_kv *kv, bool is_delete, struct belfry_buf *room,
                                     struct belfry_wire_event *out)
{
    struct belfry_wire_event event = {.is_delete = is_delete, .kv = *kv};
    if (is_delete) { /* as etcd's: the key, its revision, and our mark */
        event.kv.value = (struct belfry_bytes){0};
        event.kv.create_rev = event.kv.version = 0;
    }
    size_t size = belfry_write_event_size(&event);
    uint8_t *to;
    belfry_buf_clear(room);
    enum belfry_err err = belfry_buf_reserve(room, size, &to);
    if (err != BELFRY_OK)
        return err;
    belfry_write_event(&event, to);
    belfry_buf_grown(room, size);
    return belfry_scan_event(belfry_buf_bytes(room), out);
}
