/* tests/sim/kube/kube_servers.h
 *
 * kube_servers: a model of API servers on one etcd, as one client sees them. Each has a watch cache: a past, a version
 * up to which it has everything, and the last few changes. The cache lags, begins anew after a restart, and after a
 * restore of etcd stays with the old past until its server restarts or reads etcd anew. Lists are of the cache, too;
 * probes read etcd itself. Each request has messages on their way; they arrive in order.
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
    unsigned server;
    uint64_t link;
    uint64_t sent_ms;
    int64_t head; /* the client's version when it was sent */
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
    int64_t base, at; /* its cache was listed at base, and has everything up to at */
    uint64_t link;
};

struct kube_servers {
    struct kube_history *history;
    struct belfry_rng *rng;
    struct kube_server servers[KUBE_SERVERS];
    unsigned n;
    struct kube_call calls[KUBE_CALLS];
    uint32_t lost;         /* a bit for each server that has answered 410, or failed, since this was last cleared */
    int64_t head;          /* the client's version now */
    uint64_t delivered_ms; /* when the client last received anything that shows life */
    uint64_t restored_ms;  /* when etcd was last restored */
};

void kube_servers_init(struct kube_servers *servers, struct kube_history *history, struct belfry_rng *rng, unsigned n);
void kube_servers_fini(struct kube_servers *servers);

void kube_servers_step(struct kube_servers *servers, uint64_t now_ms);

/* ---- the client's side ---- */

void kube_servers_do(struct kube_servers *servers, const struct resource_action *action, uint64_t now_ms);
void kube_servers_forget(struct kube_servers *servers); /* the client was killed */

/* A call whose first message has arrived, at random; NULL: none. */
struct kube_call *kube_servers_due(struct kube_servers *servers, uint64_t now_ms);
void kube_call_took(struct kube_call *call); /* the first message is done with; after KUBE_END the call is gone */

/* ---- faults ---- */

void kube_servers_break_link(struct kube_servers *servers, unsigned server, uint64_t now_ms);
void kube_servers_restart(struct kube_servers *servers, unsigned server, uint64_t down_ms, uint64_t now_ms);
void kube_servers_restored(struct kube_servers *servers, uint64_t now_ms); /* etcd has a new past */
void kube_servers_mend(struct kube_servers *servers, uint64_t now_ms);     /* all up, none stopped, no lag */

#endif
