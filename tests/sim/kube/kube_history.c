/* tests/sim/kube/kube_history.c */
#include "sim/kube/kube_history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kube_history_init(struct kube_history *history)
{
    *history = (struct kube_history){.n = 1};
    history->pasts[0].revision = 10;
}

void kube_history_fini(struct kube_history *history)
{
    for (unsigned i = 0; i < history->n; i++)
        free(history->pasts[i].changes);
}

struct kube_past *kube_history_now(struct kube_history *history)
{
    return &history->pasts[history->n - 1];
}

static void past_append(struct kube_past *past, const struct kube_change *change)
{
    if (past->n == past->cap) {
        past->cap = past->cap == 0 ? 256 : past->cap * 2;
        past->changes = realloc(past->changes, past->cap * sizeof(*past->changes));
        if (past->changes == NULL)
            abort();
    }
    past->changes[past->n++] = *change;
    past->revision = change->rv;
}

void kube_history_write(struct kube_history *history, struct belfry_rng *rng)
{
    struct kube_past *past = kube_history_now(history);
    struct kube_state state;
    kube_past_state(past, past->revision, &state);
    unsigned key = (unsigned)belfry_rng_below(rng, KUBE_KEYS);
    uint64_t uid = state.held[key].uid;
    struct kube_change change = {.rv = past->revision + 1, .key = key, .uid = uid, .content = ++history->contents};
    if (uid == 0) {
        change.is_create = true;
        change.uid = ++history->uids;
    } else {
        change.is_delete = belfry_rng_below(rng, 3) == 0;
    }
    if (change.is_delete) /* it shows the object as it was */
        change.content = state.held[key].content;
    past_append(past, &change);
}

void kube_history_pass(struct kube_history *history, uint64_t n)
{
    kube_history_now(history)->revision += (int64_t)n;
}

void kube_history_restore(struct kube_history *history, int64_t backup)
{
    const struct kube_past *old = kube_history_now(history);
    struct kube_past *past = &history->pasts[history->n];
    *past = (struct kube_past){0};
    for (size_t i = 0; i < old->n && old->changes[i].rv <= backup; i++)
        past_append(past, &old->changes[i]);
    past->revision = backup;
    history->n++;
}

const struct kube_change *kube_past_after(const struct kube_past *past, int64_t rv)
{
    size_t low = 0, high = past->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (past->changes[middle].rv <= rv)
            low = middle + 1;
        else
            high = middle;
    }
    return low < past->n ? &past->changes[low] : NULL;
}

void kube_past_state(const struct kube_past *past, int64_t rv, struct kube_state *out)
{
    *out = (struct kube_state){0};
    for (size_t i = 0; i < past->n && past->changes[i].rv <= rv; i++) {
        const struct kube_change *change = &past->changes[i];
        out->held[change->key] =
            change->is_delete ? (struct kube_held){0} : (struct kube_held){change->uid, change->content, change->rv};
    }
}

bool kube_state_equal(const struct kube_state *a, const struct kube_state *b)
{
    for (unsigned i = 0; i < KUBE_KEYS; i++)
        if (memcmp(&a->held[i], &b->held[i], sizeof(a->held[i])) != 0)
            return false;
    return true;
}

void kube_key_write(unsigned key, char out[KUBE_TEXT])
{
    snprintf(out, KUBE_TEXT, "ns%u/o%u", key % 2, key);
}

bool kube_key_read(const char *text, size_t len, unsigned *out)
{
    char written[KUBE_TEXT];
    for (unsigned key = 0; key < KUBE_KEYS; key++) {
        kube_key_write(key, written);
        if (strlen(written) == len && memcmp(text, written, len) == 0) {
            *out = key;
            return true;
        }
    }
    return false;
}

void kube_uid_write(uint64_t uid, char out[KUBE_TEXT])
{
    snprintf(out, KUBE_TEXT, "uid-%" PRIu64, uid);
}

void kube_object_write(unsigned key, const struct kube_held *held, char out[KUBE_TEXT])
{
    snprintf(out, KUBE_TEXT, "{\"o\":%u,\"uid\":%" PRIu64 ",\"rv\":%" PRId64 ",\"content\":%" PRIu64 "}", key,
             held->uid, held->rv, held->content);
}

bool kube_object_read(const char *text, size_t len, unsigned key, struct kube_held *out)
{
    char copy[KUBE_TEXT], again[KUBE_TEXT];
    unsigned number;
    if (len >= sizeof(copy))
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (sscanf(copy, "{\"o\":%u,\"uid\":%" SCNu64 ",\"rv\":%" SCNd64 ",\"content\":%" SCNu64 "}", &number, &out->uid,
               &out->rv, &out->content) != 4)
        return false;
    kube_object_write(key, out, again);
    return strcmp(copy, again) == 0;
}
