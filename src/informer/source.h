/* src/informer/source.h
 *
 * source: where an informer's objects come from: keys of etcd (source_keys), a resource of Kubernetes (source_resource),
 * or a test.
 *
 * Thread: owner.
 */
#ifndef BELFRY_INFORMER_SOURCE_H
#define BELFRY_INFORMER_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/stored_object.h"

/* What a source tells. From the loop, never from inside open, pause, resume or close. Any of these may close the source;
 * none comes after that. */
struct belfry_source_events {
    /* The whole state follows; what is not put before synced() has vanished. A source that tells vanished keys itself
     * (with `missed`) does not say it. */
    void (*begin)(void *user);
    /* One reference, handed over. */
    void (*put)(struct belfry_object *object, void *user);
    /* The object under `key` is gone; `last`, if not NULL, is its last state as the server tells it (one reference,
     * handed over). */
    void (*removed)(struct belfry_bytes key, struct belfry_object *last, bool missed, void *user);
    void (*synced)(void *user);
    /* An object came that cannot be read, and was left out. */
    void (*undecoded)(const char *why, void *user);
    void (*link)(enum belfry_err err, const char *why, void *user);
    /* The last word; close it. */
    void (*end)(enum belfry_err err, const char *why, void *user);
};

struct belfry_source_counts {
    uint64_t lists, relists, watches, retries;
};

struct belfry_source_ops {
    /* Nothing more is told until resume, but for what is on the stack already: at most the rest of one batch of events. */
    void (*pause)(void *source);
    void (*resume)(void *source);
    void (*counts)(const void *source, struct belfry_source_counts *out);
    /* Any time; frees it, when it is not on the stack any more. */
    void (*close)(void *source);
};

struct belfry_source {
    const struct belfry_source_ops *ops;
    void *impl;
};

#endif
