/* bench/belfry-attack/hpack.c */
#include "hpack.h"

#include <assert.h>
#include <string.h>

#include "die.h"

#define STATIC_GET  2u
#define STATIC_POST 3u
#define STATIC_HTTP 6u
#define CALL_FIELDS 4u /* that hpack_call() adds to the table */

static void put(struct belfry_buf *block, const void *data, size_t len)
{
    must(belfry_buf_append(block, data, len), "block");
}

static void put_byte(struct belfry_buf *block, unsigned byte)
{
    uint8_t one = (uint8_t)byte;
    put(block, &one, 1);
}

/* A text that is not packed, with its length (RFC 7541, 5.1). */
static void put_text(struct belfry_buf *block, const void *text, size_t len)
{
    size_t left = len;
    if (left < 127) {
        put_byte(block, (unsigned)left);
    } else {
        put_byte(block, 127);
        for (left -= 127; left >= 128; left >>= 7)
            put_byte(block, (unsigned)(left & 127) | 128);
        put_byte(block, (unsigned)left);
    }
    put(block, text, len);
}

void hpack_field(struct belfry_buf *block, enum hpack_keep keep, const char *name, const void *value, size_t len)
{
    put_byte(block, keep == HPACK_KEEP ? 0x40 : 0);
    put_text(block, name, strlen(name));
    put_text(block, value, len);
}

void hpack_entry(struct belfry_buf *block, unsigned entry)
{
    assert(entry > 0 && entry < 127);
    put_byte(block, 0x80 | entry);
}

static void put_field(struct belfry_buf *block, enum hpack_keep keep, const char *name, const char *value)
{
    hpack_field(block, keep, name, value, strlen(value));
}

void hpack_call(struct belfry_buf *block, enum hpack_keep keep, const char *path)
{
    hpack_entry(block, STATIC_POST);
    hpack_entry(block, STATIC_HTTP);
    put_field(block, keep, ":path", path);
    put_field(block, keep, ":authority", "127.0.0.1");
    put_field(block, keep, "content-type", "application/grpc");
    put_field(block, keep, "te", "trailers");
}

void hpack_call_again(struct belfry_buf *block, unsigned n_added)
{
    hpack_entry(block, STATIC_POST);
    hpack_entry(block, STATIC_HTTP);
    for (unsigned i = CALL_FIELDS; i-- > 0;)
        hpack_entry(block, HPACK_NEWEST + n_added + i);
}

void hpack_get(struct belfry_buf *block, const char *path)
{
    hpack_entry(block, STATIC_GET);
    hpack_entry(block, STATIC_HTTP);
    put_field(block, HPACK_FORGET, ":path", path);
    put_field(block, HPACK_FORGET, ":authority", "127.0.0.1");
    put_field(block, HPACK_FORGET, "accept", "application/json");
}
