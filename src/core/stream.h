/* src/core/stream.h
 *
 * stream: one client's watchers and the way their bytes go out. Each part belongs to one module, named beside it; the
 * others only read it.
 *
 *                 one of its watchers has an event
 *       RIDING ------------------------------------> WALKING
 *      (at P) ^                                       |  |  ^ takes bytes again, or the segment came
 *             `------------ walked up to P ----------'  v  |
 *                                             no room (parked), or history is awaited
 *
 * Thread: its worker's.
 * Memory: one allocation per stream, made and freed by the registry.
 */
#ifndef BELFRY_CORE_STREAM_H
#define BELFRY_CORE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/treap.h"
#include "core/output.h"

enum stream_state { STREAM_RIDING, STREAM_WALKING, STREAM_CLOSED };

/* Where a WALKING stream is: everything up to `at` is given, and of mid_rev what follows. */
struct stream_walk {
    int64_t at;
    int64_t mid_rev; /* 0, or the revision being given: to all ids up to mid_id, if mid_any */
    int64_t mid_id;
    bool mid_any;
    bool scanning; /* mid_rev is an extent: its rows are scanned up to scan_sub, for ids above mid_id */
    uint32_t scan_sub;
};

/* Where a stream of lines is: the events of `rev` below `sub` are done. */
struct stream_line {
    int64_t rev;
    uint32_t sub;
    int64_t resumed_rev; /* 0, or the revision that its client may have a part of */
    int64_t doomed;      /* not 0: its next line cannot be made; its watcher will be lost with this compact revision */
};

struct stream {
    uint64_t serial;         /* order among the streams of a worker, and in the interest index */
    uint64_t client;         /* whose it is, as a number; 0: nobody's */
    enum stream_state state; /* moved by registry_move_stream() alone */
    struct outlet outlet;    /* output */
    struct stream_walk walk; /* fanout */
    struct stream_line line; /* delivery */

    /* delivery: a revision in slices */
    struct watcher *solo_now; /* the watcher whose extent outlet.rest is; NULL: none, or it is gone */
    bool solo_rest;           /* outlet.rest is an extent's */
    bool broken;              /* a message was begun and cannot be finished */

    /* registry */
    bool parked;              /* it has something to send and no room */
    struct belfry_list link;  /* of the worker's streams: open, being judged by a cut, or closing */
    struct belfry_list ready; /* of a list of registry.h or fanout.h: ready, awaiting, fresh, held; or of none */
    struct belfry_treap_node *watchers; /* by id */
    size_t n_watchers, n_riding, n_behind, n_progress;
    size_t cost;                /* of its watchers: what each would cost alone */
    int64_t next_id;            /* the smallest id that was not assigned yet */
    int64_t top_id;             /* the largest id that was ever used: no need to look for one above it */
    struct belfry_list answers; /* struct answer */
    size_t n_answers;
    struct belfry_list stalled, solo, lost; /* watchers */

    /* cut */
    uint64_t past;  /* its watchers have been judged by this past's cut */
    int64_t cut_id; /* the cut under way has judged the ids below this */

    /* progress: the timer is the registry's, the rest fanout's */
    struct belfry_treap_node tick; /* of the registry's ticks, while n_progress > 0 */
    uint64_t tick_ms;
    uint64_t progress_ms; /* between ticks; 0: the worker's period */
    bool progress_asked;
    bool ticking;  /* periodic progress is being sent, up to tick_id */
    bool tick_all; /* to watchers that received events meanwhile, too */
    int64_t tick_id;
};

/* An answer to a request that waits to be written. */
struct answer {
    struct belfry_list link;
    int64_t id, rev;
    enum { ANSWER_CREATED, ANSWER_CANCELED, ANSWER_REFUSED } kind;
    char reason[]; /* ends in a zero byte; empty unless refused */
};

/* Has it messages of its own that were not sent yet? */
static inline bool stream_has_messages(const struct stream *stream)
{
    return stream->outlet.rest != NULL || !belfry_list_empty(&stream->answers) || !belfry_list_empty(&stream->lost) ||
           !belfry_list_empty(&stream->solo);
}

#endif
