/* src/serve/etcd/watch_private.h
 *
 * watch_private: what watch.c (the service: whose turn it is) and watch_stream.c (one stream: its requests, its room,
 * its end) share.
 *
 * Thread: owner.
 */
#ifndef BELFRY_SERVE_ETCD_WATCH_PRIVATE_H
#define BELFRY_SERVE_ETCD_WATCH_PRIVATE_H

#include "base/buf.h"
#include "base/list.h"
#include "base/rng.h"
#include "base/treap.h"
#include "serve/etcd/watch.h"
#include "serve/etcd/watch_input.h"
#include "server/pace.h"

#define WATCH_REASON_MAX 160

struct watch_service {
    struct watch_service_opts opts;
    struct worker *worker;
    struct belfry_rng rng;

    struct belfry_treap_node *by_number; /* every stream */
    uint64_t numbers;                    /* given out */
    struct belfry_treap_node *by_due;    /* those that have a time to end */
    struct belfry_list wrote;            /* those that were written to in this turn */
    struct belfry_list hungry;           /* those that have requests to go on with, in turn */
    struct belfry_list inside;           /* those in the middle of a message, the next to be looked at first */
    struct belfry_list tiers;            /* those of tiers below, n_tiers */
    size_t n_tiers;
    uint64_t look_ms;     /* when those inside are looked at next */
    size_t requests_left; /* until the next watch_after_turn() */

    enum watch_standing standing;
    char reason[WATCH_REASON_MAX];
    bool draining;
    uint64_t drain_end_ms;
    bool rounding;     /* standing has changed or drain has begun, and not everybody has been told */
    uint64_t round_at; /* the last who has */

    struct watch_stats stats;
};

/* The states are drawn in watch.h. */
enum watch_state { WATCH_OPEN, WATCH_ASKING };

struct watch_stream {
    struct watch_service *service;
    struct exchange *x;
    struct stream *stream; /* the core's */
    uint64_t number;
    uint64_t opened_ms, sent_bytes;
    enum watch_state state; /* moved by move() alone */
    bool hasleader;
    bool responded; /* the head of the response was sent */
    bool half_closed;
    bool asked_once; /* a whole request has come */

    struct belfry_treap_node by_number, by_due;
    struct belfry_list wrote, hungry, inside, tiers; /* each in the service's list of that name, or in none */
    struct pace pace;                                /* of the request that has begun to come */
    uint64_t deadline_ms, drain_ms, due_ms; /* due_ms: the least of these and the pace's; BELFRY_NEVER: not in by_due */

    size_t told; /* bytes the core may still write: as it was told, less what it wrote */
    struct watch_input input;
    struct belfry_buf held;           /* came and is not handled */
    size_t held_bytes;                /* as counted in the service's */
    struct permit_question *question; /* ASKING */
    struct belfry_blob *asked;        /* ASKING: the request */

    struct belfry_bytes content_type; /* this and the others: in `text`, or constant */
    struct permit_who who;
    const char *client;
    const char *tier; /* its name, when a tier has opened it; else "" */
    char text[];
};

/* Opens a stream for `x` and sets its handler. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT. */
BELFRY_NODISCARD enum belfry_err watch_stream_open(struct watch_service *service, struct exchange *x,
                                                   const struct exchange_head *head, enum watch_coding coding,
                                                   uint64_t now_ms, uint64_t deadline_ms);

/* Ends it: the status goes out, and it is freed. */
void watch_stream_end(struct watch_stream *ws, enum watch_close why, int code, const char *text);

/* It was written to: asks for more room, sees whether it is broken or inside a message, goes on with requests. */
void watch_stream_wrote(struct watch_stream *ws);

/* Handles more of its requests, up to a quantum. */
void watch_stream_serve(struct watch_stream *ws);

void watch_stream_set_drain(struct watch_stream *ws, uint64_t drain_ms);

#define WATCH_TEXT_NO_LEADER "etcdserver: no leader"
#define WATCH_TEXT_MEMORY    "belfry: memory limit reached; try again"
#define WATCH_TEXT_BROKEN    "belfry: the rest of a message is gone; resume"

static inline struct watch_stream *watch_stream_by_number(struct belfry_treap_node *node)
{
    return node == NULL ? NULL : belfry_container(node, struct watch_stream, by_number);
}

/* The stream after number `after`; NULL: no more. */
struct watch_stream *watch_stream_after(const struct watch_service *service, uint64_t after);

int watch_order_number(const struct belfry_treap_node *a, const struct belfry_treap_node *b);
int watch_order_due(const struct belfry_treap_node *a, const struct belfry_treap_node *b);

/* Closes the books on a stream that has ended, or was refused at its beginning. */
void watch_count_close(struct watch_service *service, enum watch_close why);

#endif
