/* src/client/watch/subs.h
 *
 * subs: what the server knows of our watches on one Watch stream.
 *
 *     CREATING --created--> LIVE --cancel--> CANCEL_DUE --sent--> CANCEL_SENT --confirmed--> (gone)
 *
 * Creates are answered in their order, so a sub without an id is found by its place in line, one with an id by the id.
 * A sub whose watch has gone is an orphan: it swallows what still comes. All subs go with their stream.
 *
 * Thread: owner. Pure.
 */
#ifndef BELFRY_CLIENT_WATCH_SUBS_H
#define BELFRY_CLIENT_WATCH_SUBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"

struct belfry_mux_watch;

enum belfry_sub_state {
    BELFRY_SUB_CREATING,    /* create sent, unanswered: in `creating`, has no id */
    BELFRY_SUB_LIVE,        /* has an id */
    BELFRY_SUB_CANCEL_DUE,  /* has an id, in `cancels` */
    BELFRY_SUB_CANCEL_SENT, /* has an id; the server will confirm */
};

struct belfry_sub {
    struct belfry_map_node by_id;
    struct belfry_list node;        /* in creating or cancels */
    struct belfry_mux_watch *watch; /* NULL: orphan */
    int64_t id;
    size_t bytes; /* of its create request */
    enum belfry_sub_state state;
    /* what tells a progress answer of before its creation from one of after */
    uint64_t asked;      /* progress requests sent before its create */
    int64_t created_rev; /* header.revision of its created answer */
    bool spoke;          /* events or a progress of its own came */
};

struct belfry_subs {
    struct belfry_list creating, cancels;
    struct belfry_map by_id;
    size_t n_creating, creating_bytes;
    size_t n_unknown; /* ids that the server used without being asked */
};

void belfry_subs_init(struct belfry_subs *subs);
void belfry_subs_fini(struct belfry_subs *subs);

/* The stream is gone, and every sub with it. Their watches must forget them. */
void belfry_subs_drop(struct belfry_subs *subs);

/* The last in line for an answer; NULL: out of memory. */
struct belfry_sub *belfry_subs_add(struct belfry_subs *subs, struct belfry_mux_watch *watch, size_t bytes);

/* The first in line; NULL when none is. */
struct belfry_sub *belfry_subs_first(const struct belfry_subs *subs);

/* It was answered: from now on it has an id, which no other sub has. */
void belfry_subs_name(struct belfry_subs *subs, struct belfry_sub *sub, int64_t id);
struct belfry_sub *belfry_subs_find(const struct belfry_subs *subs, int64_t id);

/* An id that was never asked for: an orphan to be cancelled. NULL: out of memory. */
struct belfry_sub *belfry_subs_add_unknown(struct belfry_subs *subs, int64_t id);

/* Makes it an orphan; if it has an id, it is to be cancelled. Without one, that happens when it is answered. */
void belfry_subs_cancel(struct belfry_subs *subs, struct belfry_sub *sub);

/* One whose cancel is due, NULL when there is none; and that it was sent. */
struct belfry_sub *belfry_subs_due(const struct belfry_subs *subs);
void belfry_subs_cancel_sent(struct belfry_sub *sub);

void belfry_subs_free(struct belfry_subs *subs, struct belfry_sub *sub);

#endif
