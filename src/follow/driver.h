/* src/follow/driver.h
 *
 * driver: the machines of this folder (upstream, backfill, ingest) on a loop and on libbelfry's parts: what they want
 * becomes watches and reads of a real upstream, what comes goes in.
 *
 * Two Watch streams, each on a connection of its own: the live watch and its replay windows on one, backfills on the
 * other (their proof needs one server); reads on a third. TLS, mTLS, user and password as libbelfry does them.
 *
 * Order within one turn of the loop, as the machines need it (upstream.h): timers, then what the sockets hold, then what
 * follows from both; before the loop blocks, upstream_drained() and ingest_drained(). After a gap of the clock nobody is
 * judged before the sockets were read.
 *
 * Upstream's version is learned from the server of the live stream. A version with known bugs of its watch
 * (docs/spec/etcd-watch.md 3.8) is logged once as a warning. With a scope that is not everything, one older than 3.4.31
 * or 3.5.13 is refused: the tier is not ready, and the reason says what to do.
 *
 * Who is above is asked of the live stream's server once a second (about.h), and how long a revision takes from there is
 * measured (hop.h). An endpoint by which a tier is above itself, or below too many, is barred: its own requests come back
 * refused, or it finds itself among those above. It says so once and goes on with the others; when there is none left it
 * gives up, says so in its status, and follows nobody any more.
 *
 * One log line for each change of state: looking for upstream, connected, listing (with progress every 5 s), replaying,
 * live, stale, diverged, disk trouble and its end.
 *
 * Thread: owner (ingest's loop). No callback comes from inside driver_create().
 */
#ifndef BELFRY_FOLLOW_DRIVER_H
#define BELFRY_FOLLOW_DRIVER_H

#include <uv.h>

#include "base/log.h"
#include "core/evlog.h"
#include "core/segment.h"
#include "core/store.h"
#include "follow/about.h"
#include "follow/upstream.h"
#include "net/endpoint.h"
#include "net/tls.h"

/* How a tier above refuses what has gone in a circle, or through too many tiers (FAILED_PRECONDITION): the chain follows. */
#define DRIVER_CIRCLE          "belfry: tiers in a circle: "
#define DRIVER_TOO_MANY        "belfry: more than 8 tiers: "
#define DRIVER_CIRCLE_REMEDY   "give each tier its own --name and point --upstream at etcd or a tier above"
#define DRIVER_TOO_MANY_REMEDY "point --upstream at a tier nearer to etcd"
#define DRIVER_TIERS           8 /* in a row */

struct driver;

struct driver_events {
    /* The log has more, a past began, or what driver_status() says of readiness changed: wake the workers. At most once
     * a turn of the loop. */
    void (*changed)(void *user);
    /* The answer to driver_backfill(), as backfill_answer. */
    void (*backfilled)(uint64_t token, enum belfry_err err, struct segment *segment, int64_t compact_rev, void *user);
    /* What driver_about() says may be another, or older: about once a second. NULL: nobody cares. */
    void (*about)(void *user);
};

struct driver_opts {
    uv_loop_t *loop;
    const struct belfry_endpoint *endpoints; /* lent */
    size_t n_endpoints;
    struct belfry_tls *tls;                      /* NULL: no endpoint wants it */
    const char *user, *password, *password_file; /* NULL: none */
    const char *user_agent;
    const char
        *name; /* of the tier, as a word (serve/uplink/via.h): told upstream with every request; "": none. Lent */
    struct belfry_bytes key, range_end; /* the scope, as on the wire; lent. "\0", "\0": everything */
    struct store *store;
    struct evlog *evlog;
    size_t segment_bytes;                         /* 1 MiB */
    uint32_t dial_timeout_ms, command_timeout_ms; /* 0: 2,000 and 5,000 */
    uint64_t seed;
    const struct belfry_log *log;
};

/* Opens ingest on the store (so before the reader thread begins) and starts to follow. What an error leaves behind
 * finishes closing on the loop, as after driver_destroy().
 * Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_IO, BELFRY_ERR_INVALID. */
BELFRY_NODISCARD enum belfry_err driver_create(const struct driver_opts *opts, const struct driver_events *events,
                                               void *user, struct driver **out);

/* Backfills under way are answered with BELFRY_ERR_CANCELED; what can be committed is. Handles finish closing on the
 * loop. NULL is fine. */
void driver_destroy(struct driver *driver);

/* History of `past` from `from`, which the window (from `oldest`) has lost. Answered exactly once, never from inside. */
void driver_backfill(struct driver *driver, uint64_t past, int64_t from, int64_t oldest, uint64_t token);

enum driver_standing {
    DRIVER_NOT_READY, /* never been live since start, or listing anew */
    DRIVER_READY,
    DRIVER_STALE /* was live; upstream has been silent for UPSTREAM_STALE_MS */
};

struct driver_status {
    enum driver_standing standing;
    char reason[256]; /* when not ready, or stale: a sentence for people and for those who are refused */
    enum upstream_state state;
    int64_t revision, committed; /* ours: published, in the replica */
    int64_t upstream_revision;   /* the highest that upstream has shown */
    uint64_t lag_peak;           /* the most revisions that it had shown and we had not, since the start */
    uint64_t silent_ms;          /* since upstream last gave a sign that we are up to date; BELFRY_NEVER: never did */
    uint64_t past;
    struct belfry_wire_header identity;  /* cluster, member, term of the past's store */
    char endpoint[BELFRY_ENDPOINT_TEXT]; /* of the live stream; "" while there is none */
    char version[32];                    /* of its server; "" while unknown */
    bool disk_trouble;
    char disk_why[256]; /* "" without trouble */
    uint64_t barred;    /* a bit for each endpoint, as they were given, up to 64: it leads back to us, or too far */
    bool given_up;      /* all are: only another configuration helps; log lines have said it */
    uint64_t connects, losses; /* of all three connections */
    size_t backfills;          /* requests under way */
    uint64_t backfills_done, backfill_revisions;
    uint64_t keys_listed; /* of the listing under way */
    struct upstream_stats stats;
};
void driver_status(const struct driver *driver, struct driver_status *out);

/* What we say of ourselves and know of those above; without clock and stamps. */
void driver_about(struct driver *driver, struct about *out);

#endif
