/* src/kfollow/resource_follow.h
 *
 * resource_follow: the machine that follows one resource of a Kubernetes API server. What its requests were answered
 * goes in; the requests that it wants come out; changes go to ingest in the order of their resourceVersions, each once.
 * A resourceVersion is the log's revision, unchanged. Our head H is the version up to which we have everything.
 *
 *            store empty
 *     START -------------> LISTING ----------- adopted, then a watch on the same link ----------.
 *       |                   ^   ^                                                               v
 *       | warm              |   `------ another past, or 410 of every server ----------------- LIVE
 *       `------> JOINING ---'                                                                 ^ ^ |
 *                  |  ^  |                                                                    | | |
 *                  |  |  `---------------- the overlap is ours -------------------------------' | |
 *                  |  `---- the watch ended, or its link was lost -------------------------------|-'
 *                  |                                                                            |
 *                  `--- no overlap to be had ----> AUDITING --- the list agrees with us ---------'
 *
 * The past. etcd may be restored from a backup. Then versions that we have seen are given again to other changes, and
 * a watch from H shows nothing wrong. A server's watches come from its cache, and the cache keeps the old past until
 * the server restarts or reads its etcd anew. So nothing is taken from a watch before it is shown that its past is
 * ours. There are four proofs, all of the cache that the watch comes from:
 *   link      The watch follows a list of the same server, on a connection that was not lost in between, within
 *             RESOURCE_LINK_MS of the request for the list. A server that reads its etcd anew is away for longer.
 *   overlap   The watch begins before our last few changes (JOINING). Its first events must be those changes: version,
 *             type, key, uid and bytes; otherwise the past is another one. If a server answers 410, the next one is
 *             asked. If all do, they are asked for the last change alone. After a listing the newest object is all
 *             that is known; if it is older than the list, deletions may have followed it, and only an audit will do.
 *   audit     No server has that change any more (AUDITING). The watch is opened at H; then its
 *             server lists all objects. The list is compared with our state (resource_audit.h). The list counts only
 *             if the watch is still open at its end, on the same link: a watch first, then its proof. What the watch
 *             shows meanwhile is taken and kept (resource_backlog.h), not published; so its end is seen in time. If
 *             objects of ours are not in the list, the watch must show that they were deleted. Over HTTP/1.1 the list
 *             cannot come on the link of an open watch: then the list is first, and the watch is opened anew on its
 *             link, as after any list.
 *   older     The server answers an audit with an error: its cache is behind us, at version C, and stays so if nothing
 *             changes. If a list at C has exactly our objects, and all of our changes are at C or below, then the watch
 *             is opened at C, on the link of the list. Anything that it shows up to H is another past. If that list
 *             took longer than RESOURCE_LINK_MS, another one follows the watch, as in an audit; not over HTTP/1.1.
 * Each event is also compared with the state that it changes: ADDED finds no object; MODIFIED and DELETED find one with
 * the same uid and an older version. Anything else is another past.
 *
 * Lists come from the cache, too ("0": of any version; a version: not older). So a list and the watch that follows it
 * are of one past, and etcd is not read. What etcd itself has is asked by a probe: a consistent list of one object.
 *
 * Behind is lag. A bookmark below H, or silence while joining, asks for a probe; a probe below H means another past.
 * After RESOURCE_LAGS servers that stayed behind, or one that often, a consistent list of all objects is compared with
 * our state, and then a list of a cache as it is. If the first contradicts us, or the cache has what etcd has and that
 * is not our state, the past is another one. Otherwise the caches do lag. (A restored etcd may have passed H although
 * the resource is quiet.) A listing after 410 asks for a list of H or newer, which such caches never have: after a
 * while it is judged in the same way.
 *
 * LISTING: a list, or the initial events of a watch where the server can send them, into the store's fresh copy; the
 * old content serves until it is adopted. It is adopted after a probe at or above its version: otherwise its cache is
 * of a past that is gone, and the next server is asked. Watchers that need anything up to the list's version are told
 * 410. If an item contradicts our old state, the past is another one, and all watchers are told 410.
 *
 * Stale: RESOURCE_STALE_MS without an event, a bookmark or the answer of a probe, on the link of the watch. Probes are
 * wanted in silence. After RESOURCE_DEAD_MS the next server is asked. Time during which this process did not run does
 * not count. While LIVE, what another follower hears on that link counts as well (resource_pulse.h), unless a probe of
 * our own has no answer.
 *
 * A watch that ends sooner than RESOURCE_SHORT_MS is retried once immediately, then at a pace: a server may prove the
 * overlap and end the watch, again and again. After a few such watches the next server is asked. 410 is an answer:
 * after a watch that lasted it puts nothing off.
 *
 * A server may want a connection to end (GOAWAY): its watches go on there, and requests go elsewhere. When two answers
 * in a row came on another link, nothing can show that the watch's server is there, and a new watch is opened. Over
 * HTTP/1.1 every answer comes on another link; there a watch is opened anew after RESOURCE_MUTE_MS without a bookmark.
 *
 * Deletions together: when a lease of etcd ends, all of its keys are deleted at one version, and the server shows a
 * DELETED for each. They are published as one change of several objects: a deletion waits until something newer, or
 * nothing for RESOURCE_TOGETHER_MS and a turn more, has come. Only resources whose objects have leases pay for that.
 * If another resource turns out to have such deletions, all of its watchers list anew: once after each start.
 *
 * Fresh: on request it is proven that we have everything that etcd has (resource_freshness.h), while LIVE.
 *
 * The owner calls ingest_open() first, and then leaves ingest to this machine. After every call that gives something
 * in, the owner calls resource_next() until it returns false.
 *
 * Thread: owner (ingest's). Pure: no socket, no clock; the store behind ingest is called.
 */
#ifndef BELFRY_KFOLLOW_RESOURCE_FOLLOW_H
#define BELFRY_KFOLLOW_RESOURCE_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "follow/ingest.h"
#include "kfollow/resource_backlog.h"
#include "kfollow/resource_kv.h"
#include "kfollow/resource_pulse.h"

#define RESOURCE_TICK_MS      500   /* a tick is due at least this often */
#define RESOURCE_PROBE_MS     2000  /* a probe is wanted after this much silence */
#define RESOURCE_OWN_PROBE_MS 60000 /* likewise, though other followers hear of the server */
#define RESOURCE_STALE_MS     5000  /* stale after this much silence */
#define RESOURCE_DEAD_MS      10000 /* the next server is asked after this much silence */
#define RESOURCE_LAG_MS       5000  /* likewise, if a watch was accepted this long ago and nothing is proven: it lags */
#define RESOURCE_LAGS         3     /* after so many lags in a row, etcd itself is asked */
#define RESOURCE_DEBT_MS      30000 /* a debt that is not paid after this long is another past (resource_audit.h) */
#define RESOURCE_STREAM_MS    10000 /* a server that does not end the initial events for this long cannot send them */
#define RESOURCE_LIST_MS      15000 /* the next server is asked if a list is silent for this long */
#define RESOURCE_LINK_MS      2000  /* a link proves nothing after this long */
#define RESOURCE_WATCH_S      1800  /* watches last this long to twice this long */
#define RESOURCE_MUTE_MS      150000 /* over HTTP/1.1, a watch that brings nothing for this long is opened anew */
#define RESOURCE_TOGETHER_MS  250    /* deletions of one version come within this of each other */
#define RESOURCE_TURN_MS      10     /* then what has come meanwhile is read, before they are published */
#define RESOURCE_SHORT_MS     1000   /* a watch that ends sooner has not worked */
#define RESOURCE_PACE_MS      500 /* after short watches a follower asks a server for a watch at most this often ... */
#define RESOURCE_PACE_ALL_MS  50  /* ... and all followers together this often; the first retry of each is free */
#define RESOURCE_RETRY_MS     200 /* the first wait before a request is sent again; up to RESOURCE_RETRY_MAX_MS */
#define RESOURCE_RETRY_MAX_MS 10000

struct resource_follow;

enum resource_state { RESOURCE_START, RESOURCE_LISTING, RESOURCE_JOINING, RESOURCE_AUDITING, RESOURCE_LIVE };

struct resource_follow_opts {
    struct ingest *ingest; /* opened; not of the whole scope */
    struct store *store;
    bool warm;          /* as ingest_open() said */
    unsigned n_servers; /* 1 to RESOURCE_SERVERS_MAX */
    uint32_t watch_s;   /* 0: RESOURCE_WATCH_S */
    bool no_initial;    /* no server is asked for initial events */
    bool has_leases;    /* objects end with leases of etcd (events): one version may delete many */
    uint64_t seed;
    struct belfry_hash_key hash_key;
    struct resource_pulse *pulse; /* of all followers; NULL: there is no other */
    const struct belfry_log *log;
};

/* Reads the whole state of a warm store, so call it before there is a reader thread.
 * Errors: BELFRY_ERR_INVALID, BELFRY_ERR_NOMEM, BELFRY_ERR_IO. */
BELFRY_NODISCARD enum belfry_err resource_follow_create(const struct resource_follow_opts *opts, uint64_t now_ms,
                                                        struct resource_follow **out);
void resource_follow_destroy(struct resource_follow *follow); /* NULL is fine */

/* ---- what is wanted ---- */

enum resource_want {
    RESOURCE_WANT_WATCH, /* a watch of all objects from .rv, with bookmarks, for .timeout_s; if .is_initial, first all
                             objects as ADDED, not older than .rv, and resource_on_initial_end() */
    RESOURCE_WANT_LIST,  /* a list of all objects: from the cache, not older than .rv; 0: of any version;
                             RESOURCE_CONSISTENT: from etcd */
    RESOURCE_WANT_PROBE, /* the version of a consistent list of one object; a failure in time */
    RESOURCE_WANT_VERSIONS, /* a consistent list of all objects, of which the keys, uids and versions are enough */
    RESOURCE_WANT_ANSWER,   /* for those who asked for the proof .id: we have everything that etcd had then, at version
                             .rv; 0: that could not be shown */
    RESOURCE_WANT_CANCEL,   /* end the request: nothing of it comes in any more */
    RESOURCE_WANT_RESUME    /* offer again what was not taken of the request */
};

#define RESOURCE_CONSISTENT (-1)

struct resource_action {
    enum resource_want want;
    unsigned server;
    uint64_t id;   /* of the request, or of the one to end or resume */
    uint64_t link; /* the request should go there, if it still can; 0: anywhere */
    int64_t rv;
    uint32_t timeout_s;
    bool is_initial;
};

/* The next action; false: none now. */
bool resource_next(struct resource_follow *follow, uint64_t now_ms, struct resource_action *out);

/* ---- what comes; `id` is the request's, and what comes for a request that is over is ignored ---- */

/* The server has accepted the watch. `link`: another number for each connection to the server, not 0
 * (resource_link_place()). Behind the address of a balancer, one link leads to one server as long as it lasts. */
void resource_on_opened(struct resource_follow *follow, uint64_t id, uint64_t link, uint64_t now_ms);

/* An event, a bookmark, an item. False: not taken; the owner keeps it, and what follows it, and offers it again after
 * RESOURCE_WANT_RESUME. */
bool resource_on_event(struct resource_follow *follow, uint64_t id, enum resource_change change,
                       const struct resource_object *object, uint64_t now_ms);
bool resource_on_bookmark(struct resource_follow *follow, uint64_t id, int64_t rv, uint64_t now_ms);
/* The initial events are complete, at version `rv`. */
void resource_on_initial_end(struct resource_follow *follow, uint64_t id, int64_t rv, uint64_t now_ms);
void resource_on_item(struct resource_follow *follow, uint64_t id, const struct resource_object *item, uint64_t link,
                      uint64_t now_ms);

/* The list is complete at version `rv`, all on one link; or the probe has its answer. */
void resource_on_listed(struct resource_follow *follow, uint64_t id, int64_t rv, uint64_t link, uint64_t now_ms);

/* So many wait to know that we have everything that etcd has now (resource_freshness.h). Returns the number of the
 * proof: RESOURCE_WANT_ANSWER says it later. */
uint64_t resource_prove(struct resource_follow *follow, size_t n, uint64_t now_ms);

enum resource_end {
    RESOURCE_ENDED,   /* the server ended the watch */
    RESOURCE_EXPIRED, /* 410 */
    RESOURCE_REFUSED, /* the server does not know such a watch; of any other request: RESOURCE_FAILED */
    RESOURCE_FAILED   /* anything else, of any request; also a list whose link was lost */
};
void resource_on_end(struct resource_follow *follow, uint64_t id, enum resource_end end, uint64_t now_ms);

/* All that the sockets held has come in. */
void resource_drained(struct resource_follow *follow, uint64_t now_ms);

void resource_tick(struct resource_follow *follow, uint64_t now_ms);
uint64_t resource_due(const struct resource_follow *follow);

/* ---- how it stands ---- */

enum resource_state resource_state(const struct resource_follow *follow);
bool resource_stale(const struct resource_follow *follow);      /* as of the last tick */
bool resource_ready(const struct resource_follow *follow);      /* LIVE and not stale */
const char *resource_why(const struct resource_follow *follow); /* why it last listed or lacked a proof; "": never */
unsigned resource_server(const struct resource_follow *follow); /* that is asked now */

struct resource_stats {
    uint64_t events, bookmarks;
    uint64_t listings;                         /* adopted */
    uint64_t streams;                          /* of those: by initial events */
    uint64_t expired;                          /* of those: because of 410 */
    uint64_t rewritten;                        /* of those: another past */
    uint64_t watches, overlaps, audits, links; /* opened; proven by each */
    uint64_t older;                            /* proven by an older list */
    uint64_t debts;                            /* audits that did not find all of our objects */
    uint64_t gone;                             /* lists of a cache whose past is gone */
    uint64_t probes, judgements, moves;        /* moves: to another server */
    uint64_t fresh, unproven;                  /* proofs that we have what etcd has; those that failed */
    uint64_t fresh_probes, fresh_lists;        /* requests for them */
};
void resource_stats(const struct resource_follow *follow, struct resource_stats *out);

#endif
