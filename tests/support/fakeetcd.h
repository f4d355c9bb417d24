/* tests/support/fakeetcd.h
 *
 * fakeetcd: as much of an etcd as a test of the client needs, on loopback, with bad manners on request.
 *
 * A store is a history of changes over a few keys; a fake is one member that serves it: KV, Watch, Auth, Status,
 * members and leases, over nghttp2's server side. The test drives it: nothing happens outside fake_turn(), which never
 * blocks. What should go wrong is told by a rule, which several members may share: the next so many requests whose
 * path holds a text are reset, refused, ignored, ...
 *
 * Thread: owner. Memory: its own, out of the reach of the allocator that refuses.
 */
#ifndef BELFRY_TESTS_FAKEETCD_H
#define BELFRY_TESTS_FAKEETCD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_TEXT    64   /* bytes of a key or value */
#define FAKE_CHANGES 2048 /* of a history */
#define FAKE_FIRST   2    /* etcd's first revision */
#define FAKE_LEASES  8

struct fake_change {
    int64_t rev;
    bool is_delete;
    uint8_t strange; /* 0, or the type that a watch is told instead of put and delete */
    size_t key_len, value_len;
    uint8_t key[FAKE_TEXT], value[FAKE_TEXT];
};

struct fake_lease {
    int64_t id, ttl_s; /* id 0: free. It does not expire by itself */
};

struct fake_store {
    uint64_t cluster_id, raft_term;
    int64_t revision, compacted;
    struct fake_change changes[FAKE_CHANGES];
    size_t n_changes;
    size_t n_serializable;                 /* Ranges that were asked so */
    size_t n_hasleader;                    /* requests with this metadata */
    const char *password;                  /* NULL: authentication is off */
    unsigned n_tokens;                     /* given out; only the newest is good */
    bool refuse_tokens;                    /* the next use of a token is refused, once */
    const char *version;                   /* NULL: 3.5.99 */
    struct fake_lease leases[FAKE_LEASES]; /* lease 7, of 60 s, is there from the start */
    uint64_t status_member;                /* who answers Status, as behind a balancer; 0: the member that was asked */
};

enum fake_how {
    FAKE_STALL,  /* no answer */
    FAKE_RESET,  /* RST_STREAM with .code */
    FAKE_STATUS, /* gRPC status .code and .message */
    FAKE_GOAWAY, /* GOAWAY below this request */
    FAKE_CLOSE,  /* the connection */
    FAKE_EMPTY,  /* status 0 and no message */
    FAKE_LATE    /* the answer is made now and sent when .released says so */
};

struct fake_rule {
    const char *path; /* part of it */
    int skip;         /* that many are served as usual before */
    int times;        /* that are left */
    enum fake_how how;
    uint32_t code;
    const char *message;
    bool released;
};

struct fake;

/* A member that listens on a free port of 127.0.0.1. `rule` may be NULL. */
struct fake *fake_create(struct fake_store *store, struct fake_rule *rule);
void fake_destroy(struct fake *fake);

void fake_store_init(struct fake_store *store);
void fake_put(struct fake_store *store, const char *key, const char *value);
void fake_del(struct fake_store *store, const char *key);

/* "http://127.0.0.1:port", lent. */
const char *fake_url(const struct fake *fake);

/* Accepts, reads, answers, writes: what is possible now. */
void fake_turn(struct fake *fake);

/* Closes every connection; with `refuse`, the port too, until fake_listen(). */
void fake_drop(struct fake *fake, bool refuse);
void fake_listen(struct fake *fake);

/* Closes the connections that carry a watch. */
void fake_drop_watches(struct fake *fake);

/* GOAWAY on every connection: what runs goes on. */
void fake_drain(struct fake *fake);

/* Serves another store from now on; streams that are open keep what they have. */
void fake_serve(struct fake *fake, struct fake_store *store);

/* Answers belfry.Tier/About with these bytes (lent), as a tier would; NULL: knows no such method, as etcd. */
void fake_tell_about(struct fake *fake, const void *message, size_t len);

/* Headers of Watch answers show this many revisions less than the store has. */
void fake_lag(struct fake *fake, int64_t revisions);

/* Requests so far whose path holds `path`; for Watch, creates count. The start of the last watch created. */
size_t fake_count(const struct fake *fake, const char *path);
int64_t fake_last_start(const struct fake *fake);
size_t fake_n_conns(const struct fake *fake);
size_t fake_n_watches(const struct fake *fake); /* open now */

/* Bytes of answers per turn and connection; 0: no limit. */
void fake_throttle(struct fake *fake, size_t bytes);

#endif
