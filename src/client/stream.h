/* src/client/stream.h
 *
 * stream: drives the watch machine (mux) over its own link: logs in and opens the Watch stream when the machine wants
 * one, carries messages both ways, delivers actions, and reads the store's revision when the machine needs it.
 *
 * Watches have a connection apart from unary calls, because large answers on the same connection starve them
 * (etcd#15402).
 *
 * Thread: owner (the loop's). Actions are delivered from belfry_stream_pump() and from the connection.
 */
#ifndef BELFRY_CLIENT_STREAM_H
#define BELFRY_CLIENT_STREAM_H

#include "client/calls.h"
#include "client/watch/mux.h"

struct belfry_stream;

struct belfry_stream_opts {
    struct belfry_pool_opts link;
    struct belfry_calls *calls; /* outlives the stream, like the next two */
    struct belfry_auth *auth;
    struct belfry_cluster_identity *identity;
    bool hasleader;
    size_t max_message_bytes;
    size_t max_revision_bytes; /* of a fragmented revision; 0: max_message_bytes */
    bool owner_judges;         /* the owner checks whether the past was rewritten: the stream reads nothing for that */
    bool patient;              /* retry a doubtful status without limit */
    bool wants_version;        /* read the server's version even if no progress is requested */
    uint32_t progress_gap_ms, progress_wait_ms; /* as of belfry_mux_opts */
    enum belfry_mux_verdict (*deliver)(const struct belfry_mux_action *action, void *user);
    /* A create of `watch` was answered, before any of its events are delivered. May be NULL. */
    void (*created)(struct belfry_mux_watch *watch, const struct belfry_wire_header *header, void *user);
    /* The state of the link, for people; called only when it changes. */
    void (*link_text)(const char *text, void *user);
    /* Something changed: call belfry_stream_pump() from the loop soon. */
    void (*changed)(void *user);
    void *user;
};

BELFRY_NODISCARD enum belfry_err belfry_stream_create(const struct belfry_stream_opts *opts,
                                                      struct belfry_stream **out);

/* Drops remaining watches without an action. NULL is fine. */
void belfry_stream_destroy(struct belfry_stream *stream);

struct belfry_mux *belfry_stream_mux(struct belfry_stream *stream);
struct belfry_pool *belfry_stream_link(struct belfry_stream *stream);

/* The URL of the endpoint whose stream serves; NULL: none at the moment. */
const char *belfry_stream_endpoint(const struct belfry_stream *stream);

/* The connection that carries that stream; NULL: none at the moment. */
struct belfry_carrier *belfry_stream_conn(const struct belfry_stream *stream);

/* False: the server's version is not known. True with "": the server does not tell us its version. */
bool belfry_stream_version(const struct belfry_stream *stream, const char **version);

/* False: its server must not be asked for progress. True while that is not known. */
bool belfry_stream_tells_progress(const struct belfry_stream *stream);

/* The server is of no use: continue with the next endpoint. Not from inside deliver. */
void belfry_stream_leave(struct belfry_stream *stream, enum belfry_err err, const char *why);

/* Does everything that is due: actions, reads, the stream, requests. */
void belfry_stream_pump(struct belfry_stream *stream, uint64_t now_ms);
uint64_t belfry_stream_due(const struct belfry_stream *stream);

/* Delivers the waiting actions. */
void belfry_stream_drain(struct belfry_stream *stream);

#endif
