/* src/kfollow/resource_set.h
 *
 * resource_set: the resources that a tier follows: a session with a client for each API server, and for each resource a
 * driver, a replica and a log of its own.
 *
 *     LOOKING --discovery has it--> FOLLOWED --stale, and discovery has it no more--> FOLLOWED, gone
 *      | ^ absent: after RESOURCE_SET_LOOK_MS; no answer: sooner, at the next server
 *      `-'
 *
 * Kind, scope and version of a resource come from discovery (resource_find.h). A resource that upstream does not have
 * is looked for again, because its definition may come later. Once it is FOLLOWED its store and its log stay.
 *
 * A definition may be deleted. While a resource is stale, discovery is asked every RESOURCE_SET_LOOK_MS; one that
 * upstream does not have any more is gone, which is absent for clients, until its follower is live again. If discovery
 * says something else than before (another version, kind or scope), it is gone until this process restarts.
 *
 * By which fields a resource can be selected depends on the server's version and on the definition. Both may change
 * while it is followed, and then its watches end: so whenever a follower begins a watch, its server is asked again.
 *
 * Ready: the follower is (resource_follow.h), or was so less than RESOURCE_STALE_MS ago: a follower joins anew whenever
 * a watch ends, which takes milliseconds, and clients should not notice.
 *
 * The bytes of logs and of history are divided into equal parts. A resource's replica is DIR/PLURAL.GROUP; its scope
 * names the version, so a replica of another version is discarded.
 *
 * Thread: owner (that of the loop). The store and the log of a resource may be read by other threads from found() on,
 *         until resource_set_close().
 */
#ifndef BELFRY_KFOLLOW_RESOURCE_SET_H
#define BELFRY_KFOLLOW_RESOURCE_SET_H

#include <belfry/kube.h>
#include <uv.h>

#include "kfollow/resource_driver.h"
#include "kfollow/resource_find.h"
#include "kfollow/resource_name.h"

#define RESOURCE_SET_MAX      200
#define RESOURCE_SET_LOOK_MS  10000 /* between two looks for a resource that is absent */
#define RESOURCE_SET_RETRY_MS 250   /* after the first failure to look; doubled up to RESOURCE_SET_LOOK_MS */

struct resource_set;

struct resource_set_opts {
    uv_loop_t *loop;
    const struct belfry_opts *const *servers; /* for belfry_kube_open(), one for each; lent until it is open */
    unsigned n_servers;                       /* 1 to RESOURCE_SERVERS_MAX */
    const struct resource_name *names;        /* lent, as the next; no two of them are the same */
    const char *dir;
    size_t n_names; /* 1 to RESOURCE_SET_MAX */
    size_t log_bytes, history_bytes;
    uint64_t history_age_s;
    unsigned n_workers;                    /* readers of each log */
    uint32_t watch_s;                      /* 0: RESOURCE_WATCH_S */
    uint32_t look_ms;                      /* 0: RESOURCE_SET_LOOK_MS */
    bool (*is_builtin)(const char *group); /* is it one of Kubernetes' own? NULL: all are; others have definitions */
    uint64_t seed;
    const struct belfry_log *log;
};

struct resource_set_events {
    /* The resource is FOLLOWED: its facts, store and log are there. Once for each, and again whenever facts->selectable
     * is another one. */
    void (*found)(size_t number, void *user);
    /* Its log has more, a past began, or resource_set_look() says something else. */
    void (*changed)(size_t number, void *user);
};

/* Errors: BELFRY_ERR_INVALID, BELFRY_ERR_TLS (`why` has a sentence), BELFRY_ERR_IO, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err resource_set_open(const struct resource_set_opts *opts,
                                                   const struct resource_set_events *events, void *user,
                                                   struct resource_set **out, char *why, size_t why_len);

/* Ends everything, and closes the replicas. No other thread reads them any more. NULL is fine. */
void resource_set_close(struct resource_set *set);

struct resource_set_view {
    bool is_found, is_ready, is_stale;
    bool is_absent;                     /* upstream answered that it does not have the resource, or it is gone */
    const struct resource_facts *facts; /* NULL: it is not found yet */
    struct store *store;                /* this and the next: likewise */
    struct evlog *log;
    struct resource_driver *driver;
    char reason[256]; /* why it is not ready; "": it is */
    int code;         /* HTTP's, of the answer behind the reason; 0: there was none */
};
void resource_set_look(const struct resource_set *set, size_t number, struct resource_set_view *out);

/* The client of a server, for its counters. */
struct belfry_kube *resource_set_server(const struct resource_set *set, unsigned number);

#endif
