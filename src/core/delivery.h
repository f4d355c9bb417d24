/* src/core/delivery.h
 *
 * delivery: what a stream is given: the rest of a begun message, answers, notices of loss, and events, either as etcd's
 * responses or as lines of another dialect (lines.h).
 *
 * The order is fixed: a begun message comes before everything, then answers, then losses, then events. A line is an
 * atom, so a stream of lines has a place inside a revision, the number of its next event: a revision with very many
 * lines is never held as a whole, however slow the stream is.
 *
 * Thread: the worker's.
 */
#ifndef BELFRY_CORE_DELIVERY_H
#define BELFRY_CORE_DELIVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/output.h"
#include "core/registry.h"
#include "core/source.h"
#include "core/stream.h"
#include "core/turn.h"

struct delivery {
    /* fixed at creation; lent */
    struct turn *turn;
    struct output *output;
    struct source *source;
    struct registry *registry;
    /* since creation */
    uint64_t n_events, n_lost; /* responses or lines; notices of loss */
};

/* Rest, answers and losses, in this order. True: all are sent, and there is room. */
bool delivery_pending(struct delivery *delivery, struct stream *stream);

/* The watcher's events of one revision, after what is pending. */
enum delivery_kind { DELIVERY_LIVE, DELIVERY_REPLAY };
enum output_result delivery_events(struct delivery *delivery, struct watcher *watcher, const struct response_pick *pick,
                                   enum delivery_kind kind);

/* Progress: to a watcher, or (id -1) to the whole stream. False: no room, or no memory. */
bool delivery_progress(struct delivery *delivery, struct stream *stream, int64_t id);

/* Begins the response to a revision in slices for a solo watcher; delivery_pending() continues it. False: no memory. */
bool delivery_begin_extent(struct delivery *delivery, struct watcher *watcher);

/* ---- streams of lines ---- */

enum line_result {
    LINE_GIVEN,   /* or the dialect has no line for it; the stream's place is after the event */
    LINE_NO_ROOM, /* or no memory */
    LINE_LOST     /* the previous value is needed and gone: the watcher is to be lost */
};

/* The next line of a part; *used of its events are in it, or have no line. The place is after the last of these. */
enum line_result delivery_line(struct delivery *delivery, struct watcher *watcher, const struct lines_part *part,
                               uint32_t *used);

/* Has a client that resumed from `rev` all of it, because only n_events of its events are for it? */
bool delivery_line_is_known(const struct stream *stream, int64_t rev, size_t n_events);

uint32_t delivery_line_place(const struct stream *stream, int64_t rev); /* number of the next event of `rev` */
void delivery_line_pass(struct stream *stream, const struct batch *batch, uint32_t event); /* the place is after it */

/* Loses the watcher of a stream whose next line cannot be made. */
void delivery_lose_doomed(struct delivery *delivery, struct stream *stream);

#endif
