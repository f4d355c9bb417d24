/* src/serve/uplink/uplink.h
 *
 * uplink: a worker's connections to upstream for calls that are not the tier's own: relayed ones, and the questions
 * that are asked with a client's token (permit.h). HTTP/2 streams, unread: fields and bytes.
 *
 * The connections are those of a pool (net/pool.h) with one route per endpoint. Calls of one downstream connection go
 * to the same endpoint while it can be reached: its pin (exchange_conn.pin) is 1 + the endpoint's number; calls without
 * a pin take turns. A call is never sent twice: it waits until a connection is up, and from the time its HEADERS were
 * pulled it stays or falls with that connection. A call for which no endpoint can be reached for UPLINK_WAIT_MS ends
 * with UNAVAILABLE. When no stream has become free for `full_ms`, because all of them are long, the calls that
 * wait get another connection to that endpoint. At most UPLINK_CONNS connections, and UPLINK_CALLS calls.
 *
 * Flow control: the connection's window is given back as bytes arrive; a call's own with uplink_taken(): one stalled
 * response never holds others.
 *
 * The tier's certificate speaks for the tier alone. Where a connection presented one with a common name, a client's
 * call that brings no user of its own is sent so that etcd ignores that name ("grpcgateway-accept"), unless auth is
 * known to be off at that moment: then the name gives no rights, and etcd would log a warning for each call. This is
 * decided when a call's HEADERS are made, by the connection that they are made for.
 *
 * With `is_kube` upstream is Kubernetes' API: no field of etcd's is added. By a certificate the API server would take a
 * client's call for one of the tier's own. So a client's call is refused if the tier would present one.
 *
 * PING keepalive as in net/grpc.h (every 10 s at most while calls run, dead after 10 s without any byte).
 *
 * Thread: owner (the loop's). No event comes from inside uplink_open().
 */
#ifndef BELFRY_SERVE_UPLINK_UPLINK_H
#define BELFRY_SERVE_UPLINK_UPLINK_H

#include <uv.h>

#include "base/list.h"
#include "base/log.h"
#include "net/dns.h"
#include "net/endpoint.h"
#include "net/h2.h"
#include "net/tls.h"
#include "server/exchange.h"

#define UPLINK_WAIT_MS 4000 /* under the 5 s that etcdctl waits, so that it is told why */
#define UPLINK_FULL_MS 1000
#define UPLINK_KUBE_MS 100 /* the same with is_kube: most streams are watches, which last */
#define UPLINK_CONNS   64
#define UPLINK_CALLS   100000
#define UPLINK_WINDOW  (256 * 1024) /* of each stream */
#define UPLINK_PING_MS 10000        /* between PINGs while calls run, and until one counts as unanswered */

struct uplink;
struct uplink_call;

struct uplink_opts {
    uv_loop_t *loop;
    struct belfry_dns *dns;
    const struct belfry_endpoint *endpoints; /* lent */
    size_t n_endpoints;
    struct belfry_tls *tls; /* may be NULL */
    uint32_t dial_timeout_ms;
    uint32_t full_ms; /* 0: UPLINK_FULL_MS, or UPLINK_KUBE_MS */
    size_t max_conns; /* 0: UPLINK_CONNS */
    const char *via;  /* our name as a word (via.h), which every call gets behind those it has; NULL: none. Lent */
    const char *base; /* goes in front of every path; without a slash at its end. NULL: none. Lent */
    bool is_kube;
    uint64_t seed;
    const struct belfry_log *log;
};

BELFRY_NODISCARD enum belfry_err uplink_create(const struct uplink_opts *opts, struct uplink **out);
void uplink_destroy(struct uplink *uplink); /* every call is told `closed`; NULL is fine */

/* Sets how to find out that auth is known to be off (permit.h does). NULL: it is never known. */
void uplink_ask_auth(struct uplink *uplink, bool (*is_off)(void *user), void *user);

/* True when a call that is opened now may go by a certificate with a common name: a connection that is up presented
 * one, or the newest did, or there was none yet. A hint, so that auth is asked about first and not in vain: what is
 * sent does not depend on it. */
bool uplink_may_have_name(const struct uplink *uplink);

/* Endpoints that get no more calls from now on: a bit for each, up to 64. What is under way there goes on. */
void uplink_bar(struct uplink *uplink, uint64_t endpoints);

/* Why a call ended without the peer saying so. */
struct uplink_end {
    uint32_t h2_code; /* of RST_STREAM; NO_ERROR when the connection was lost */
    bool lost;        /* the connection was lost, or none could be made */
    bool unprocessed; /* certainly not seen by upstream's application */
    const char *why;  /* lent; with the endpoint, unless the peer reset the call: that is no news of the endpoint */
};

struct uplink_events {
    /* One field of a header block (the first block: the response's head with :status; a second: trailers), then the
     * block's end; `last`: the response is complete. */
    void (*field)(struct uplink_call *call, struct belfry_bytes name, struct belfry_bytes value, void *user);
    void (*block)(struct uplink_call *call, bool last, void *user);
    void (*data)(struct uplink_call *call, struct belfry_bytes bytes, void *user);
    void (*end)(struct uplink_call *call, void *user); /* the body ended without trailers */
    /* As belfry_h2_events.read: bytes of the request. Closes no call. */
    size_t (*read)(struct uplink_call *call, uint8_t *to, size_t cap, bool *out_end, void *user);
    /* The last event, unless uplink_close() comes first. After block(last) or end() the owner closes. */
    void (*closed)(struct uplink_call *call, const struct uplink_end *end, void *user);
};

/* Who asks, which matters to etcd where the tier's certificate has a common name. */
enum uplink_caller {
    UPLINK_CALLER_CLIENT, /* a client: its rights are those of the token that it brings */
    UPLINK_CALLER_ANYONE  /* no right is needed to ask, or the answer goes to no client */
};

/* Everything is copied. `fields` go behind :method, :scheme, :authority (of the endpoint), :path. */
struct uplink_request {
    struct belfry_bytes method; /* empty: POST */
    struct belfry_bytes path;   /* with its query */
    bool is_bodiless;           /* the request ends with its head: read() is never called */
    const struct belfry_http_field *fields;
    size_t n_fields;
    enum uplink_caller caller;
};

/* pin: NULL or exchange_pin(), lent until the call has ended. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT,
 * BELFRY_ERR_INVALID (a method, path or fields that HTTP/2 does not allow, or over 48 KiB), BELFRY_ERR_AUTH (`is_kube`:
 * a client's call where the tier has a certificate). */
BELFRY_NODISCARD enum belfry_err uplink_open(struct uplink *uplink, unsigned *pin, const struct uplink_request *request,
                                             const struct uplink_events *events, void *user, struct uplink_call **out);

/* Lets go of it: RST_STREAM(CANCEL) unless it was complete. No event follows. */
void uplink_close(struct uplink_call *call);

/* True when it was sent so that etcd may take it for one of the certificate's user, if auth is turned on meanwhile. */
bool uplink_is_lent(const struct uplink_call *call);

void uplink_resume(struct uplink_call *call);          /* read() has something again */
void uplink_taken(struct uplink_call *call, size_t n); /* bytes of data() were used */

/* Bytes that are kept of its fields; 0 once they have been sent, which is before the first read(). */
size_t uplink_unsent(const struct uplink_call *call);

struct uplink_stats {
    size_t calls, connections;
    uint64_t opened, connects, losses, unavailable;
};
void uplink_stats(const struct uplink *uplink, struct uplink_stats *out);
uv_loop_t *uplink_loop(const struct uplink *uplink);

/* "http://a:1: connection refused; ..." of what was tried and failed last; "" when all is well. */
void uplink_describe(const struct uplink *uplink, char *text, size_t len);

#endif
