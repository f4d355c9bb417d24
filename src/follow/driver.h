/* src/follow/driver.h
 *
 * driver: the machines of this folder (upstream, backfill, ingest) on a loop and on libbelfry's parts. What the
 * machines want becomes watches (watches.h) and reads (reads.h) of a real upstream; what upstream answers goes back
 * into them.
 *
 * Two Watch streams, each on a connection of its own: the live watch and its replay windows on one, backfills on the
 * other (their proof needs one server); reads on a third. TLS, mTLS, user and password as libbelfry does them.
 *
 * Order within one turn of the loop, as the machines need it (upstream.h): timers, then what the sockets hold, then
 * what follows from both; before the loop blocks, upstream_drained() and ingest_drained(). After a gap of the clock
 * nothing is judged before the sockets were read.
 *
 * Upstream's version is learned from the server of the live stream. A version with known bugs of its watch is logged
 * once as a warning. With a scope that is not everything, a version older than 3.4.31 or 3.5.13 is refused
 * (judge/etcd_version.h): the tier is not ready, and the reason says what to do.
 *
 * The live stream's server is asked once per second what it is, and how far away it is is measured (above.h). An
 * endpoint by which a tier is above itself, or below too many, is barred (circle.h). When no endpoint is left, the
 * driver gives up, says so in its status, and follows no upstream until the next start.
 *
 * Each change of state is one log line (follow_log.h).
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
#include "follow/backfill.h"
#include "follow/follow_log.h"
#include "follow/readpoint.h"
#include "follow/upstream.h"
#include "judge/etcd_version.h"
#include "net/endpoint.h"
#include "net/tls.h"

struct driver;

struct driver_events {
    /* The log has more, a past began, or what driver_status() says of readiness changed: wake the workers. At most once
     * per turn of the loop. */
    void (*changed)(void *user);
    /* The answer to driver_backfill(), as backfill_answer. */
    void (*backfilled)(uint64_t token, enum belfry_err err, struct segment *segment, int64_t compact_rev, void *user);
    /* What driver_about() says may be new, or older: about once per second. May be NULL. */
    void (*about)(void *user);
};

struct driver_opts {
    uv_loop_t *loop;
    const struct belfry_endpoint *endpoints; /* lent */
    size_t n_endpoints;
    struct belfry_tls *tls;                      /* NULL: no endpoint wants it */
    const char *user, *password, *password_file; /* NULL: none */
    const char *user_agent;
    const char *name; /* of the tier, as a word (serve/uplink/via.h), sent with every request; "": none. Lent */
    struct belfry_bytes key, range_end; /* the scope, as on the wire; lent. "\0", "\0": everything */
    struct store *store;
    struct evlog *evlog;
    struct term *term;                            /* hears of every header; outlives the driver, as the two above */
    size_t segment_bytes;                         /* 1 MiB */
    uint32_t dial_timeout_ms, command_timeout_ms; /* 0: 2,000 and 5,000 */
    uint64_t seed;
    const struct belfry_log *log;
};

/* Opens ingest on the store (so call it before the reader thread begins) and starts to follow. After an error, what was
 * created finishes closing on the loop, as after driver_destroy().
 * Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_IO, BELFRY_ERR_INVALID. */
BELFRY_NODISCARD enum belfry_err driver_create(const struct driver_opts *opts, const struct driver_events *events,
                                               void *user, struct driver **out);

/* Answers backfills under way with BELFRY_ERR_CANCELED and commits what can be committed. Handles finish closing on the
 * loop. NULL is fine. */
void driver_destroy(struct driver *driver);

/* Asks for history that the window has lost (backfill.h). Answered exactly once; from inside only if there is no memory
 * to answer later. */
void driver_backfill(struct driver *driver, const struct backfill_ask *ask);

/* The revision that upstream has reached, for linearizable reads (readpoint.h). `ask` is told from the loop, or when
 * the driver is destroyed. */
void driver_read_point(struct driver *driver, struct readpoint_ask *ask);

enum driver_standing {
    DRIVER_NOT_READY, /* it was never live since the start, or lists again */
    DRIVER_READY,
    DRIVER_STALE /* was live; upstream has been silent for UPSTREAM_STALE_MS */
};

/* Why it is not ready, or stale: what `reason` says in words. */
enum driver_trouble {
    DRIVER_FINE,
    DRIVER_GAVE_UP,     /* every endpoint leads back to this tier, or through too many tiers */
    DRIVER_TOO_OLD,     /* upstream's version cannot be followed */
    DRIVER_LOG_IN,      /* upstream refuses our name or password */
    DRIVER_REFUSED,     /* upstream answers our watch or our reads with an error */
    DRIVER_UNREACHABLE, /* no endpoint can be connected to, or TLS fails */
    DRIVER_DISK,        /* the replica cannot be written */
    DRIVER_WORKING,     /* it starts, lists, joins or replays: it takes time */
    DRIVER_SILENT,      /* connected, and nothing comes */
    DRIVER_ABSENT,      /* upstream does not have a resource that is to be followed */
    DRIVER_DENIED,      /* our account at upstream lacks a right that we need */
    DRIVER_TROUBLES
};

struct driver_status {
    enum driver_standing standing;
    enum driver_trouble trouble;
    char reason[256]; /* when not ready, stale, or without `endpoint`: a sentence for people, and for refused clients */
    enum upstream_state state;
    int64_t revision, committed; /* ours: published, in the replica */
    int64_t upstream_revision;   /* the highest that upstream has shown */
    uint64_t lag_peak;           /* the most revisions that it had shown and we did not have, since the start */
    uint64_t silent_ms;          /* since the last sign that we are up to date; BELFRY_NEVER: there was none */
    uint64_t past;
    struct belfry_wire_header identity;  /* cluster, member, term of the past's store */
    char endpoint[BELFRY_ENDPOINT_TEXT]; /* of the live stream; "" while there is none */
    char version[32];                    /* of its server; "" while unknown */
    enum etcd_keys_only keys_only;       /* how the etcd at the top answers them */
    struct follow_loss loss;             /* the last one; at_ms is by belfry_clock_ms() */
    bool disk_trouble;
    char disk_why[256];        /* "" without trouble */
    uint64_t barred;           /* a bit per endpoint, as they were given, up to 64: it leads back to us, or too far */
    bool given_up;             /* all are barred: only another configuration helps; a log line says so */
    uint64_t connects, losses; /* of all three connections */
    size_t backfills;          /* requests under way */
    uint64_t backfills_done, backfill_revisions;
    uint64_t keys_listed; /* of the listing under way */
    struct upstream_stats stats;
    struct readpoint_stats points;
};
void driver_status(const struct driver *driver, struct driver_status *out);

/* This tier and what is known of those above it, as in about.h, without clock and stamps. */
void driver_about(struct driver *driver, struct about *out);

#endif
