/* tests/sim/tier_private.h: what the threads of a tier share (tier.c, feed.c, reader.c, serve.c). */
#ifndef BELFRY_SIM_TIER_PRIVATE_H
#define BELFRY_SIM_TIER_PRIVATE_H

#include "base/list.h"
#include "client/watch/mux.h"
#include "core/evlog.h"
#include "core/store.h"
#include "core/worker.h"
#include "follow/backfill.h"
#include "follow/ingest.h"
#include "follow/upstream.h"
#include "sim/cover.h"
#include "sim/dialect.h"
#include "sim/tier.h"

/* A fetch on its way: worker -> reader [-> ingest] -> worker. */
struct job {
    struct belfry_list node;
    uint64_t at_ms;
    unsigned worker;
    struct worker_fetch fetch;
    int64_t oldest; /* for ingest: where the window begins */
    uint64_t token; /* of its backfill */
    enum belfry_err err;
    struct segment *segment;
    int64_t compact_rev;
};

/* A read of upstream. */
enum read_state { READ_GOING, READ_THERE, READ_BACK };

struct read {
    struct belfry_list node;
    enum read_state state;
    uint64_t at_ms; /* when it reaches upstream, or is back */
    struct upstream_action action;
    char *key; /* the action's, a copy */
    struct etcd_read *read;
    enum belfry_err err;
    struct belfry_wire_header header;
    struct belfry_bytes response; /* lent by `read` */
};

#define FEED_SLOTS (BACKFILL_SLOT + BACKFILLS)

/* One mux and the stream it is on. */
struct feed_mux {
    struct belfry_mux *mux;
    struct link *link; /* NULL: none */
    struct belfry_buf in;
    uint64_t retry_ms; /* no dialling before */
};

struct feed {
    int64_t capped; /* see tier_capped() */
    struct feed_mux live, back;
    struct belfry_mux_watch *slots[FEED_SLOTS];
    struct belfry_list reads;
    struct belfry_list jobs;        /* from the reader */
    struct belfry_list backfilling; /* asked of the backfill */
    uint64_t tokens;
    uint64_t past;                    /* seen last */
    int64_t told;                     /* head the workers were woken for */
    struct belfry_wire_event *events; /* of one revision, while it is handed in */
    size_t events_cap;
    uint64_t last_ms;  /* end of the last step */
    uint64_t restores; /* of the cluster, when the connection that reads go by was made */
};

struct served {
    struct belfry_list node;
    struct server *server;
    unsigned serial; /* for the trace */
    struct link *link;
    struct stream *stream;
    enum tier_stream kind;
    struct dialect_watch watch; /* of lines */
    size_t told;                /* room */
    /* the message being written */
    size_t head_len, left; /* bytes of its prefix that came; bytes of it that are to come */
    uint8_t head[5];
    struct belfry_buf message; /* its bytes while it is small */
    size_t message_len;
    bool began_stale;
    bool canceled_inside; /* a cancel came while it was being written */
};

/* A worker and its streams. */
struct server {
    struct tier *tier;
    unsigned number;
    struct worker *worker;
    struct actor *actor;
    struct belfry_list streams;
    struct belfry_list dialled; /* served without a stream yet */
    struct belfry_list jobs;    /* answers */
    bool stale, told_stale;     /* as ingest says; as the worker knows */
    uint64_t past;              /* of the identity it was given */
    struct belfry_buf request;
};

struct tier {
    struct tier_opts opts;
    char dir[256];
    struct store *store;
    unsigned boot;    /* counts power losses */
    unsigned streams; /* dialled so far */
    bool up, warm;
    struct evlog *log;
    struct ingest *ingest;
    struct upstream *upstream;
    struct backfill *backfill;
    struct feed feed;
    struct actor *ingest_actor, *reader_actor;
    struct belfry_list reader_jobs;
    struct server servers[TIER_WORKERS_MAX];
    uint64_t covered[COVER_END_]; /* what tier_cover() has added since the start */
};

static inline struct job *job_of(struct belfry_list *node)
{
    return belfry_container(node, struct job, node);
}

/* Puts a job into a queue after a little while, and wakes who reads it. */
void tier_post(struct tier *tier, struct belfry_list *queue, struct actor *reader, struct job *job);
struct job *tier_take(struct tier *tier, struct belfry_list *queue); /* the next that has arrived; NULL */
uint64_t tier_jobs_due(const struct belfry_list *queue);
void tier_answer(struct tier *tier, struct job *job, enum belfry_err err, struct segment *segment, int64_t compact_rev);

/* The log as it is, looked at by the simulator itself, with a worker's number of its own. */
void tier_look(const struct tier *tier, struct evlog_view *view);

void feed_start(struct tier *tier);
void feed_stop(struct tier *tier);
uint64_t feed_step(void *arg); /* arg: the tier */

uint64_t reader_step(void *arg); /* arg: the tier */

void serve_start(struct server *server);
void serve_stop(struct server *server);
uint64_t serve_step(void *arg); /* arg: the server */

#endif
