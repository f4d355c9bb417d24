/* src/client/watch/mux_private.h
 *
 * What mux.c (the watches, and what comes out) and mux_stream.c (the stream, and what goes in) share. Nobody else
 * includes it.
 */
#ifndef BELFRY_CLIENT_WATCH_MUX_PRIVATE_H
#define BELFRY_CLIENT_WATCH_MUX_PRIVATE_H

#include "base/list.h"
#include "base/owner.h"
#include "client/watch/mux.h"
#include "client/watch/subs.h"

#define BELFRY_MUX_WHY 256 /* bytes of a reason */

enum belfry_mux_state { NEED_REV, WAITING, CREATING, OPEN, PARKED, ENDING };

struct belfry_mux_watch {
    struct belfry_list all;   /* in mux.all */
    struct belfry_list queue; /* in mux.need_rev or mux.waiting, by state */
    struct belfry_list ready; /* in mux.ready: may have an action */
    struct belfry_sub *sub;   /* CREATING and OPEN only */
    void *user;
    enum belfry_mux_state state;
    bool paused, removed;
    bool began;           /* was created once: the next create is a resume */
    bool progress_notify; /* and the other wishes, as on the wire */
    bool prev_kv, no_put, no_delete, fragment, unmerged;
    bool created_notify; /* and has not been created yet */
    bool created;        /* is to be told before anything else */
    int64_t created_rev; /* with this */
    bool lost_notify;
    bool lost; /* is to be told at once */
    uint8_t recreates;
    uint64_t generation;  /* NEED_REV: a revision read before this does not count */
    int64_t next_rev;     /* the first revision not given; 0 in NEED_REV */
    int64_t progress_rev; /* to be reported once the inbox is empty, if it is news or repeats the last; 0: none */
    struct belfry_wire_header header, end_header; /* of that progress, and of the end */
    struct belfry_wire_header created_header;
    struct belfry_inbox inbox;
    size_t pause_bytes;
    enum belfry_err end_err; /* ENDING */
    int64_t end_rev;
    char *end_why; /* owned; NULL: the sentence of end_err */
    size_t key_len, end_len;
    char bytes[]; /* key, then range_end */
};

struct belfry_mux {
    struct belfry_mux_opts opts;
    struct belfry_list all, need_rev, waiting, ready;
    size_t count;
    uint64_t generation; /* grows with each watch that needs a revision */
    size_t held;         /* bytes in all inboxes */
    bool in_order;       /* the server answers creates in their order */
    /* the stream */
    bool up;
    struct belfry_subs subs;
    uint64_t create_due; /* when the oldest unanswered create times out */
    bool auth_final;
    bool pieces; /* are asked for */
    /* progress asked for by hand */
    bool progress_wanted;
    bool progress_trusted;                      /* the answer does not overtake events */
    uint64_t progress_ms;                       /* when it was asked last; 0: never */
    uint64_t progress_due;                      /* ask again; BELFRY_NEVER: ask with the next pull */
    uint64_t progress_asked, progress_answered; /* on this stream */
    /* revisions seen */
    int64_t seen;
    bool suspects;
    /* between next and taken */
    struct belfry_mux_watch *current;
    struct belfry_mux_action action;
    struct belfry_mux_stats stats;
    BELFRY_OWNER;
};

static inline struct belfry_mux_watch *belfry_mux_of_all(struct belfry_list *node)
{
    return belfry_container(node, struct belfry_mux_watch, all);
}

static inline struct belfry_mux_watch *belfry_mux_of_queue(struct belfry_list *node)
{
    return belfry_container(node, struct belfry_mux_watch, queue);
}

/* The one place where a watch changes state. */
void belfry_mux_move(struct belfry_mux *mux, struct belfry_mux_watch *watch, enum belfry_mux_state to);

/* There may be an action for it. */
void belfry_mux_ready(struct belfry_mux *mux, struct belfry_mux_watch *watch);

/* Its inbox held `before` bytes, and may hold others now. */
void belfry_mux_count_held(struct belfry_mux *mux, const struct belfry_mux_watch *watch, size_t before);

/* A watch that has nothing upstream and an empty inbox is created again, unless it is paused. */
void belfry_mux_settle(struct belfry_mux *mux, struct belfry_mux_watch *watch);

/* The response at the end of the inbox will not be finished. A progress that was to be given after it must not be. */
void belfry_mux_cut(struct belfry_mux_watch *watch);

/* The watch lets go of what it has upstream; the sub stays behind as an orphan. */
void belfry_mux_detach(struct belfry_mux *mux, struct belfry_mux_watch *watch);

/* What is in its inbox is still given, then the end. */
void belfry_mux_end_watch(struct belfry_mux *mux, struct belfry_mux_watch *watch, enum belfry_err err, int64_t rev,
                          const char *why);

/* May the watch be told that it has everything up to `rev`? What it knows already may be repeated, as a sign of life,
 * but not while a revision has been given in part. */
bool belfry_mux_may_tell(const struct belfry_mux_watch *watch, int64_t rev);

#endif
