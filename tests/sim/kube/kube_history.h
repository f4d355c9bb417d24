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

#include "base/bytes.h"
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
    struct kube_change *changes; /* owned; ascending; of one version only deletions, when a lease has ended */
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

void kube_history_write(struct kube_history *history, struct belfry_rng *rng);     /* a change of the resource */
void kube_history_end_lease(struct kube_history *history, struct belfry_rng *rng); /* deletes many at one version */
bool kube_history_delete(struct kube_history *history, struct belfry_rng *rng);    /* false: there is no object */
void kube_history_pass(struct kube_history *history, uint64_t n);                  /* changes of other resources */
void kube_history_restore(struct kube_history *history, int64_t backup);           /* there is room: n < KUBE_PASTS */

/* The first change above `rv`; NULL: none. */
const struct kube_change *kube_past_after(const struct kube_past *past, int64_t rv);
void kube_past_state(const struct kube_past *past, int64_t rv, struct kube_state *out);
bool kube_state_equal(const struct kube_state *a, const struct kube_state *b);

/* ---- texts of keys, uids and objects, as they are on the wire; bytes are lent ---- */

struct kube_text {
    uint64_t key, uid, content, rv;
};

struct belfry_bytes kube_key_text(unsigned key); /* "ns1/o3" */
bool kube_key_read(struct belfry_bytes text, unsigned *out);
struct belfry_bytes kube_uid_text(const uint64_t *uid);
void kube_object_write(unsigned key, const struct kube_held *held, struct kube_text *out);
bool kube_object_read(struct belfry_bytes bytes, unsigned key, struct kube_held *out); /* as it was written */

#endif
