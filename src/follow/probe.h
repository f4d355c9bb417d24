/* src/follow/probe.h
 *
 * probe: is upstream's past still ours? A watch at the newest revision that we hold events of, closed as soon as it has
 * given that revision, equal or not.
 *
 *     IDLE -> WANTED -> OPEN -> IDLE
 *
 * Thread: owner. Pure.
 */
#ifndef BELFRY_FOLLOW_PROBE_H
#define BELFRY_FOLLOW_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "follow/digest.h"
#include "follow/ingest.h"

enum probe_state { PROBE_IDLE, PROBE_WANTED, PROBE_OPEN };
enum probe_verdict { PROBE_NOTHING, PROBE_OURS, PROBE_REWRITTEN };

struct probe {
    enum probe_state state;
    uint64_t at; /* WANTED: not before */
    int64_t rev; /* OPEN: where it looks */
    struct digest digest;
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
    probe->rev = ingest_overlap(ingest);
    probe->digest = ingest_overlap_digest(ingest);
    return probe->rev;
}

static inline void probe_close(struct probe *probe)
{
    probe->close_owed = probe->close_owed || probe->state == PROBE_OPEN;
    probe->state = PROBE_IDLE;
}

/* What came on the watch: a revision, or (NULL) a progress at `rev`. */
static inline enum probe_verdict probe_judge(struct probe *probe, int64_t rev, const struct ingest_revision *revision)
{
    if (probe->state != PROBE_OPEN || rev < probe->rev)
        return PROBE_NOTHING;
    probe_close(probe);
    bool ours =
        revision != NULL && rev == probe->rev && digest_equal(digest_of(revision->events, revision->n), probe->digest);
    return ours ? PROBE_OURS : PROBE_REWRITTEN;
}

#endif
