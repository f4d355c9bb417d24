/* src/core/output.h
 *
 * output: what streams receive, as bytes, and never more than they can take.
 *
 * Bytes for one outlet are gathered in one buffer and written when it is full, when another outlet comes, and at the
 * end of the turn. A message that does not fit into the outlet's room is begun anyway; the remainder is the outlet's
 * rest (rest.h) and goes out first when there is room again.
 *
 * Thread: the worker's.
 * Memory: one buffer of OUTPUT_BYTES, and the rests.
 */
#ifndef BELFRY_CORE_OUTPUT_H
#define BELFRY_CORE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blob.h"
#include "base/err.h"
#include "core/lines.h"
#include "core/response.h"
#include "core/rest.h"
#include "core/turn.h"
#include "core/watcher.h"

#define OUTPUT_BYTES     (64 * 1024)
#define OUTPUT_REST_COPY (16 * 1024) /* the rest of a message up to this size is a copy */

/* The end of a stream that takes bytes. */
struct outlet {
    void *user;                /* of the write function */
    const struct lines *lines; /* its dialect; NULL: it is etcd's own */
    size_t room;               /* bytes it can still take */
    struct rest *rest;         /* owned; NULL: no message is half sent */
    size_t rest_bytes;         /* accounted for the rest */
    uint64_t rest_since;       /* ms */
};

struct output_opts {
    struct response_identity identity;
    size_t fragment_bytes, response_bytes; /* worker.h */
    uint32_t response_revs;
    void (*write)(void *user, const uint8_t *data, size_t len); /* for outlets of etcd's own dialect */
};

struct output {
    struct output_opts opts;
    struct turn *turn; /* lent */
    uint8_t *buffer;   /* owned */
    size_t len;
    struct outlet *outlet; /* the one that the buffer's bytes are for */
    /* the catch-up response at the end of the buffer, which may still grow */
    size_t open_at; /* where it starts; SIZE_MAX: there is none */
    int64_t open_id;
    uint32_t open_revs;

    struct response_header header; /* of header_rev */
    int64_t header_rev;            /* 0: none is made */

    size_t rest_bytes, rest_bytes_peak;
    uint64_t n_written, n_packed, n_fragments; /* bytes; revisions added to an open response; cut responses */
};

BELFRY_NODISCARD enum belfry_err output_init(struct output *output, const struct output_opts *opts, struct turn *turn);
void output_fini(struct output *output);
void output_set_identity(struct output *output, const struct response_identity *identity);

void output_flush(struct output *output);
void output_drop(struct output *output, const struct outlet *outlet); /* bytes for it that are not written yet */

/* The header of a response without events. */
struct belfry_wire_header output_header(const struct output *output, int64_t rev);

enum output_result {
    OUTPUT_GIVEN,
    OUTPUT_NOTHING, /* no event passes the watcher's filters */
    OUTPUT_MORE,    /* of lines: the budget ended inside the revision; call again */
    OUTPUT_NO_ROOM  /* or no memory */
};

/* A watcher's response to the picked events. replay_at is 0, or P when the watcher is catching up: then the header
 * shows P and the response may grow while it is the last in the buffer. The outlet may have a rest afterwards. */
enum output_result output_response(struct output *output, struct outlet *outlet, const struct watcher *watcher,
                                   const struct response_pick *pick, int64_t replay_at);

/* Adds to the response that output_response() left open for this watcher. False: there is none, or it is full. *more:
 * the bytes added; 0: no event passes. */
bool output_grow(struct output *output, struct outlet *outlet, const struct watcher *watcher,
                 const struct response_pick *pick, size_t *more);

/* Does an event of the pick pass the watcher's filters? */
bool output_has_any(const struct output *output, const struct watcher *watcher, const struct response_pick *pick);

/* A response without events. False: no room, or no memory; nothing was sent. */
bool output_control(struct output *output, struct outlet *outlet, const struct belfry_wire_watch *watch);

/* Consumes the reference. There is room for at least a byte, and no rest. False: no memory; nothing was sent. */
bool output_line(struct output *output, struct outlet *outlet, struct belfry_blob *line);

/* ---- the rest of an outlet ---- */

/* Begins a response to a revision in slices (rest.h). Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err output_begin_extent(struct output *output, struct outlet *outlet,
                                                     const struct watcher *watcher, int64_t rev);

/* Sends a part of the rest: as much as there is room for in the outlet and in the buffer. There is some in the outlet.
 */
void output_fill(struct output *output, struct outlet *outlet);

/* To be called after the rest has changed what it holds. */
void output_account_rest(struct output *output, struct outlet *outlet);
void output_end_rest(struct output *output, struct outlet *outlet);

#endif
