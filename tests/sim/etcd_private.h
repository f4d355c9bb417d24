/* tests/sim/etcd_private.h: what the files of the model of etcd share: cluster (etcd.c), Watch streams (etcd_stream.c),
 * reads (etcd_read.c). Thread: owner. */
#ifndef BELFRY_SIM_ETCD_PRIVATE_H
#define BELFRY_SIM_ETCD_PRIVATE_H

#include "base/list.h"
#include "sim/etcd.h"

struct member {
    uint64_t id;
    int64_t visible;      /* the last revision applied */
    int64_t compacted;    /* 0: never */
    size_t n_compactions; /* of the history, applied */
    bool up, cut_off;
    bool was_cut_off; /* since it last had everything: the leader may send it a snapshot */
};

struct etcd {
    struct history *history;
    struct belfry_rng *rng;
    struct etcd_opts opts;
    struct member members[ETCD_MEMBERS_MAX];
    struct belfry_list streams, reads;
    struct etcd_counts counts;
};

/* A response before it is encoded: prev_kv is looked up when it is sent. */
struct reply {
    struct belfry_list node;
    struct belfry_wire_watch head;
    bool prev_kv, fragment;
    const struct history_event **events; /* owned; the history's */
    size_t n, cap;
};

/*   create, at the head --> SYNCED <----replayed to the head---- UNSYNCED <-- create, behind
 *                            |  ^  ----leader's snapshot------>   |  ^  `--below a compaction--> COMPACTED
 *                 queue full |  | sent, and at the head           |  | sent, and behind
 *                            v  |                      queue full v  |
 *                           VICTIM                               VICTIM             any --cancel--> CLOSING */
enum watch_state { SYNCED, UNSYNCED, VICTIM, COMPACTED, CLOSING };

struct watch {
    struct belfry_list node;
    int64_t id, start; /* start: as asked; 0: from now on */
    int64_t next;      /* the first revision not looked at */
    enum watch_state state;
    bool announced; /* its created has been sent */
    bool prev_kv, fragment, progress_notify;
    bool quiet;             /* no events since the last tick of periodic progress */
    uint64_t puts, deletes; /* keys whose events it wants */
    struct reply *victim;   /* owned; of VICTIM only */
    struct belfry_list parked;
};

struct flight {
    struct belfry_list node;
    struct belfry_blob *message;
};

struct etcd_stream {
    struct belfry_list node; /* of the cluster */
    struct etcd *etcd;
    struct member *member;
    bool broken;
    int64_t next_id;
    struct belfry_list watches, control, queue, wire;
    size_t n_queued, n_wire;
};

struct etcd_read {
    struct belfry_list node;
    struct etcd *etcd;
    struct member *member;
    struct belfry_bytes key, range_end; /* owned */
    struct etcd_range range;            /* without the two */
    int64_t index;                      /* linearizable: the member must have applied this first */
    enum belfry_err err;                /* AGAIN until it is answered */
    struct belfry_wire_header header;
    struct belfry_blob *message;
};

void *etcd_alloc(size_t size); /* zeroed */
struct belfry_wire_header etcd_header(const struct member *member, int64_t revision);
bool etcd_member_apply(struct etcd *etcd, struct member *member); /* the next entry of the log; false: none */

/* The member has applied its `visible`: live watchers are served. */
void etcd_stream_notify(struct etcd_stream *stream);
void etcd_stream_unsync(struct etcd_stream *stream); /* the member's store came from a snapshot */
bool etcd_stream_replay(struct etcd_stream *stream); /* one pass; false: nothing to do */
bool etcd_stream_send(struct etcd_stream *stream);   /* one response; false: nothing queued, or no room on the wire */
void etcd_stream_tick(struct etcd_stream *stream);

bool etcd_read_answer(struct etcd_read *read); /* false: not now */
void etcd_read_fail(struct etcd_read *read, enum belfry_err err);

#endif
