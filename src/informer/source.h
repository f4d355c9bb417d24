/* src/informer/source.h
 *
 * source: where an informer's objects come from: etcd keys (source_keys), a Kubernetes resource (source_resource), or a
 * test.
 *
 * Thread: owner.
 */
#ifndef BELFRY_INFORMER_SOURCE_H
#define BELFRY_INFORMER_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/stored_object.h"

/* A source's callbacks. They come from the loop, never from inside open, pause, resume or close. Any of them may close
 * the source; none comes after that. */
struct belfry_source_events {
    /* The whole state follows; objects that are not put before synced() have vanished. A source that reports vanished
     * keys itself (with `missed`) does not call it. */
    void (*begin)(void *user);
    /* One reference, handed over. */
    void (*put)(struct belfry_object *object, void *user);
    /* The object under `key` was removed; `last`, if not NULL, is its last state from the server (one reference, handed
     * over). */
    void (*removed)(struct belfry_bytes key, struct belfry_object *last, bool missed, void *user);
    void (*synced)(void *user);
    /* An object could not be decoded and was skipped. */
    void (*undecoded)(const char *why, void *user);
    void (*link)(enum belfry_err err, const char *why, void *user);
    /* The last callback; then close the source. */
    void (*end)(enum belfry_err err, const char *why, void *user);
};

struct belfry_source_counts {
    uint64_t lists, relists, watches, retries;
};

struct belfry_source_ops {
    /* No callbacks until resume, except those already on the stack: at most the rest of one batch of events. */
    void (*pause)(void *source);
    void (*resume)(void *source);
    void (*counts)(const void *source, struct belfry_source_counts *out);
    /* Any time; frees the source when it is no longer on the stack. */
    void (*close)(void *source);
};

struct belfry_source {
    const struct belfry_source_ops *ops;
    void *impl;
};

#endif
