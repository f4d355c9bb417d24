/* src/client/stream.h
 *
 * stream: drives the watch machine (mux) over a link of its own: opens the Watch stream when the machine wants one,
 * logs in before, carries messages both ways, hands out actions, and asks the store's revision where the machine needs
 * it.
 *
 * The watch has a connection apart from unary calls, because large answers on the same one starve it (etcd#15402).
 *
 * Thread: owner (the loop's). Actions are handed out from belfry_stream_pump() and from the connection.
 */
#ifndef BELFRY_CLIENT_STREAM_H
#define BELFRY_CLIENT_STREAM_H

#include "client/calls.h"
#include "client/watch/mux.h"

struct belfry_stream;

struct belfry_stream_opts {
    struct belfry_link_opts link;
    struct belfry_calls *calls; /* outlives this, as do the next two */
    struct belfry_auth *auth;
    struct belfry_identity *identity;
    bool hasleader;
    size_t max_message_bytes;
    size_t max_revision_bytes; /* of a revision in fragments; 0: max_message_bytes */
    bool owner_judges;         /* whether the past was rewritten is the owner's business: nothing is read to find out */
    bool patient;              /* a status that is only doubtful is tried again without limit */
    bool wants_version;        /* of the server, whether or not somebody wants progress */
    enum belfry_mux_verdict (*deliver)(const struct belfry_mux_action *action, void *user);
    /* A create of `watch` was answered, before anything it gives is delivered. NULL: nobody cares. */
    void (*created)(struct belfry_mux_watch *watch, const struct belfry_wire_header *header, void *user);
    /* The state of the link, for people; only when it changes. */
    void (*link_text)(const char *text, void *user);
    /* Something changed: call belfry_stream_pump() from the loop soon. */
    void (*changed)(void *user);
    void *user;
};

BELFRY_NODISCARD enum belfry_err belfry_stream_create(const struct belfry_stream_opts *opts,
                                                      struct belfry_stream **out);

/* Watches that are left are dropped without an action. NULL is fine. */
void belfry_stream_destroy(struct belfry_stream *stream);

struct belfry_mux *belfry_stream_mux(struct belfry_stream *stream);
struct belfry_link *belfry_stream_link(struct belfry_stream *stream);

/* The URL of the endpoint whose stream serves; NULL: none does now. */
const char *belfry_stream_endpoint(const struct belfry_stream *stream);

/* False: nothing is known of the version of its server. True with "": it has one, but does not tell us. */
bool belfry_stream_version(const struct belfry_stream *stream, const char **version);

/* False: its server is one that must not be asked for progress. True while that is not known. */
bool belfry_stream_tells_progress(const struct belfry_stream *stream);

/* The server is of no use: goes on with the next endpoint. Not from inside deliver. */
void belfry_stream_leave(struct belfry_stream *stream, enum belfry_err err, const char *why);

/* Everything that is due: actions, reads, the stream, requests. */
void belfry_stream_pump(struct belfry_stream *stream, uint64_t now_ms);
uint64_t belfry_stream_due(const struct belfry_stream *stream);

/* Hands out the actions that are there. */
void belfry_stream_drain(struct belfry_stream *stream);

#endif
