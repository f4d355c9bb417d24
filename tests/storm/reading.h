/* tests/storm/reading.h
 *
 * reading: what one watch has received, compared with the ledger (feed.h): each event once, in order, no revision torn,
 * no progress beyond what was received. A difference is a finding.
 *
 * Thread: owner. Plain data; `who` is lent.
 */
#ifndef BELFRY_STORM_READING_H
#define BELFRY_STORM_READING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "storm/feed.h"
#include "wire/scan.h"

struct reading {
    const char *who; /* in findings */
    enum feed_keys keys;
    int64_t next_rev; /* to resume from; 0: from now */
    size_t at;        /* in the ledger */
    bool is_created;  /* in this attempt */
    uint64_t events;
};

/* A WatchResponse of etcd. What is canceled is the caller's; *out says it. */
void reading_take(struct reading *reading, struct belfry_bytes message, struct belfry_wire_watch *out);

/* A change of the object with that name in a watch of Kubernetes. reading_move(): and now its revision is whole. */
void reading_take_object(struct reading *reading, int64_t rev, struct belfry_bytes name, bool is_delete);

/* A change of a key in a message of Server-Sent Events; likewise. */
void reading_take_key(struct reading *reading, int64_t rev, struct belfry_bytes key, bool is_delete);

/* Everything below `next_rev` is said to have been received. */
void reading_move(struct reading *reading, int64_t next_rev, const char *what);

bool reading_is_whole(const struct reading *reading, int64_t to_rev); /* nothing is missing up to there */

#endif
