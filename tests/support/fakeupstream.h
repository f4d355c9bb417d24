/* tests/support/fakeupstream.h
 *
 * fakeupstream: an HTTP/2 server on loopback that does what the test says, request by request, and remembers what it
 * was sent to the byte. It knows nothing of etcd (support/fakeetcd does).
 *
 * Requests are numbered as they come, from 0. Nothing happens outside upstream_turn(), which never blocks.
 *
 * Thread: owner. Memory: its own, out of the reach of the allocator that refuses.
 */
#ifndef BELFRY_TESTS_FAKEUPSTREAM_H
#define BELFRY_TESTS_FAKEUPSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct upstream;

struct upstream_request {
    char *fields; /* "name: value\n", pseudo-headers too, as they came */
    uint8_t *body;
    size_t body_len;
    bool ended;    /* the request */
    bool closed;   /* the stream */
    uint32_t code; /* it was closed with */
};

struct upstream_opts {
    uint32_t max_streams;   /* 0: says nothing of it */
    bool hold;              /* bodies of requests are not given window back */
    const char *cert, *key; /* PEM files: it speaks TLS, and takes any client certificate; NULL: plain */
    /* NULL, or told of each request when it has ended. */
    void (*serve)(struct upstream *upstream, size_t request, void *user);
    void *user;
};

struct upstream *upstream_create(const struct upstream_opts *opts);
void upstream_destroy(struct upstream *upstream);
const char *upstream_url(const struct upstream *upstream); /* "http://127.0.0.1:port", with TLS "https" */
void upstream_turn(struct upstream *upstream);

size_t upstream_count(const struct upstream *upstream); /* requests so far */
size_t upstream_n_conns(const struct upstream *upstream);
const struct upstream_request *upstream_request(const struct upstream *upstream, size_t request);
/* The value of a field; NULL: it has none. Overwritten by the next call. */
const char *upstream_field(const struct upstream *upstream, size_t request, const char *name);

/* Fields as name, value, ..., NULL. With `last` the response ends there. */
void upstream_head(struct upstream *upstream, size_t request, const char *const *fields, bool last);
void upstream_data(struct upstream *upstream, size_t request, const void *data, size_t len);
void upstream_trailers(struct upstream *upstream, size_t request, const char *const *fields); /* NULL: none; the end */
void upstream_reset(struct upstream *upstream, size_t request, uint32_t code);
size_t upstream_unsent(const struct upstream *upstream, size_t request); /* of its data */

/* head, one gRPC message, trailers with this status. */
void upstream_grpc(struct upstream *upstream, size_t request, const void *message, size_t len, const char *status);

void upstream_goaway(struct upstream *upstream, bool unseen); /* unseen: not even the newest request was looked at */
void upstream_drop(struct upstream *upstream, bool refuse);   /* refuse: the port too */
void upstream_listen(struct upstream *upstream);

#endif
