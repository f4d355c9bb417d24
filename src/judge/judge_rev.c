/* src/judge/judge_rev.c */
#include "judge/judge_rev.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xxh64.h"

#define KEY_TEXT 200

static struct judge_value digest_value(struct belfry_bytes bytes)
{
    struct judge_value value = {.len = bytes.len, .hash = belfry_xxh64(0, bytes)};
    if (bytes.len > 0)
        memcpy(value.head, bytes.data, bytes.len < JUDGE_HEAD ? bytes.len : JUDGE_HEAD);
    return value;
}

static void digest_event(struct judge_event *to, const struct belfry_event *from, char *key)
{
    if (from->key.len > 0)
        memcpy(key, from->key.data, from->key.len);
    *to = (struct judge_event){.op = from->op, .has_prev = from->prev.data != NULL, .key = {key, from->key.len}};
    to->kv = (struct judge_kv){from->create_rev, from->mod_rev, from->version, from->lease, digest_value(from->value)};
    if (to->has_prev)
        to->prev = (struct judge_kv){from->prev_create_rev, from->prev_mod_rev, from->prev_version, from->prev_lease,
                                     digest_value(from->prev)};
}

enum belfry_err judge_rev_create(int64_t rev, int64_t at_us, judge_next_fn next, const void *source,
                                 struct judge_rev **out)
{
    size_t n = 0, key_bytes = 0;
    for (const struct belfry_event *event = NULL; (event = next(source, event)) != NULL; n++)
        key_bytes += event->key.len;
    size_t bytes = sizeof(struct judge_rev) + n * sizeof(struct judge_event) + key_bytes;
    struct judge_rev *made = malloc(bytes);
    if (made == NULL)
        return BELFRY_ERR_NOMEM;
    *made = (struct judge_rev){.rev = rev, .at_us = at_us, .bytes = bytes, .n = n};
    char *key = (char *)&made->events[n];
    struct judge_event *to = made->events;
    for (const struct belfry_event *event = NULL; (event = next(source, event)) != NULL; key += event->key.len)
        digest_event(to++, event, key);
    *out = made;
    return BELFRY_OK;
}

bool judge_kv_same(const struct judge_kv *a, const struct judge_kv *b)
{
    return a->create_rev == b->create_rev && a->mod_rev == b->mod_rev && a->version == b->version &&
           a->lease == b->lease && a->value.len == b->value.len && a->value.hash == b->value.hash &&
           memcmp(a->value.head, b->value.head, JUDGE_HEAD) == 0;
}

bool judge_event_creates(const struct judge_event *event)
{
    return event->op == BELFRY_PUT && event->kv.create_rev == event->kv.mod_rev;
}

/* ---- for people ---- */

void judge_bytes_text(struct belfry_bytes bytes, char *out, size_t len)
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

static size_t kv_text(const struct judge_kv *kv, char *out, size_t len)
{
    char head[4 * JUDGE_HEAD + 8];
    size_t shown = kv->value.len < JUDGE_HEAD ? kv->value.len : JUDGE_HEAD;
    judge_bytes_text((struct belfry_bytes){kv->value.head, shown}, head, sizeof(head));
    return (size_t)snprintf(out, len,
                            "%s%s (%zu bytes, hash %016" PRIx64 "), create %" PRId64 ", mod %" PRId64
                            ", version %" PRId64 ", lease %" PRIx64,
                            head, kv->value.len > shown ? "..." : "", kv->value.len, kv->value.hash, kv->create_rev,
                            kv->mod_rev, kv->version, (uint64_t)kv->lease);
}

void judge_event_text(const struct judge_event *event, char out[JUDGE_TEXT])
{
    char key[KEY_TEXT];
    judge_bytes_text(event->key, key, sizeof(key));
    if (event->op == BELFRY_DELETE) {
        snprintf(out, JUDGE_TEXT, "delete %s, mod %" PRId64, key, event->kv.mod_rev);
        return;
    }
    size_t at = (size_t)snprintf(out, JUDGE_TEXT, "put %s = ", key);
    kv_text(&event->kv, out + at, JUDGE_TEXT - at);
}

void judge_prev_text(const struct judge_event *event, char out[JUDGE_TEXT])
{
    if (event->has_prev)
        kv_text(&event->prev, out, JUDGE_TEXT);
    else
        snprintf(out, JUDGE_TEXT, "none");
}
