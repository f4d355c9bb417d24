/* src/follow/probe.h
 *
 * probe: is upstream's past still ours? A watch at the newest revision that we hold events of (or at that of a
 * listing, whose state we hold). It is closed as soon as it has given that revision. If the revision is equal, the
 * watch may be held open: as long as it is, the server that the stream leads to has our past.
 *
 *     IDLE -> WANTED -> OPEN ---> IDLE
 *                         `-> HELD -^
 *
 * Thread: owner. Pure.
 */
#ifndef BELFRY_FOLLOW_PROBE_H
#define BELFRY_FOLLOW_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "follow/digest.h"
#include "follow/ingest.h"

enum probe_state { PROBE_IDLE, PROBE_WANTED, PROBE_OPEN, PROBE_HELD };
enum probe_verdict { PROBE_NOTHING, PROBE_OURS, PROBE_REWRITTEN, PROBE_AGAIN }; /* AGAIN: it could not be compared */

struct probe {
    enum probe_state state;
    uint64_t at;  /* WANTED: not before */
    int64_t rev;  /* OPEN, HELD: where it looks */
    int64_t head; /* OPEN, HELD: ours when it was opened; of what lies above, it says nothing */
    bool created; /* its first created answer has come: another one is of another stream */
    bool known;   /* the digest is; else the state is compared with, as long as it is that of `rev` in `past` */
    struct digest digest;
    uint64_t past;
    bool close_owed;
};

static inline void probe_want(struct probe *probe, uint64_t at_ms)
{
    if (probe->state == PROBE_IDLE) {
        probe->state = PROBE_WANTED;
        probe->at = at_ms;
    }
}

/* The watch is opened now, at the revision returned. */
static inline int64_t probe_open(struct probe *probe, const struct ingest *ingest)
{
    probe->state = PROBE_OPEN;
    probe->created = false;
    probe->rev = ingest_overlap(ingest);
    probe->head = ingest_head(ingest);
    probe->known = ingest_overlap_digest(ingest, &probe->digest);
    probe->past = ingest_past(ingest);
    return probe->rev;
}

/* The owner has a watch for it. */
static inline bool probe_watches(const struct probe *probe)
{
    return probe->state == PROBE_OPEN || probe->state == PROBE_HELD;
}

static inline void probe_close(struct probe *probe)
{
    probe->close_owed = probe->close_owed || probe_watches(probe);
    probe->state = PROBE_IDLE;
}

static inline enum probe_verdict probe_compare_state(const struct probe *probe, struct ingest *ingest,
                                                     const struct ingest_revision *revision, uint64_t now_ms)
{
    if (ingest_past(ingest) != probe->past)
        return PROBE_AGAIN;
    switch (ingest_compare(ingest, revision, now_ms)) {
    case BELFRY_OK:
        return PROBE_OURS;
    case BELFRY_ERR_REWOUND:
        return PROBE_REWRITTEN;
    default:
        return PROBE_AGAIN;
    }
}

/* What came on the watch: a revision, or (NULL) a progress at `rev`. Whatever the verdict, but PROBE_NOTHING, it is to
 * be closed or held. */
static inline enum probe_verdict probe_judge(struct probe *probe, struct ingest *ingest, int64_t rev,
                                             const struct ingest_revision *revision, uint64_t now_ms)
{
    if (probe->state != PROBE_OPEN || rev < probe->rev)
        return PROBE_NOTHING;
    if (revision == NULL || rev != probe->rev)
        return PROBE_REWRITTEN;
    if (!probe->known)
        return probe_compare_state(probe, ingest, revision, now_ms);
    return digest_equal(digest_of(revision->events, revision->n), probe->digest) ? PROBE_OURS : PROBE_REWRITTEN;
}

#endif
