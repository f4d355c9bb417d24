/* src/follow/reads.h
 *
 * reads: the linearizable revisions and the pages that the upstream machine wants, as calls.
 *
 * All pages of a listing must be of one past. A cluster that is restored from a backup breaks its connections, so a
 * page counts only if it came by the same connection as the revision that the listing began with. If that connection
 * was lost meanwhile, even while idle, the listing begins again.
 *
 * The first page is linearizable and names the revision of all others. Whoever gave it has that revision, so the others
 * are serializable: a tier above answers them from its replica and asks upstream nothing. Behind a balancer that gives
 * each call to another server, one may not have reached the revision: then all pages are linearizable.
 *
 * Thread: owner (the calls' loop). No callback comes from inside a call.
 */
#ifndef BELFRY_FOLLOW_READS_H
#define BELFRY_FOLLOW_READS_H

#include "base/buf.h"
#include "client/calls.h"
#include "follow/upstream.h"

/* Each is called before the machine receives the result. */
struct reads_events {
    void (*answered)(const struct belfry_wire_header *header, void *user);
    void (*failed)(const struct belfry_answer *answer, void *user);
    void (*head)(const struct belfry_wire_header *header, void *user); /* of reads_ask_head(): upstream's revision */
};

struct reads_opts {
    struct belfry_calls *calls; /* lent, as all that follows */
    struct upstream *upstream;
    struct belfry_bytes key, range_end; /* the scope */
    uint32_t timeout_ms;
    const struct reads_events *events;
    void *user;
    const struct belfry_log *log;
};

/* Where the pages of a listing come from: they are of one past only while this does not change. */
struct reads_source {
    uint64_t listing; /* upstream_stats.listings */
    uint64_t connects, losses;
};

struct reads {
    struct reads_opts opts;    /* fixed at creation */
    struct belfry_buf request; /* one, while it is written */
    struct reads_source source;
    int64_t page_limit;   /* keys per page: above this, pages were too large or too slow */
    bool is_balanced;     /* a server has not reached the revision of the first page */
    uint64_t keys_listed; /* of the listing under way */
    uint64_t keys_of;     /* upstream_stats.listings when they were counted */
    bool asking_head;
    bool closing;
};

void reads_init(struct reads *reads, const struct reads_opts *opts);

/* What is still answered is dropped. The calls end before reads_fini(). */
void reads_close(struct reads *reads);
void reads_fini(struct reads *reads);

/* UPSTREAM_WANT_REVISION or UPSTREAM_WANT_PAGE. A read that cannot be started fails before it returns. */
void reads_start(struct reads *reads, const struct upstream_action *action, uint64_t now_ms);

/* Reads upstream's revision, for events.head; nothing if it is being read, or cannot be. */
void reads_ask_head(struct reads *reads, uint64_t now_ms);

/* Another past has begun: what was learned about pages is void. */
void reads_new_past(struct reads *reads);

#endif
