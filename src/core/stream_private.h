/* src/core/stream_private.h
 *
 * stream_private: a stream as core sees it.
 *
 *                 one of its watchers has an event
 *       RIDING ------------------------------------> WALKING
 *      (at P) ^                                       |  |  ^ takes bytes again, or the segment came
 *             `------------ walked up to P ----------'  v  |
 *                                             no room (parked), or history is awaited
 *
 * Thread: its worker's.
 */
#ifndef BELFRY_CORE_STREAM_PRIVATE_H
#define BELFRY_CORE_STREAM_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/treap.h"
#include "core/lines.h"
#include "core/response.h"
#include "core/watcher.h"

enum stream_state { STREAM_RIDING, STREAM_WALKING, STREAM_CLOSED };

/* A created or cancel answer that waits to be written. */
struct answer {
    struct belfry_list link;
    int64_t id, rev;
    bool created, canceled;
    char reason[]; /* ends in a zero byte */
};

struct stream {
    uint64_t serial; /* order among the streams of a worker; first: the interest index sorts by it */
    void *user;
    const struct lines *lines;     /* its dialect; NULL: it is etcd's own */
    struct belfry_list link;       /* of the worker's streams, or of those being taken down */
    struct belfry_list ready;      /* of the worker's ready, or of those who await history */
    struct belfry_treap_node tick; /* of the worker's ticks, while n_progress > 0 */
    uint64_t tick_ms;
    uint64_t progress_ms; /* of its own, between ticks; 0: the worker's */

    enum stream_state state; /* moved by stream_move() alone */
    int64_t at;              /* WALKING: everything up to this revision is given */
    int64_t mid_rev;         /* 0, or the revision being given: to all ids up to mid_id, if any */
    int64_t mid_id;
    bool mid_any;
    bool scanning; /* mid_rev is an extent: its rows are looked through up to scan_sub, for ids above mid_id */
    uint32_t scan_sub;
    int64_t line_rev; /* of lines: the revision being given, of which the events below line_sub were looked at */
    uint32_t line_sub;
    int64_t resumed_rev; /* of lines: 0, or the revision that its client may have a part of */
    int64_t doomed; /* of lines: not 0: what comes next cannot be told; its watcher is to be lost with this revision */
    uint64_t past;  /* the cut up to which its watchers have been judged */
    int64_t cut_id; /* by the cut under way: those below this id */

    size_t room; /* bytes it can still take */
    struct rest *rest;
    size_t rest_bytes;        /* accounted for it */
    uint64_t rest_since;      /* ms */
    struct watcher *solo_now; /* whose extent `rest` is; NULL: nobody's any more */
    bool solo_rest;           /* `rest` is an extent's */
    bool broken;              /* what was begun cannot be finished */

    struct belfry_treap_node *watchers; /* by id */
    size_t n_watchers, n_riding, n_behind, n_progress;
    int64_t next_id; /* the smallest that was not given out without being asked for */
    int64_t top_id;  /* the largest that was ever used: above it nothing needs to be looked for */
    struct belfry_list answers;
    size_t n_answers;
    struct belfry_list stalled, solo, lost;

    bool parked; /* counted as such: has something and no room */
    bool progress_asked;
    bool ticking; /* periodic progress is being told, up to tick_id */
    int64_t tick_id;
};

#endif
