/* src/client/watches.h
 *
 * watches: the watches and follows of a session, between the caller's callback and the machines below: the mux delivers
 * groups of events here, and each follow has a machine (follow.h) whose pages are requested as calls.
 *
 * Callbacks may open, close and pause watches, their own included. A closed watch is freed when the last of its
 * callbacks has returned.
 *
 * Thread: owner, the session's.
 */
#ifndef BELFRY_CLIENT_WATCHES_H
#define BELFRY_CLIENT_WATCHES_H

#include <belfry/belfry.h>

#include "client/calls.h"
#include "client/stream.h"

struct belfry_watches;

struct belfry_watches_opts {
    struct belfry_stream *stream; /* outlives every watch, like the next two */
    struct belfry_calls *calls;
    const struct belfry_cluster_identity *identity;
    uint32_t page_timeout_ms;
    /* Something is due: call belfry_watches_pump() from the loop soon. */
    void (*poke)(struct belfry *session);
    struct belfry *session;
};

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_watches_create(const struct belfry_watches_opts *opts,
                                                       struct belfry_watches **out);

/* After belfry_watches_end_all(), so that no watch is left. NULL is fine. */
void belfry_watches_destroy(struct belfry_watches *watches);

/* What a watch and a follow have in common. */
struct belfry_watch_caller {
    struct belfry_range range; /* copied */
    belfry_batch_fn fn;
    void *user;
};

struct belfry_watch_follow {
    bool once, prev_kv;
    size_t page_bytes, pause_bytes;
    uint64_t seed;
};

/* Opens a watch; key and range_end of `spec` come from the caller's range.
 * Errors: BELFRY_ERR_INVALID (the range), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_watches_open(struct belfry_watches *watches,
                                                     const struct belfry_watch_caller *caller,
                                                     struct belfry_mux_spec spec, struct belfry_watch **out);

/* Opens a follow. Errors: as above. */
BELFRY_NODISCARD enum belfry_err belfry_watches_follow(struct belfry_watches *watches,
                                                       const struct belfry_watch_caller *caller,
                                                       const struct belfry_watch_follow *follow,
                                                       struct belfry_watch **out);

/* Like BELFRY_PAUSE, but from outside the watch's callback. */
void belfry_watches_pause(struct belfry_watch *w);
void belfry_watches_resume(struct belfry_watch *w);
void belfry_watches_close(struct belfry_watch *w); /* no callback comes after it */
struct belfry *belfry_watches_session(const struct belfry_watch *w);

/* For the stream of these watches: delivers an action to the watch that it names. `user` is not used. */
enum belfry_mux_verdict belfry_watches_deliver(const struct belfry_mux_action *action, void *user);

/* Requests pages, and reports vanished keys, of follows that are not live. */
void belfry_watches_pump(struct belfry_watches *watches, uint64_t now_ms);
uint64_t belfry_watches_due(const struct belfry_watches *watches); /* when to pump if nothing else happens */

/* Reports the state of the stream's link to every watch that is not paused. */
void belfry_watches_tell_link(struct belfry_watches *watches, const char *text);

/* Reports to follows that wait for a page, once per page, that it is late. */
void belfry_watches_tell_listing(struct belfry_watches *watches, const char *why);

/* Ends every watch with `err`. NULL is fine. */
void belfry_watches_end_all(struct belfry_watches *watches, enum belfry_err err, const char *why);

bool belfry_watches_empty(const struct belfry_watches *watches);

/* Numbers since creation. */
struct belfry_watches_stats {
    uint64_t events, lists;
};
struct belfry_watches_stats belfry_watches_stats(const struct belfry_watches *watches);

#endif
