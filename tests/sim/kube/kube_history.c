/* tests/sim/kube/kube_history.c */
#include "sim/kube/kube_history.h"

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

/* An older past deleted the same object at the same version: nothing that a server shows could tell the two apart
 * (decision 0073). A real one would have to do so by chance. */
static bool is_told_apart(const struct kube_history *history, const struct kube_change *change)
{
    for (unsigned i = 0; i + 1 < history->n && change->is_delete; i++) {
        const struct kube_past *past = &history->pasts[i];
        const struct kube_change *other = kube_past_after(past, change->rv - 1), *end = past->changes + past->n;
        for (; other != NULL && other < end && other->rv == change->rv; other++)
            if (other->is_delete && other->uid == change->uid)
                return false;
    }
    return true;
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
        change.is_delete = is_told_apart(history, &change) && change.is_delete;
    }
    if (change.is_delete) /* it shows the object as it was */
        change.content = state.held[key].content;
    past_append(past, &change);
}

bool kube_history_delete(struct kube_history *history, struct belfry_rng *rng)
{
    struct kube_past *past = kube_history_now(history);
    struct kube_state state;
    kube_past_state(past, past->revision, &state);
    unsigned from = (unsigned)belfry_rng_below(rng, KUBE_KEYS);
    for (unsigned i = 0; i < KUBE_KEYS; i++) {
        unsigned key = (from + i) % KUBE_KEYS;
        const struct kube_held *held = &state.held[key];
        struct kube_change change = {
            .rv = past->revision + 1, .key = key, .uid = held->uid, .content = held->content, .is_delete = true};
        if (held->uid == 0 || !is_told_apart(history, &change))
            continue;
        past_append(past, &change);
        return true;
    }
    return false;
}

void kube_history_end_lease(struct kube_history *history, struct belfry_rng *rng)
{
    struct kube_past *past = kube_history_now(history);
    struct kube_state state;
    kube_past_state(past, past->revision, &state);
    int64_t rv = past->revision + 1;
    for (unsigned key = 0; key < KUBE_KEYS; key++) {
        const struct kube_held *held = &state.held[key];
        struct kube_change change = {
            .rv = rv, .key = key, .uid = held->uid, .content = held->content, .is_delete = true};
        if (held->uid != 0 && belfry_rng_below(rng, 2) == 0 && is_told_apart(history, &change))
            past_append(past, &change);
    }
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

/* ---- texts ---- */

struct belfry_bytes kube_key_text(unsigned key)
{
    static const char texts[KUBE_KEYS][7] = {"ns0/o0", "ns1/o1", "ns0/o2", "ns1/o3",
                                             "ns0/o4", "ns1/o5", "ns0/o6", "ns1/o7"};
    return (struct belfry_bytes){texts[key], sizeof(texts[key]) - 1};
}

bool kube_key_read(struct belfry_bytes text, unsigned *out)
{
    for (*out = 0; *out < KUBE_KEYS; ++*out)
        if (belfry_bytes_equal(text, kube_key_text(*out)))
            return true;
    return false;
}

struct belfry_bytes kube_uid_text(const uint64_t *uid)
{
    return (struct belfry_bytes){(const char *)uid, sizeof(*uid)};
}

/* The numbers themselves: nothing that is simulated reads an object, and millions are written per run. */
void kube_object_write(unsigned key, const struct kube_held *held, struct kube_text *out)
{
    *out = (struct kube_text){.key = key, .uid = held->uid, .content = held->content, .rv = (uint64_t)held->rv};
}

bool kube_object_read(struct belfry_bytes bytes, unsigned key, struct kube_held *out)
{
    struct kube_text text;
    if (bytes.len != sizeof(text))
        return false;
    memcpy(&text, bytes.data, sizeof(text));
    *out = (struct kube_held){text.uid, text.content, (int64_t)text.rv};
    return text.key == key;
}
