/* src/cli/verify/verify_rev.c */
#include "cli/verify/verify_rev.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_TEXT 200

/* FNV-1a over words instead of bytes, since values may be large, and a last mixing. */
static uint64_t hash_of(struct belfry_bytes bytes)
{
    uint64_t h = UINT64_C(14695981039346656037) ^ bytes.len;
    for (size_t i = 0; i < bytes.len; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, bytes.data + i, bytes.len - i < sizeof(word) ? bytes.len - i : sizeof(word));
        h = (h ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        h ^= h >> 29; /* a product alone would lose the word's high bits to the low ones */
    }
    h *= UINT64_C(0xD6E8FEB86659FD93);
    return h ^ h >> 32;
}

static struct verify_value value_of(struct belfry_bytes bytes)
{
    struct verify_value value = {.len = bytes.len, .hash = hash_of(bytes)};
    if (bytes.len > 0)
        memcpy(value.head, bytes.data, bytes.len < VERIFY_HEAD ? bytes.len : VERIFY_HEAD);
    return value;
}

static void fill(struct verify_event *to, const struct belfry_event *from, char *key)
{
    if (from->key.len > 0)
        memcpy(key, from->key.data, from->key.len);
    *to = (struct verify_event){.op = from->op, .has_prev = from->prev.data != NULL, .key = {key, from->key.len}};
    to->kv = (struct verify_kv){from->create_rev, from->mod_rev, from->version, from->lease, value_of(from->value)};
    if (to->has_prev)
        to->prev = (struct verify_kv){from->prev_create_rev, from->prev_mod_rev, from->prev_version, from->prev_lease,
                                      value_of(from->prev)};
}

enum belfry_err verify_rev_create(int64_t rev, int64_t at_us, verify_next_fn next, const void *source,
                                  struct verify_rev **out)
{
    size_t n = 0, key_bytes = 0;
    for (const struct belfry_event *event = NULL; (event = next(source, event)) != NULL; n++)
        key_bytes += event->key.len;
    size_t bytes = sizeof(struct verify_rev) + n * sizeof(struct verify_event) + key_bytes;
    struct verify_rev *made = malloc(bytes);
    if (made == NULL)
        return BELFRY_ERR_NOMEM;
    *made = (struct verify_rev){.rev = rev, .at_us = at_us, .bytes = bytes, .n = n};
    char *key = (char *)&made->events[n];
    struct verify_event *to = made->events;
    for (const struct belfry_event *event = NULL; (event = next(source, event)) != NULL; key += event->key.len)
        fill(to++, event, key);
    *out = made;
    return BELFRY_OK;
}

static const struct belfry_event *next_of_batch(const void *source, const struct belfry_event *after)
{
    return belfry_batch_next(source, after);
}

enum belfry_err verify_rev_of_batch(const struct belfry_batch *batch, int64_t at_us, struct verify_rev **out)
{
    return verify_rev_create(batch->rev, at_us, next_of_batch, batch, out);
}

bool verify_key_same(struct belfry_bytes a, struct belfry_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

bool verify_kv_same(const struct verify_kv *a, const struct verify_kv *b)
{
    return a->create_rev == b->create_rev && a->mod_rev == b->mod_rev && a->version == b->version &&
           a->lease == b->lease && a->value.len == b->value.len && a->value.hash == b->value.hash &&
           memcmp(a->value.head, b->value.head, VERIFY_HEAD) == 0;
}

bool verify_event_creates(const struct verify_event *event)
{
    return event->op == BELFRY_PUT && event->kv.create_rev == event->kv.mod_rev;
}

/* ---- for people ---- */

void verify_bytes_text(struct belfry_bytes bytes, char *out, size_t len)
{
    size_t at = 0;
    out[at++] = '"';
    for (size_t i = 0; i < bytes.len; i++) {
        unsigned char c = (unsigned char)bytes.data[i];
        bool plain = c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
        if (at + (plain ? 1 : 4) + sizeof("...\"") > len) {
            at += (size_t)snprintf(out + at, len - at, "...");
            break;
        }
        at += (size_t)snprintf(out + at, len - at, plain ? "%c" : "\\x%02x", c);
    }
    snprintf(out + at, len - at, "\"");
}

static size_t kv_text(const struct verify_kv *kv, char *out, size_t len)
{
    char head[4 * VERIFY_HEAD + 8];
    size_t shown = kv->value.len < VERIFY_HEAD ? kv->value.len : VERIFY_HEAD;
    verify_bytes_text((struct belfry_bytes){kv->value.head, shown}, head, sizeof(head));
    return (size_t)snprintf(out, len,
                            "%s%s (%zu bytes, hash %016" PRIx64 "), create %" PRId64 ", mod %" PRId64
                            ", version %" PRId64 ", lease %" PRIx64,
                            head, kv->value.len > shown ? "..." : "", kv->value.len, kv->value.hash, kv->create_rev,
                            kv->mod_rev, kv->version, (uint64_t)kv->lease);
}

void verify_event_text(const struct verify_event *event, char out[VERIFY_TEXT])
{
    char key[KEY_TEXT];
    verify_bytes_text(event->key, key, sizeof(key));
    if (event->op == BELFRY_DELETE) {
        snprintf(out, VERIFY_TEXT, "delete %s, mod %" PRId64, key, event->kv.mod_rev);
        return;
    }
    size_t at = (size_t)snprintf(out, VERIFY_TEXT, "put %s = ", key);
    kv_text(&event->kv, out + at, VERIFY_TEXT - at);
}

void verify_prev_text(const struct verify_event *event, char out[VERIFY_TEXT])
{
    if (event->has_prev)
        kv_text(&event->prev, out, VERIFY_TEXT);
    else
        snprintf(out, VERIFY_TEXT, "none");
}
