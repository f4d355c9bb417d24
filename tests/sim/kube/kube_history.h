/* tests/sim/kube/kube_history.h
 *
 * kube_history: what a model of etcd holds of one resource, and every past that it ever had. A restore from a backup
 * begins a new past: it has what the old one had up to the backup, and gives the versions above it again.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_KUBE_HISTORY_H
#define BELFRY_SIM_KUBE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"

#define KUBE_KEYS  8
#define KUBE_PASTS 16

struct kube_change {
    int64_t rv;
    unsigned key;
    uint64_t uid, content; /* content: another number for each write */
    bool is_create, is_delete;
};

struct kube_past {
    struct kube_change *changes; /* owned; ascending */
    size_t n, cap;
    int64_t revision; /* etcd's: other resources move it too */
};

/* What a key holds. */
struct kube_held {
    uint64_t uid, content; /* uid 0: nothing */
    int64_t rv;
};

struct kube_state {
    struct kube_held held[KUBE_KEYS];
};

struct kube_history {
    struct kube_past pasts[KUBE_PASTS];
    unsigned n;              /* the last of them is the current one */
    uint64_t uids, contents; /* given so far */
};

void kube_history_init(struct kube_history *history);
void kube_history_fini(struct kube_history *history);

struct kube_past *kube_history_now(struct kube_history *history);

void kube_history_write(struct kube_history *history, struct belfry_rng *rng); /* a change of the resource */
void kube_history_pass(struct kube_history *history, uint64_t n);              /* changes of other resources */
void kube_history_restore(struct kube_history *history, int64_t backup);       /* there is room: n < KUBE_PASTS */

/* The first change above `rv`; NULL: none. */
const struct kube_change *kube_past_after(const struct kube_past *past, int64_t rv);
void kube_past_state(const struct kube_past *past, int64_t rv, struct kube_state *out);
bool kube_state_equal(const struct kube_state *a, const struct kube_state *b);

/* "ns1/o2", and the texts of a uid and of an object. */
#define KUBE_TEXT 96
void kube_key_write(unsigned key, char out[KUBE_TEXT]);
bool kube_key_read(const char *text, size_t len, unsigned *out);
void kube_uid_write(uint64_t uid, char out[KUBE_TEXT]);
void kube_object_write(unsigned key, const struct kube_held *held, char out[KUBE_TEXT]);
bool kube_object_read(const char *text, size_t len, unsigned key, struct kube_held *out); /* as it was written */

#endif
