/* tests/sim/kube/kube_servers.h
 *
 * kube_servers: a model of API servers on one etcd, as one client sees them. Each has a watch cache: a past, a version
 * up to which it has everything, and the last few changes. The cache lags, begins anew after a restart, and after a
 * restore of etcd stays with the old past until its server restarts or reads etcd anew. Lists are of the cache, too;
 * probes read etcd itself. Each request has messages on their way; they arrive in order.
 *
 * A request goes over a connection, on the one that the client prefers if that is still there, and mostly on one that
 * exists. Behind a balancer the client sees one server: each connection leads to any of the servers, for as long as it
 * lasts.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_KUBE_SERVERS_H
#define BELFRY_SIM_KUBE_SERVERS_H

#include "kfollow/resource_follow.h"
#include "sim/kube/kube_history.h"

#define KUBE_SERVERS 3
#define KUBE_CALLS   8
#define KUBE_WINDOW  12 /* changes that a cache keeps */
#define KUBE_LINKS   8  /* connections at a time */
#define KUBE_SHORTS  3

enum kube_message_kind { KUBE_OPENED, KUBE_EVENT, KUBE_BOOKMARK, KUBE_INITIAL_END, KUBE_ITEM, KUBE_LISTED, KUBE_END };

/* What a server does if it is asked for initial events. */
enum kube_initial { KUBE_INITIAL_SENDS, KUBE_INITIAL_REFUSES, KUBE_INITIAL_IGNORES };

struct kube_message {
    uint64_t at_ms; /* when it arrives */
    enum kube_message_kind kind;
    struct kube_change change; /* EVENT, ITEM */
    int64_t rv;                /* BOOKMARK, INITIAL_END, LISTED */
    uint64_t link;             /* OPENED, LISTED */
    enum resource_end end;     /* END */
};

struct kube_call {
    enum { KUBE_NO_CALL, KUBE_WATCH, KUBE_LIST, KUBE_PROBE } kind;
    uint64_t id;
    unsigned server; /* where it went */
    uint64_t link;
    uint64_t sent_ms;
    uint64_t opened_ms; /* when the client learnt that its watch was accepted; 0: not yet */
    int64_t head;       /* the client's version when it was sent */
    /* at the server */
    uint64_t next_ms; /* it does something then */
    bool is_begun, is_over;
    bool is_initial; /* WATCH: all objects come first, not older than `at` */
    int64_t at;      /* WATCH: sent up to here; LIST: not older than this */
    uint64_t deadline_ms, bookmark_ms;
    uint64_t list_ms; /* is_initial: it fails if its cache is too old then */
    /* on its way */
    struct kube_message *messages; /* owned */
    size_t first, n, cap;
    bool is_held; /* the client did not take the first */
};

struct kube_server {
    bool is_up;
    uint64_t up_ms;      /* down: until then */
    uint64_t stopped_ms; /* it does nothing before */
    uint64_t lag_ms;     /* its cache does not move before */
    uint64_t anew_ms;    /* after a restore: when it restarts or reads etcd anew; 0: it need not */
    bool anew_by_restart;
    uint64_t away_ms;  /* it reads its etcd anew until then, and answers no watch and no list */
    bool has_progress; /* its cache follows etcd's revision while the resource is quiet */
    enum kube_initial initial;
    unsigned past;
    int64_t base, at;  /* its cache was listed at base, and has everything up to at */
    uint64_t flaps_ms; /* until then it ends each watch soon after it has shown something */
    /* the client's watches that ended at once, since one lasted: when the last ones were sent */
    uint64_t shorts[KUBE_SHORTS];
    unsigned n_shorts;
};

struct kube_link {
    uint64_t number; /* 0: none */
    unsigned server;
    bool is_left; /* the server has said that it takes no more requests there */
};

struct kube_servers {
    struct kube_history *history;
    struct belfry_rng *rng;
    struct kube_server servers[KUBE_SERVERS];
    unsigned n;
    bool is_http1;    /* a connection has one request at a time; its number is even */
    bool is_balanced; /* the client sees one address for all of them */
    bool is_silent;   /* watches send no bookmarks */
    bool is_tier;     /* they are tiers: a watch begins with all deletions of its version, if those are several */
    bool is_slow;     /* the end of a list may be seconds behind its first object */
    struct kube_link links[KUBE_LINKS];
    uint64_t numbers; /* of links, given so far */
    struct kube_call calls[KUBE_CALLS];
    int64_t cut_rv;        /* of the last event of the watch that last broke: more of that version may be lost */
    uint32_t lost;         /* a bit for each server that has answered 410, or failed, since this was last cleared */
    int64_t head;          /* the client's version now */
    uint64_t delivered_ms; /* when the client last received anything that shows life */
    uint64_t asked_ms;     /* when it first sent a probe for life since then; 0: it has not */
    uint64_t restored_ms;  /* when etcd was last restored */
    uint64_t now_ms;       /* of the last step */
};

void kube_servers_init(struct kube_servers *servers, struct kube_history *history, struct belfry_rng *rng, unsigned n);
void kube_servers_fini(struct kube_servers *servers);

void kube_servers_step(struct kube_servers *servers, uint64_t now_ms);

/* ---- the client's side ---- */

void kube_servers_do(struct kube_servers *servers, const struct resource_action *action, uint64_t now_ms);
void kube_servers_forget(struct kube_servers *servers); /* the client was killed */

unsigned kube_servers_seen(const struct kube_servers *servers); /* the addresses that the client has */

/* The server of the client's open watch, or else of its address `seen`. */
unsigned kube_servers_watched(const struct kube_servers *servers, unsigned seen);

/* The first message of a watch is told to the client: how soon it ends, and how often it is asked for again, counts. */
void kube_servers_pace(struct kube_servers *servers, struct kube_call *call, uint64_t now_ms);

/* A call whose first message has arrived, at random; NULL: none. */
struct kube_call *kube_servers_due(struct kube_servers *servers, uint64_t now_ms);
void kube_call_took(struct kube_call *call); /* the first message is done with; after KUBE_END the call is gone */

/* ---- faults ---- */

void kube_servers_break_link(struct kube_servers *servers, unsigned server, uint64_t now_ms);
void kube_servers_leave_links(struct kube_servers *servers, unsigned server);
void kube_servers_restart(struct kube_servers *servers, unsigned server, uint64_t down_ms, uint64_t now_ms);
void kube_servers_restored(struct kube_servers *servers, uint64_t now_ms); /* etcd has a new past */
void kube_servers_mend(struct kube_servers *servers, uint64_t now_ms);     /* all up, none stopped, no lag */

#endif
