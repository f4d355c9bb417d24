/* src/kfollow/resource_follow.c */
#include "kfollow/resource_follow.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/owner.h"
#include "base/sim.h"
#include "kfollow/resource_audit.h"
#include "kfollow/resource_changes.h"
#include "kfollow/resource_freshness.h"

#define GAP_MS      1000 /* a tick this much later than due: the process did not run */
#define SHORT_MAX   3    /* after so many short watches in a row the next server is asked */
#define CUTS_MAX    3    /* so many ends of initial events say nothing about whether the server can send them */
#define ADOPT_MS    100  /* before a listing that could not be adopted is tried again */
#define CANCELS_MAX 4    /* one for each request */
#define WALK_ROWS   1000
#define WALK_BYTES  (1024 * 1024)
#define WHY_MAX     160

/* NONE --> WANTED --> SENT --(a watch)--> OPEN, and from any of them to NONE. */
enum request_at { REQUEST_NONE, REQUEST_WANTED, REQUEST_SENT, REQUEST_OPEN };

struct request {
    enum request_at at;
    uint64_t id;     /* SENT, OPEN */
    uint64_t due_ms; /* WANTED: not before */
    bool has_slot;   /* WANTED, after short watches: due_ms is its place among those of all followers */
};

enum list_kind {
    LIST_COPY,  /* LISTING */
    LIST_AUDIT, /* AUDITING */
    LIST_OLDER, /* AUDITING, without a watch: of a cache that is behind us */
    LIST_JUDGE  /* JOINING, without a watch: a consistent one, because the caches stay behind us */
};

/* What a link proves: the next watch on it continues what came before. */
struct bond {
    bool is_set;
    uint64_t link;
};

struct resource_follow {
    /* fixed */
    struct resource_follow_opts opts;
    const struct store_api *api;
    /* owner */
    struct belfry_rng rng;
    struct belfry_backoff backoff;
    struct belfry_buf room; /* for one Event or KeyValue */
    enum resource_state state;
    unsigned server;
    uint32_t tried;    /* JOINING, AUDITING: a bit for each server that answered 410, or did not answer */
    uint32_t dead;     /* a bit for each server that was silent when we left it: the others are asked first */
    bool is_expired;   /* one of them answered 410 ... */
    unsigned answered; /* ... and this was the last of those */
    uint64_t ids;      /* given so far */
    uint64_t cancels[CANCELS_MAX];
    unsigned n_cancels;
    char why[WHY_MAX];
    struct resource_stats stats;
    /* our state */
    struct resource_sum sum, versions; /* versions: resource_version_hash() of each object */
    struct resource_changes last;
    /* the watch */
    struct request watch;
    int64_t from;
    unsigned n_equal; /* JOINING: of our changes, those that it has shown, or that it begins after */
    bool is_short;    /* JOINING: it begins before the last change alone: the others are lost */
    struct bond bond; /* it must be on this link */
    uint64_t link;    /* OPEN */
    uint64_t opened_ms;
    uint64_t spoke_ms;   /* when it last brought anything */
    int64_t shown;       /* it has shown everything up to here, or is known to have our past up to here */
    int64_t told;        /* the version of its last event, if that was a deletion; 0: it was not, or a bookmark came */
    bool is_initial;     /* LISTING: it sends all objects first; later it goes on as any watch */
    uint32_t no_initial; /* a bit for each server that cannot do that */
    unsigned n_cut;      /* initial events that a server has ended before their end, since the last listing */
    bool is_held;        /* something of it was not taken */
    bool resume;         /* it is to be offered again */
    unsigned n_short;    /* watches in a row that ended sooner than RESOURCE_SHORT_MS */
    uint64_t sent_ms;    /* when it was sent */
    uint64_t until_ms;   /* the server was asked to end it then */
    uint64_t paced_ms[RESOURCE_SERVERS_MAX]; /* the server is asked for no watch before */
    bool is_judged;             /* the caches stayed behind us, and etcd was asked: it does not contradict us ... */
    struct resource_sum judged; /* ... and has these versions */
    struct resource_backlog together; /* LIVE: deletions of one version, to be published ... */
    uint64_t together_ms;             /* ... when nothing more of it has come by then ... */
    bool is_together_due;             /* ... and in the turn after that */
    unsigned n_lags; /* servers in a row that accepted our watch and proved nothing, or had no list for us */
    /* the list */
    struct request list;
    enum list_kind list_kind;
    struct resource_audit audit;
    struct resource_sum listed;      /* the versions of its items, but for those of a copy */
    struct resource_debt debt;       /* AUDITING: after the list */
    bool is_listed;                  /* AUDITING: the list is complete */
    uint64_t debt_ms;                /* when the debt counts as not paid */
    struct resource_backlog backlog; /* AUDITING: events of the watch; LIVE: still to be published */
    struct resource_sum new_sum;     /* LISTING: this and the next two: of the fresh copy */
    struct resource_sum new_versions;
    struct resource_changes new_last;
    bool is_copied;     /* LISTING: complete at adopt_rv; the probe is next */
    bool is_checked;    /* LISTING: etcd has that version */
    uint64_t listed_ms; /* when it was sent */
    uint64_t began_ms;  /* LISTING: since when */
    bool is_rewritten;  /* LISTING: it is another past */
    int64_t adopt_rv;
    uint64_t adopt_link, adopt_ms;
    /* the probe */
    struct request probe;
    int64_t probe_head;
    uint64_t probed_ms; /* when the last was sent */
    bool has_failed;    /* that one has */
    uint64_t asking_ms; /* when the first was sent of those that have no answer; 0: there is none */
    /* freshness */
    struct resource_freshness fresh;
    struct request fresh_request;
    int64_t fresh_head;              /* ours when it was sent */
    uint64_t changed_ms;             /* when the last change was published */
    struct resource_pulse own_pulse; /* if there is no other follower */
    /* time */
    uint64_t tick_ms;  /* the last tick */
    uint64_t heard_ms; /* the last sign of life */
    uint64_t moved_ms; /* when the server was last chosen */
    bool is_stale;
    BELFRY_OWNER;
};

/* ---- requests ---- */

static void request_want(struct request *request, uint64_t at_ms)
{
    assert(request->at == REQUEST_NONE);
    *request = (struct request){.at = REQUEST_WANTED, .due_ms = at_ms};
}

static void request_cancel(struct resource_follow *f, struct request *request)
{
    if (request->at == REQUEST_SENT || request->at == REQUEST_OPEN) {
        assert(f->n_cancels < CANCELS_MAX);
        f->cancels[f->n_cancels++] = request->id;
    }
    request->at = REQUEST_NONE;
}

static bool request_is(const struct request *request, uint64_t id)
{
    return (request->at == REQUEST_SENT || request->at == REQUEST_OPEN) && request->id == id;
}

static void watch_cancel(struct resource_follow *f)
{
    request_cancel(f, &f->watch);
    resource_backlog_clear(&f->backlog);
    resource_backlog_clear(&f->together); /* the next watch shows them again */
    f->is_initial = f->is_held = f->resume = f->is_listed = false;
    f->shown = f->told = 0;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* A copy may come as a watch. */
static void list_want(struct resource_follow *f, enum list_kind kind, uint64_t at_ms)
{
    request_cancel(f, &f->list);
    f->list_kind = kind;
    request_want(&f->list, kind == LIST_COPY ? later(at_ms, f->paced_ms[f->server]) : at_ms);
}

static void watch_want(struct resource_follow *f, int64_t from, struct bond bond, uint64_t at_ms)
{
    watch_cancel(f);
    f->from = from;
    f->bond = bond;
    request_want(&f->watch, later(at_ms, f->paced_ms[f->server]));
}

static void probe_want(struct resource_follow *f, uint64_t now_ms)
{
    if (f->probe.at == REQUEST_NONE)
        request_want(&f->probe, now_ms);
}

/* The request of a proof, if there is one, is asked again. */
static void fresh_request_end(struct resource_follow *f, uint64_t now_ms)
{
    if (f->fresh_request.at == REQUEST_NONE)
        return;
    request_cancel(f, &f->fresh_request);
    resource_freshness_failed(&f->fresh, now_ms);
}

static void use_server(struct resource_follow *f, unsigned server, uint64_t now_ms)
{
    request_cancel(f, &f->probe);
    fresh_request_end(f, now_ms);
    f->stats.moves += server != f->server;
    f->asking_ms = 0;
    f->server = server;
    f->moved_ms = now_ms;
}

/* One that was not silent, if there is one. */
static void use_next_server(struct resource_follow *f, uint64_t now_ms)
{
    unsigned n = f->opts.n_servers, next = 1;
    while (next < n && (f->dead >> (f->server + next) % n & 1) != 0)
        next++;
    use_server(f, (f->server + (next < n ? next : 1)) % n, now_ms);
}

static uint64_t follow_retry_at(struct resource_follow *f, uint64_t now_ms)
{
    return now_ms + belfry_backoff_next(&f->backoff, &f->rng);
}

/* ---- watches that end too soon ---- */

static bool is_open_for(const struct resource_follow *f, uint64_t ms, uint64_t now_ms)
{
    return f->watch.at == REQUEST_OPEN && now_ms - f->opened_ms >= ms;
}

/* This process did not run for a while: how long anything of that time took is not known. */
static bool has_slept(const struct resource_follow *f, uint64_t now_ms)
{
    return now_ms > f->tick_ms + RESOURCE_TICK_MS + GAP_MS;
}

/* A watch that lasts has worked, whatever it has proven. */
static void note_lasting(struct resource_follow *f, uint64_t now_ms)
{
    if (!is_open_for(f, RESOURCE_SHORT_MS, now_ms))
        return;
    f->n_short = 0;
    if (f->state == RESOURCE_LIVE)
        belfry_backoff_reset(&f->backoff);
}

/* The watch ended too soon. Servers that are restarted do this once, so the first retry is free; then the server is
 * asked at most every RESOURCE_PACE_MS by this follower, and every RESOURCE_PACE_ALL_MS by all of them. */
static void note_short(struct resource_follow *f, uint64_t now_ms)
{
    if (f->n_short++ > 0 && !BELFRY_MUTANT(kube_ends_unpaced))
        f->paced_ms[f->server] = later(f->sent_ms + RESOURCE_PACE_MS, now_ms);
}

/* A watch is to be sent. False: after short ones it has to wait for its place among those of all followers. */
static bool has_slot(struct resource_follow *f, struct request *request, uint64_t now_ms)
{
    if (f->n_short <= 1 || request->has_slot || BELFRY_MUTANT(kube_ends_unpaced))
        return true;
    uint64_t *of_all = &f->opts.pulse->paced_ms[f->server];
    request->has_slot = true;
    request->due_ms = later(*of_all, now_ms);
    *of_all = request->due_ms + RESOURCE_PACE_ALL_MS;
    return request->due_ms <= now_ms;
}

/* ---- states ---- */

static void follow_move(struct resource_follow *f, enum resource_state to)
{
    static const char *const names[] = {"start", "listing", "joining", "auditing", "live"};
    assert(to != RESOURCE_START);
    if (f->state != to)
        belfry_logf(f->opts.log, BELFRY_LOG_DEBUG, "resource_state", "was=%s is=%s rv=%" PRId64 " server=%u",
                    names[f->state], names[to], ingest_head(f->opts.ingest), f->server);
    f->state = to;
}

static void start_listing(struct resource_follow *f, bool is_rewritten, const char *why, uint64_t at_ms)
{
    watch_cancel(f);
    request_cancel(f, &f->probe);
    f->is_judged = false;
    f->is_rewritten = f->is_rewritten || is_rewritten;
    f->is_copied = f->is_checked = false;
    f->began_ms = at_ms;
    snprintf(f->why, sizeof(f->why), "%s", why);
    list_want(f, LIST_COPY, at_ms);
    follow_move(f, RESOURCE_LISTING);
}

__attribute__((format(printf, 3, 4))) static void start_rewritten(struct resource_follow *f, uint64_t now_ms,
                                                                  const char *format, ...)
{
    char why[WHY_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    belfry_logf(f->opts.log, BELFRY_LOG_WARN, "resource_rewritten", "rv=%" PRId64 " why=\"%s\"",
                ingest_head(f->opts.ingest), why);
    /* a server whose watches never fit its lists would be asked for both without end */
    if (f->watch.at == REQUEST_OPEN && !is_open_for(f, RESOURCE_SHORT_MS, now_ms))
        note_short(f, now_ms);
    start_listing(f, true, why, f->n_short > 1 ? follow_retry_at(f, now_ms) : now_ms);
}

/* The servers are asked one after the other, again for an audit. */
static void forget_tried(struct resource_follow *f)
{

    f->tried = 0;
    f->is_expired = false;
}

static void ask_for_audit(struct resource_follow *f, uint64_t at_ms)
{
    request_cancel(f, &f->list);
    watch_want(f, ingest_head(f->opts.ingest), (struct bond){0}, at_ms);
    follow_move(f, RESOURCE_AUDITING);
}

static void start_audit(struct resource_follow *f, uint64_t now_ms)
{
    forget_tried(f);
    ask_for_audit(f, now_ms);
}

/* A watch that shows our last changes first. RV 0 would mean any version. The newest object of a list proves nothing
 * about deletions between it and the list's version, nor about another object of its version: only an audit does. */
static void ask_for_overlap(struct resource_follow *f, uint64_t at_ms)
{
    request_cancel(f, &f->list);
    bool has_gap = f->last.is_listed && (f->last.is_tied || f->last.held[0].rv < ingest_head(f->opts.ingest));
    unsigned begin = resource_changes_begin(&f->last, f->is_short);
    if (begin == f->last.n || f->last.held[begin].rv <= 1 || (has_gap && !BELFRY_MUTANT(kube_gap_ignored))) {
        ask_for_audit(f, at_ms);
        return;
    }
    bool unproven = BELFRY_MUTANT(kube_no_overlap);
    f->n_equal = begin;
    int64_t first = f->last.held[f->n_equal].rv;
    watch_want(f, unproven ? ingest_head(f->opts.ingest) : first - 1, (struct bond){0}, at_ms);
    follow_move(f, unproven ? RESOURCE_LIVE : RESOURCE_JOINING);
}

static void start_join(struct resource_follow *f, uint64_t at_ms)
{
    forget_tried(f);
    f->is_short = false;
    ask_for_overlap(f, at_ms);
}

/* The caches stay behind us: etcd itself is asked whether they are of another past. */
static void start_judgement(struct resource_follow *f, uint64_t now_ms)
{
    watch_cancel(f);
    f->n_lags = 0;
    f->stats.judgements++;
    list_want(f, LIST_JUDGE, now_ms);
    follow_move(f, RESOURCE_JOINING);
}

static void start_join_elsewhere(struct resource_follow *f, uint64_t now_ms)
{
    use_next_server(f, now_ms);
    start_join(f, follow_retry_at(f, now_ms));
}

/* The next server that was not asked yet, but for those of `spared`. False: there is none. */
static bool use_untried_server(struct resource_follow *f, uint32_t spared, uint64_t now_ms)
{
    for (unsigned i = 1; i < f->opts.n_servers; i++) {
        unsigned server = (f->server + i) % f->opts.n_servers;
        if (((f->tried | spared) >> server & 1) != 0)
            continue;
        use_server(f, server, now_ms);
        return true;
    }
    return false;
}

/* JOINING or AUDITING: this server has lost the history (410), or did not answer. When all were asked, and one has lost
 * it: after a join a shorter one, then an audit, and after that a listing. A silent server takes RESOURCE_DEAD_MS, so
 * it is asked only if none that answers has lost the history, and before a listing. */
static void join_goes_on(struct resource_follow *f, bool is_expired, uint64_t now_ms)
{
    bool is_audit = f->state == RESOURCE_AUDITING;
    f->tried |= UINT32_C(1) << f->server;
    f->is_expired = f->is_expired || is_expired;
    f->answered = is_expired ? f->server : f->answered;
    bool is_last_step = is_audit || !f->is_expired;
    if (use_untried_server(f, f->dead, now_ms) || (is_last_step && use_untried_server(f, 0, now_ms))) {
        uint64_t at_ms = is_expired ? now_ms : follow_retry_at(f, now_ms);
        if (is_audit)
            ask_for_audit(f, at_ms);
        else
            ask_for_overlap(f, at_ms);
        return;
    }
    if (!f->is_expired) {
        start_join_elsewhere(f, now_ms);
        return;
    }
    use_server(f, f->answered, now_ms); /* the last one that was asked may be one that does not answer */
    if (is_audit) {
        start_listing(f, false, "no server has the changes since our version", now_ms);
    } else if (!f->is_short && f->last.n > 1) {
        forget_tried(f);
        f->is_short = true;
        ask_for_overlap(f, now_ms);
    } else {
        start_audit(f, now_ms);
    }
}

/* The server does not answer, or not as it should. */
static void server_failed(struct resource_follow *f, uint64_t now_ms)
{
    if (f->state == RESOURCE_LIVE)
        start_join_elsewhere(f, now_ms);
    else
        join_goes_on(f, false, now_ms);
}

static void follow_is_live(struct resource_follow *f)
{
    f->n_lags = 0;
    f->is_judged = false;
    f->resume = f->is_held;
    follow_move(f, RESOURCE_LIVE);
}

/* While a watch is open, an answer on another link is of another server, perhaps. */
static void heard(struct resource_follow *f, uint64_t link, uint64_t now_ms)
{
    bool is_elsewhere = f->watch.at == REQUEST_OPEN && resource_link_place(link) != resource_link_place(f->link);
    struct resource_beat *beat = resource_beat(f->opts.pulse, f->server, link);
    beat->heard_ms = now_ms;
    if (is_elsewhere && !BELFRY_MUTANT(kube_life_on_any_link))
        return;
    f->dead &= ~(UINT32_C(1) << f->server);
    f->asking_ms = 0;
    f->heard_ms = now_ms;
}

/* ---- creation ---- */

struct state_walk {
    struct resource_follow *f;
    struct belfry_buf next; /* where the next page begins */
    enum belfry_err err;
};

static bool walk_row(struct belfry_bytes key, struct belfry_bytes raw, void *user)
{
    struct state_walk *walk = user;
    struct resource_follow *f = walk->f;
    struct belfry_wire_kv kv;
    walk->err = belfry_scan_kv(raw, &kv);
    belfry_buf_clear(&walk->next);
    if (walk->err == BELFRY_OK)
        walk->err = belfry_buf_append(&walk->next, key.data, key.len);
    if (walk->err == BELFRY_OK)
        walk->err = belfry_buf_append(&walk->next, "", 1);
    if (walk->err != BELFRY_OK)
        return false;
    resource_sum_add(&f->sum, resource_hash(f->opts.hash_key, key, kv.lease));
    resource_sum_add(&f->versions, resource_version_hash(f->opts.hash_key, key, kv.lease, kv.mod_rev));
    resource_changes_list(&f->last, resource_held_of(f->opts.hash_key, &kv, false));
    return true;
}

static enum belfry_err read_state(struct resource_follow *f)
{
    struct state_walk walk = {.f = f};
    struct store_page page = {.more = true};
    while (page.more && walk.err == BELFRY_OK) {
        struct store_read read = {.key = belfry_buf_bytes(&walk.next), .max_rows = WALK_ROWS, .max_bytes = WALK_BYTES};
        enum belfry_err err = f->api->range(f->opts.store, &read, walk_row, &walk, &page);
        walk.err = walk.err == BELFRY_OK ? err : walk.err;
    }
    belfry_buf_fini(&walk.next);
    return walk.err;
}

enum belfry_err resource_follow_create(const struct resource_follow_opts *opts, uint64_t now_ms,
                                       struct resource_follow **out)
{
    if (opts->n_servers == 0 || opts->n_servers > RESOURCE_SERVERS_MAX || ingest_is_whole(opts->ingest))
        return BELFRY_ERR_INVALID;
    struct resource_follow *f = calloc(1, sizeof(*f));
    if (f == NULL)
        return BELFRY_ERR_NOMEM;
    f->opts = *opts;
    if (f->opts.pulse == NULL)
        f->opts.pulse = &f->own_pulse;
    if (f->opts.watch_s == 0)
        f->opts.watch_s = RESOURCE_WATCH_S;
    f->api = opts->store->api;
    f->rng = (struct belfry_rng){opts->seed};
    resource_backlog_init(&f->backlog);
    resource_backlog_init(&f->together);
    belfry_backoff_init(&f->backoff, RESOURCE_RETRY_MS, RESOURCE_RETRY_MAX_MS);
    f->server = (unsigned)belfry_rng_below(&f->rng, opts->n_servers);
    f->no_initial = opts->no_initial ? UINT32_MAX : 0;
    f->tick_ms = f->heard_ms = f->moved_ms = f->changed_ms = now_ms;
    BELFRY_OWNER_INIT(f);
    enum belfry_err err = opts->warm ? read_state(f) : BELFRY_OK;
    if (err == BELFRY_OK && opts->warm)
        err = resource_changes_read(&f->last, opts->ingest, opts->store, opts->hash_key);
    if (err != BELFRY_OK) {
        resource_follow_destroy(f);
        return err;
    }
    if (opts->warm)
        start_join(f, now_ms);
    else
        start_listing(f, false, "", now_ms);
    *out = f;
    return BELFRY_OK;
}

void resource_follow_destroy(struct resource_follow *follow)
{
    if (follow == NULL)
        return;
    BELFRY_OWNER_CHECK(follow);
    resource_backlog_clear(&follow->backlog);
    resource_backlog_clear(&follow->together);
    belfry_buf_fini(&follow->room);
    free(follow);
}

/* ---- what is wanted ---- */

/* False: the store has no place for a fresh copy now. */
static bool begin_copy(struct resource_follow *f, uint64_t now_ms)
{
    if (f->api->fresh(f->opts.store) != BELFRY_OK) {
        f->list.due_ms = follow_retry_at(f, now_ms);
        return false;
    }
    f->new_sum = f->new_versions = (struct resource_sum){0};
    f->new_last = (struct resource_changes){.is_listed = true};
    return true;
}

static uint64_t request_send(struct resource_follow *f, struct request *request)
{
    request->at = REQUEST_SENT;
    request->id = ++f->ids;
    return request->id;
}

static void send_watch(struct resource_follow *f, int64_t rv, uint64_t now_ms, struct resource_action *out)
{
    uint32_t timeout_s = f->opts.watch_s + (uint32_t)belfry_rng_below(&f->rng, f->opts.watch_s);
    *out = (struct resource_action){.want = RESOURCE_WANT_WATCH,
                                    .server = f->server,
                                    .id = request_send(f, &f->watch),
                                    .link = f->bond.is_set ? f->bond.link : 0,
                                    .rv = rv,
                                    .timeout_s = timeout_s,
                                    .is_initial = f->is_initial};
    f->sent_ms = now_ms;
    f->until_ms = now_ms + timeout_s * UINT64_C(1000);
    f->stats.watches++;
}

/* The link of the watch: what is asked about its server must go there, too. 0: there is none. */
static uint64_t watch_link(const struct resource_follow *f)
{
    return f->watch.at == REQUEST_OPEN ? f->link : 0;
}

/* The version that a list must have at least. After another past, any cache will do: a probe then shows whether its
 * past is gone. */
static int64_t list_rv(const struct resource_follow *f)
{
    switch (f->list_kind) {
    case LIST_COPY:
        return f->is_rewritten ? 0 : ingest_head(f->opts.ingest);
    case LIST_AUDIT:
        return ingest_head(f->opts.ingest);
    case LIST_OLDER:
        return 0;
    case LIST_JUDGE:
        return RESOURCE_CONSISTENT;
    }
    return 0;
}

static bool send_list(struct resource_follow *f, uint64_t now_ms, struct resource_action *out)
{
    bool is_watch = f->list_kind == LIST_COPY && (f->no_initial >> f->server & 1) == 0;
    if ((is_watch && !has_slot(f, &f->list, now_ms)) || (f->list_kind == LIST_COPY && !begin_copy(f, now_ms)))
        return false;
    resource_audit_begin(&f->audit, ingest_head(f->opts.ingest));
    f->listed = (struct resource_sum){0};
    f->listed_ms = now_ms;
    if (is_watch) {
        assert(f->watch.at == REQUEST_NONE);
        f->list.at = REQUEST_NONE;
        f->is_initial = true;
        f->from = 0;
        f->bond = (struct bond){0};
        send_watch(f, list_rv(f), now_ms, out);
        return true;
    }
    *out = (struct resource_action){.want = RESOURCE_WANT_LIST,
                                    .server = f->server,
                                    .id = request_send(f, &f->list),
                                    .link = watch_link(f),
                                    .rv = list_rv(f)};
    return true;
}

static bool request_is_due(const struct request *request, uint64_t now_ms)
{
    return request->at == REQUEST_WANTED && now_ms >= request->due_ms;
}

static struct resource_fresh_facts fresh_facts(const struct resource_follow *f)
{
    return (struct resource_fresh_facts){.is_live = f->state == RESOURCE_LIVE && f->watch.at == REQUEST_OPEN,
                                         .head = ingest_head(f->opts.ingest),
                                         .shown = f->shown,
                                         .versions = f->versions,
                                         .changed_ms = f->changed_ms};
}

/* An answer for those who ask whether we are fresh, or a request for it. */
static bool fresh_next(struct resource_follow *f, uint64_t now_ms, struct resource_action *out)
{
    struct resource_fresh_facts facts = fresh_facts(f);
    struct resource_fresh_answer answer;
    if (resource_freshness_look(&f->fresh, &facts, now_ms, &answer)) {
        request_cancel(f, &f->fresh_request);
        f->stats.fresh += answer.rv != 0;
        f->stats.unproven += answer.rv == 0;
        *out = (struct resource_action){.want = RESOURCE_WANT_ANSWER, .id = answer.batch, .rv = answer.rv};
        return true;
    }
    enum resource_fresh_want want = resource_freshness_next(&f->fresh, &facts, now_ms);
    if (want == FRESH_WANT_NOTHING)
        return false;
    f->stats.fresh_probes += want == FRESH_WANT_PROBE;
    f->stats.fresh_lists += want == FRESH_WANT_LIST;
    f->fresh_head = facts.head;
    *out = (struct resource_action){.want = want == FRESH_WANT_PROBE ? RESOURCE_WANT_PROBE : RESOURCE_WANT_VERSIONS,
                                    .server = f->server,
                                    .id = request_send(f, &f->fresh_request),
                                    .link = watch_link(f),
                                    .rv = RESOURCE_CONSISTENT};
    return true;
}

bool resource_next(struct resource_follow *follow, uint64_t now_ms, struct resource_action *out)
{
    struct resource_follow *f = follow;
    BELFRY_OWNER_CHECK(f);
    if (f->n_cancels > 0) {
        *out = (struct resource_action){.want = RESOURCE_WANT_CANCEL, .id = f->cancels[--f->n_cancels]};
        return true;
    }
    if (f->resume) {
        f->resume = f->is_held = false;
        *out = (struct resource_action){.want = RESOURCE_WANT_RESUME, .id = f->watch.id, .server = f->server};
        return true;
    }
    if (request_is_due(&f->watch, now_ms) && has_slot(f, &f->watch, now_ms)) {
        send_watch(f, f->from, now_ms, out);
        return true;
    }
    if (request_is_due(&f->list, now_ms) && send_list(f, now_ms, out))
        return true;
    if (fresh_next(f, now_ms, out))
        return true;
    if (!request_is_due(&f->probe, now_ms))
        return false;
    *out = (struct resource_action){
        .want = RESOURCE_WANT_PROBE, .server = f->server, .id = request_send(f, &f->probe), .link = watch_link(f)};
    f->probe_head = ingest_head(f->opts.ingest);
    f->probed_ms = now_ms;
    if (watch_link(f) != 0)
        resource_beat(f->opts.pulse, f->server, f->link)->sent_ms = now_ms;
    if (f->asking_ms == 0)
        f->asking_ms = now_ms;
    f->stats.probes++;
    return true;
}

/* ---- the watch: proofs ---- */

static void audit_agrees(struct resource_follow *f, uint64_t now_ms);

void resource_on_opened(struct resource_follow *follow, uint64_t id, uint64_t link, uint64_t now_ms)
{
    struct resource_follow *f = follow;
    BELFRY_OWNER_CHECK(f);
    if (!request_is(&f->watch, id))
        return;
    f->watch.at = REQUEST_OPEN;
    f->link = link;
    heard(f, link, now_ms);
    f->opened_ms = f->spoke_ms = now_ms;
    resource_beat(f->opts.pulse, f->server, link)->n_astray = 0;
    bool on_link = f->bond.link == link, in_time = now_ms - f->listed_ms <= RESOURCE_LINK_MS;
    if (f->bond.is_set && !(on_link && in_time) && !BELFRY_MUTANT(kube_link_ignored)) {
        bool is_shared = resource_link_place(link) != 0;
        if (on_link && is_shared && f->state == RESOURCE_AUDITING && f->list_kind == LIST_OLDER) {
            list_want(f, LIST_OLDER, now_ms); /* again, while the watch is open: then it may take its time */
            return;
        }
        if (on_link && !is_shared)
            snprintf(f->why, sizeof(f->why),
                     "over HTTP/1.1 a list proves nothing after %d ms, and this one took %" PRIu64
                     ": use https, with HTTP/2",
                     RESOURCE_LINK_MS, now_ms - f->listed_ms);
        start_join(f, f->state == RESOURCE_AUDITING ? follow_retry_at(f, now_ms) : now_ms);
        return;
    }
    if (f->bond.is_set) {
        f->shown = f->from;
        f->stats.links++;
    }
    if (f->state == RESOURCE_AUDITING && f->bond.is_set && f->list_kind == LIST_AUDIT)
        audit_agrees(f, now_ms); /* over HTTP/1.1, audit_complete() */
    else if (f->state == RESOURCE_AUDITING && f->bond.is_set)
        follow_is_live(f); /* older_complete() */
    else if (f->state == RESOURCE_AUDITING)
        list_want(f, LIST_AUDIT, now_ms);
}

static uint64_t object_hash(const struct resource_follow *f, const struct resource_object *object)
{
    return resource_hash(f->opts.hash_key, object->key, resource_uid_mark(object->uid));
}

static uint64_t version_hash(const struct resource_follow *f, const struct resource_object *object)
{
    return resource_version_hash(f->opts.hash_key, object->key, resource_uid_mark(object->uid), object->rv);
}

static struct resource_held change_of(const struct resource_follow *f, const struct resource_object *object,
                                      bool is_delete)
{
    struct belfry_wire_kv kv = resource_kv_of(object, NULL);
    return resource_held_of(f->opts.hash_key, &kv, is_delete);
}

static void overlap_differs(struct resource_follow *f, int64_t rv, uint64_t now_ms)
{
    start_rewritten(f, now_ms, "version %" PRId64 " is not what it was", rv);
}

/* An event of a watch that begins before our last changes. */
static void compare_overlap(struct resource_follow *f, enum resource_change change,
                            const struct resource_object *object, uint64_t now_ms)
{
    struct resource_held theirs = change_of(f, object, change == RESOURCE_DELETED);
    const struct resource_held *ours = &f->last.held[f->n_equal];
    bool equal = theirs.rv == ours->rv && theirs.hash == ours->hash;
    if (!equal && !BELFRY_MUTANT(kube_overlap_unchecked)) {
        overlap_differs(f, ours->rv, now_ms);
        return;
    }
    f->n_equal++;
    f->shown = theirs.rv;
    if (f->n_equal < f->last.n)
        return;
    f->stats.overlaps++;
    follow_is_live(f);
}

/* After an overlap come changes up to our head, where we know of none. If our head is that of a listing, objects may
 * have come and gone since its newest object: their deletion is no surprise, and an audit judges the rest. */
static void compare_behind_overlap(struct resource_follow *f, enum resource_change change, int64_t rv, bool is_ours,
                                   uint64_t now_ms)
{
    if (BELFRY_MUTANT(kube_overlap_unchecked) || (f->last.is_listed && change == RESOURCE_DELETED && !is_ours))
        return;
    if (f->last.is_listed && !is_ours)
        start_audit(f, now_ms);
    else
        overlap_differs(f, rv, now_ms);
}

/* ---- the watch: changes ---- */

static bool change_fits(enum resource_change change, const struct resource_object *object,
                        const struct ingest_found *ours)
{
    if (BELFRY_MUTANT(no_version_check))
        return true;
    if (change == RESOURCE_ADDED)
        return ours == NULL;
    return ours != NULL && ours->mod_rev < object->rv &&
           (ours->lease == resource_uid_mark(object->uid) || BELFRY_MUTANT(kube_uid_ignored));
}

static enum belfry_err ingest_change(struct resource_follow *f, enum resource_change change,
                                     const struct resource_object *object, const struct ingest_found *ours,
                                     uint64_t now_ms)
{
    struct belfry_wire_kv kv = resource_kv_of(object, ours);
    struct belfry_wire_event event;
    enum belfry_err err = resource_event_write(&kv, change == RESOURCE_DELETED, &f->room, &event);
    if (err != BELFRY_OK)
        return err;
    struct ingest_revision revision = {.rev = object->rv, .events = &event, .n = 1, .header = {.revision = object->rv}};
    return ingest_revision(f->opts.ingest, &revision, now_ms);
}

/* The change is published. */
static void note_change(struct resource_follow *f, enum resource_change change, const struct resource_object *object,
                        const struct ingest_found *ours, uint64_t now_ms)
{
    uint64_t hash = object_hash(f, object);
    if (ours != NULL && !BELFRY_MUTANT(kube_fresh_old_kept))
        resource_sum_remove(&f->versions,
                            resource_version_hash(f->opts.hash_key, object->key, ours->lease, ours->mod_rev));
    if (change != RESOURCE_DELETED)
        resource_sum_add(&f->versions, version_hash(f, object));
    if (change == RESOURCE_ADDED)
        resource_sum_add(&f->sum, hash);
    if (change == RESOURCE_DELETED && ours != NULL)
        resource_sum_remove(&f->sum, hash);
    resource_changes_push(&f->last, change_of(f, object, change == RESOURCE_DELETED));
    f->stats.events++;
    f->changed_ms = now_ms;
}

/* A change above our head. False: not taken. */
static bool take_change(struct resource_follow *f, enum resource_change change, const struct resource_object *object,
                        const struct ingest_found *ours, uint64_t now_ms)
{
    if (!change_fits(change, object, ours)) {
        start_rewritten(f, now_ms, "version %" PRId64 " does not fit the object that it changes", object->rv);
        return true;
    }
    enum belfry_err err = ingest_change(f, change, object, ours, now_ms);
    if (err == BELFRY_ERR_REWOUND) {
        start_rewritten(f, now_ms, "%s", ingest_why(f->opts.ingest));
        return true;
    }
    if (err != BELFRY_OK)
        return false;
    note_change(f, change, object, ours, now_ms);
    f->shown = object->rv;
    return true;
}

/* Publishes the deletions of one version as one change. False: not now. */
static bool publish_together(struct resource_follow *f, uint64_t now_ms)
{
    struct ending {
        struct ingest_found ours;
        struct belfry_buf room;
    };
    size_t n = 0, written = 0;
    belfry_list_each (node, &f->together.events)
        n++;
    if (n == 0)
        return true;
    int64_t rv = resource_backlog_first(&f->together)->object.rv;
    struct ending *endings = calloc(n, sizeof(*endings));
    struct belfry_wire_event *events = calloc(n, sizeof(*events));
    enum belfry_err err = endings == NULL || events == NULL ? BELFRY_ERR_NOMEM : BELFRY_OK;
    belfry_list_each (node, &f->together.events) {
        if (err != BELFRY_OK)
            break;
        const struct resource_object *object = &belfry_container(node, struct resource_event, node)->object;
        struct ending *ending = &endings[written];
        err = ingest_find(f->opts.ingest, object->key, now_ms, &ending->ours); /* it is there: change_fits() */
        struct belfry_wire_kv kv = resource_kv_of(object, &ending->ours);
        if (err == BELFRY_OK)
            err = resource_event_write(&kv, true, &ending->room, &events[written++]);
    }
    struct ingest_revision revision = {.rev = rv, .events = events, .n = n, .header = {.revision = rv}};
    if (err == BELFRY_OK)
        err = ingest_revision(f->opts.ingest, &revision, now_ms);
    for (size_t i = 0; err == BELFRY_OK && i < n; i++) {
        note_change(f, RESOURCE_DELETED, &resource_backlog_first(&f->together)->object, &endings[i].ours, now_ms);
        resource_backlog_drop_first(&f->together);
        f->shown = rv;
    }
    for (size_t i = 0; i < written; i++)
        belfry_buf_fini(&endings[i].room);
    free(endings);
    free(events);
    if (err == BELFRY_ERR_REWOUND)
        start_rewritten(f, now_ms, "%s", ingest_why(f->opts.ingest));
    f->together_ms = now_ms + RESOURCE_TICK_MS; /* tried again, if it is not published */
    return err == BELFRY_OK || err == BELFRY_ERR_REWOUND;
}

/* This process may not have run for a while: what has come meanwhile is read before it is late. */
static void judge_together(struct resource_follow *f, uint64_t now_ms)
{
    bool has_rest = f->is_held || !resource_backlog_is_empty(&f->backlog);
    if (resource_backlog_is_empty(&f->together) || has_rest || now_ms < f->together_ms)
        return;
    if (f->is_together_due || BELFRY_MUTANT(kube_deletes_hasty)) {
        (void)publish_together(f, now_ms);
    } else {
        f->is_together_due = true;
        f->together_ms = now_ms + RESOURCE_TURN_MS;
    }
}

static bool is_of_together(const struct resource_follow *f, int64_t rv)
{
    return !resource_backlog_is_empty(&f->together) && resource_backlog_first(&f->together)->object.rv == rv;
}

/* False: not taken. */
static bool take_deletion(struct resource_follow *f, const struct resource_object *object,
                          const struct ingest_found *ours, uint64_t now_ms)
{
    if (!change_fits(RESOURCE_DELETED, object, ours)) {
        start_rewritten(f, now_ms, "version %" PRId64 " does not fit the object that it changes", object->rv);
        return true;
    }
    enum belfry_err err = resource_backlog_add(&f->together, RESOURCE_DELETED, object);
    if (err == BELFRY_ERR_LIMIT)
        start_listing(f, false, "too many objects were deleted at one version", now_ms);
    f->together_ms = now_ms + RESOURCE_TOGETHER_MS;
    f->is_together_due = false;
    return err == BELFRY_OK || err == BELFRY_ERR_LIMIT;
}

/* An event while LIVE. False: not taken. */
static bool live_event(struct resource_follow *f, enum resource_change change, const struct resource_object *object,
                       uint64_t now_ms)
{
    bool is_together = change == RESOURCE_DELETED && is_of_together(f, object->rv);
    if (!is_together && !publish_together(f, now_ms))
        return false;
    if (f->state != RESOURCE_LIVE)
        return true;
    struct ingest_found found;
    enum belfry_err err = ingest_find(f->opts.ingest, object->key, now_ms, &found);
    if (err != BELFRY_OK && err != BELFRY_ERR_NOT_FOUND)
        return false;
    const struct ingest_found *ours = err == BELFRY_OK ? &found : NULL;
    const struct resource_changes *last = &f->last;
    if (last->n > 0 && !last->is_listed && object->rv == last->held[last->n - 1].rv) {
        f->opts.has_leases = f->opts.has_leases || change == RESOURCE_DELETED; /* from now on */
        start_rewritten(f, now_ms,
                        "version %" PRId64 " has changed more than one object: something other than an API server "
                        "writes to etcd, or a lease has ended",
                        object->rv);
        return true;
    }
    if (object->rv <= ingest_head(f->opts.ingest)) {
        compare_behind_overlap(f, change, object->rv, ours != NULL, now_ms);
        return true;
    }
    if (change == RESOURCE_DELETED && f->opts.has_leases && !BELFRY_MUTANT(kube_deletes_apart))
        return take_deletion(f, object, ours, now_ms);
    return take_change(f, change, object, ours, now_ms);
}

/* Publishes what an audit has kept. */
static void publish_backlog(struct resource_follow *f, uint64_t now_ms)
{
    while (f->state == RESOURCE_LIVE && !resource_backlog_is_empty(&f->backlog)) {
        const struct resource_event *event = resource_backlog_first(&f->backlog);
        if (!live_event(f, event->change, &event->object, now_ms))
            return;                                  /* the next tick tries again */
        if (!resource_backlog_is_empty(&f->backlog)) /* otherwise another past was found */
            resource_backlog_drop_first(&f->backlog);
    }
    if (f->state == RESOURCE_LIVE)
        f->resume = f->is_held;
}

static void debt_is_bad(struct resource_follow *f, uint64_t now_ms)
{
    start_rewritten(f, now_ms, "an object was not deleted that a list at version %" PRId64 " does not have",
                    f->debt.upto);
}

static bool live_bookmark(struct resource_follow *f, int64_t rv, uint64_t now_ms);

/* The past of the open watch is ours: what it has shown is published. */
static void publish_kept(struct resource_follow *f, int64_t from, uint64_t now_ms)
{
    int64_t marked = f->shown; /* by bookmarks */
    f->shown = from;
    follow_is_live(f);
    publish_backlog(f, now_ms);
    if (f->state == RESOURCE_LIVE && resource_backlog_is_empty(&f->backlog) && marked > ingest_head(f->opts.ingest))
        (void)live_bookmark(f, marked, now_ms); /* if it was not taken, the next one does it */
}

static void audit_passed(struct resource_follow *f, uint64_t now_ms)
{
    f->stats.audits++;
    publish_kept(f, f->audit.head, now_ms);
}

/* An event of the watch may pay the debt. False: our state could not be read. */
static bool audit_pay(struct resource_follow *f, enum resource_change change, const struct resource_object *object,
                      bool *is_good, uint64_t now_ms)
{
    struct ingest_found ours;
    enum belfry_err err = ingest_find(f->opts.ingest, object->key, now_ms, &ours);
    bool is_ours = err == BELFRY_OK && ours.lease == resource_uid_mark(object->uid);
    if (err != BELFRY_OK && err != BELFRY_ERR_NOT_FOUND)
        return false;
    *is_good = resource_debt_holds(&f->debt, object->rv - 1);
    if (change == RESOURCE_DELETED && is_ours)
        resource_debt_pay(&f->debt, resource_hash(f->opts.hash_key, object->key, ours.lease));
    bool has_more = change == RESOURCE_DELETED; /* of this version, perhaps */
    *is_good = *is_good && resource_debt_holds(&f->debt, has_more ? object->rv - 1 : object->rv);
    return true;
}

/* An event during an audit. It is taken even while the list is on its way: if it had to wait, the end of the watch
 * would wait behind it, and the list might be of a cache that the watch never came from. False: not taken. */
static bool audit_event(struct resource_follow *f, enum resource_change change, const struct resource_object *object,
                        uint64_t now_ms)
{
    bool is_good = true;
    enum belfry_err err = resource_backlog_add(&f->backlog, change, object);
    if (err == BELFRY_ERR_LIMIT)
        start_listing(f, false, "too many changes to prove that the past is ours", now_ms);
    if (err != BELFRY_OK || !f->is_listed)
        return err == BELFRY_OK || err == BELFRY_ERR_LIMIT;
    if (!audit_pay(f, change, object, &is_good, now_ms))
        start_join(f, follow_retry_at(f, now_ms));
    else if (!is_good)
        debt_is_bad(f, now_ms);
    else if (resource_debt_is_paid(&f->debt))
        audit_passed(f, now_ms);
    return true;
}

static void initial_event(struct resource_follow *f, enum resource_change change, const struct resource_object *object,
                          uint64_t now_ms);
static void initial_failed(struct resource_follow *f, uint64_t now_ms);

bool resource_on_event(struct resource_follow *follow, uint64_t id, enum resource_change change,
                       const struct resource_object *object, uint64_t now_ms)
{
    struct resource_follow *f = follow;
    BELFRY_OWNER_CHECK(f);
    if (!request_is(&f->watch, id))
        return true;
    heard(f, f->link, now_ms);
    f->spoke_ms = now_ms;
    f->told = change == RESOURCE_DELETED ? object->rv : 0;
    if (change == RESOURCE_DELETED && object->rv <= f->from && !BELFRY_MUTANT(kube_repeats_count))
        return true; /* a tier shows all deletions of the version at which the watch begins; we have them */
    switch (f->state) {
    case RESOURCE_START:
        break;
    case RESOURCE_LISTING:
        f->is_held = f->is_copied && !BELFRY_MUTANT(kube_initial_unheld); /* until it is adopted */
        if (!f->is_copied)
            initial_event(f, change, object, now_ms);
        return !f->is_held;
    case RESOURCE_JOINING:
        compare_overlap(f, change, object, now_ms);
        break;
    case RESOURCE_AUDITING:
        f->is_held = !audit_event(f, change, object, now_ms);
        return !f->is_held;
    case RESOURCE_LIVE:
        f->is_held = !resource_backlog_is_empty(&f->backlog) || !live_event(f, change, object, now_ms);
        return !f->is_held;
    }
    return true;
}

/* ---- the watch: bookmarks ---- */

/* False: not taken. */
static bool live_bookmark(struct resource_follow *f, int64_t rv, uint64_t now_ms)
{
    if (is_of_together(f, rv)) /* more of that version may come */
        return true;
    if (!publish_together(f, now_ms))
        return false;
    if (f->state != RESOURCE_LIVE)
        return true;
    int64_t head = ingest_head(f->opts.ingest);
    f->shown = rv > f->shown ? rv : f->shown;
    if (rv < head && BELFRY_MUTANT(kube_lag_is_another_past))
        start_rewritten(f, now_ms, "a bookmark is behind");
    else if (rv < head)
        probe_want(f, now_ms);
    else if (rv > head) {
        struct belfry_wire_header header = {.revision = rv};
        if (ingest_advance(f->opts.ingest, rv, &header, now_ms) != BELFRY_OK)
            f->shown = head; /* the next bookmark does it */
    }
    return true;
}

/* A bookmark says that everything up to it was sent. One may come between two deletions of its version. */
static int64_t sent_by(struct resource_follow *f, int64_t rv)
{
    bool is_between = f->opts.has_leases && rv == f->told;
    f->told = 0;
    return is_between ? rv - 1 : rv;
}

/* AUDITING: the debt is due when the watch has shown everything up to the list. */
static void note_mark(struct resource_follow *f, int64_t rv)
{
    int64_t sent = sent_by(f, rv);
    if (sent > f->shown)
        f->shown = sent;
}

bool resource_on_bookmark(struct resource_follow *follow, uint64_t id, int64_t rv, uint64_t now_ms)
{
    struct resource_follow *f = follow;
    BELFRY_OWNER_CHECK(f);
    if (!request_is(&f->watch, id))
        return true;
    heard(f, f->link, now_ms);
    f->spoke_ms = now_ms;
    f->stats.bookmarks++;
    switch (f->state) {
    case RESOURCE_START:
        break;
    case RESOURCE_LISTING:
        f->is_held = f->is_copied;
        return !f->is_held;
    case RESOURCE_JOINING:
        if (sent_by(f, rv) < f->last.held[f->n_equal].rv)
            probe_want(f, now_ms);
        else
            overlap_differs(f, f->last.held[f->n_equal].rv, now_ms);
        break;
    case RESOURCE_AUDITING:
        if (BELFRY_MUTANT(kube_bookmark_unproven)) {
            (void)live_bookmark(f, rv, now_ms);
            break;
        }
        note_mark(f, rv);
        if (f->is_listed && !resource_debt_holds(&f->debt, f->shown))
            debt_is_bad(f, now_ms);
        break;
    case RESOURCE_LIVE:
        f->is_held = !resource_backlog_is_empty(&f->backlog) || !live_bookmark(f, rv, now_ms);
        return !f->is_held;
    }
    return true;
}

/* ---- lists ---- */

/* The server answers, but its cache stays behind us. */
static void server_lags(struct resource_follow *f, uint64_t now_ms)
{
    f->n_lags++;
    if (f->n_lags >= RESOURCE_LAGS)
        start_judgement(f, now_ms);
    else
        server_failed(f, now_ms);
}

/* Is there a state to compare a list with? If it was another past's, or damaged, it does not matter any more. */
static bool is_comparable(const struct resource_follow *f)
{
    return f->state != RESOURCE_LISTING || (ingest_past(f->opts.ingest) != 0 && !f->is_rewritten);
}

static void list_failed(struct resource_follow *f, uint64_t now_ms)
{
    request_cancel(f, &f->list);
    if (f->state == RESOURCE_AUDITING && f->list_kind == LIST_AUDIT && f->watch.at == REQUEST_OPEN) {
        watch_cancel(f);
        list_want(f, LIST_OLDER, now_ms); /* it may be behind us because nothing changes */
        return;
    }
    if (f->state == RESOURCE_AUDITING && f->list_kind == LIST_OLDER) {
        server_lags(f, now_ms);
        return;
    }
    if (f->state != RESOURCE_LISTING) {
        server_failed(f, now_ms);
        return;
    }
    watch_cancel(f);
    use_next_server(f, now_ms);
    f->is_copied = f->is_checked = false;
    f->n_lags++;
    if (is_comparable(f) && f->n_lags >= RESOURCE_LAGS && now_ms >= f->began_ms + RESOURCE_LAGS * RESOURCE_LAG_MS &&
        !BELFRY_MUTANT(kube_listing_waits)) {
        start_judgement(f, now_ms); /* no cache may ever have our version: etcd was restored, or nothing changes */
        return;
    }
    list_want(f, LIST_COPY, follow_retry_at(f, now_ms));
    if (!f->is_rewritten && ingest_past(f->opts.ingest) != 0)
        probe_want(f, now_ms); /* the caches may be behind us because etcd is */
}

/* Puts an item of a listing into the fresh copy. */
static enum belfry_err copy_item(struct resource_follow *f, const struct resource_object *item)
{
    struct belfry_wire_kv kv = resource_kv_of(item, NULL), written;
    enum belfry_err err = resource_kv_write(&kv, &f->room, &written);
    if (err == BELFRY_OK)
        err = f->api->put(f->opts.store, &written);
    if (err != BELFRY_OK)
        return err;
    resource_sum_add(&f->new_sum, object_hash(f, item));
    resource_sum_add(&f->new_versions, version_hash(f, item));
    resource_changes_list(&f->new_last, change_of(f, item, false));
    return BELFRY_OK;
}

static bool store_is_damaged(const struct resource_follow *f)
{
    return f->api->damaged != NULL && f->api->damaged(f->opts.store);
}

static enum belfry_err compare_item(struct resource_follow *f, const struct resource_object *item, uint64_t now_ms)
{
    struct ingest_found ours;
    if (!is_comparable(f))
        return BELFRY_OK;
    enum belfry_err err = ingest_find(f->opts.ingest, item->key, now_ms, &ours);
    if (err == BELFRY_OK)
        resource_audit_item(&f->audit, item, &ours, resource_hash(f->opts.hash_key, item->key, ours.lease));
    else if (err == BELFRY_ERR_NOT_FOUND)
        resource_audit_item(&f->audit, item, NULL, 0);
    return err == BELFRY_ERR_NOT_FOUND ? BELFRY_OK : err;
}

/* Compares an object with ours, and puts it into the copy. */
static void take_item(struct resource_follow *f, const struct resource_object *item, uint64_t now_ms)
{
    enum belfry_err err = compare_item(f, item, now_ms);
    if (err == BELFRY_OK && f->state == RESOURCE_LISTING)
        err = copy_item(f, item);
    else if (err == BELFRY_OK)
        resource_sum_add(&f->listed, version_hash(f, item));
    if (err != BELFRY_OK)
        list_failed(f, now_ms);
}

/* Before their end only ADDED can come, unless the server does not know of initial events. */
static void initial_event(struct resource_follow *f, enum resource_change change, const struct resource_object *object,
                          uint64_t now_ms)
{
    if (change == RESOURCE_ADDED)
        take_item(f, object, now_ms);
    else
        initial_failed(f, now_ms);
}

void resource_on_item(struct resource_follow *follow, uint64_t id, const struct resource_object *item, uint64_t link,
                      uint64_t now_ms)
{
    struct resource_follow *f = follow;
    BELFRY_OWNER_CHECK(f);
    if (request_is(&f->fresh_request, id)) {
        heard(f, link, now_ms);
        resource_freshness_item(&f->fresh, version_hash(f, item), now_ms);
    } else if (request_is(&f->list, id)) {
        heard(f, link, now_ms);
        take_item(f, item, now_ms);
    }
}

static void adopt(struct resource_follow *f, uint64_t now_ms)
{
    bool is_first = ingest_past(f->opts.ingest) == 0, is_rewritten = f->is_rewritten && !is_first;
    int64_t rv = f->adopt_rv;
    struct belfry_wire_header header = {.revision = rv};
    if (BELFRY_MUTANT(kube_another_past_spares))
        is_rewritten = false;
    enum evlog_cut_why why = is_first ? EVLOG_CUT_START : is_rewritten ? EVLOG_CUT_REWRITTEN : EVLOG_CUT_COMPACTED;
    /* nothing between our old head and the list can be served to anybody */
    if (ingest_adopt(f->opts.ingest, rv, &header, why, is_rewritten ? rv : rv + 1) != BELFRY_OK) {
        f->adopt_ms = now_ms + ADOPT_MS;
        return;
    }
    f->stats.listings++;
    f->stats.rewritten += is_rewritten;
    f->stats.expired += !is_first && !is_rewritten;
    f->sum = f->new_sum;
    f->versions = f->new_versions;
    request_cancel(f, &f->fresh_request);
    resource_freshness_restart(&f->fresh, now_ms);
    f->last = f->new_last;
    f->is_rewritten = f->is_copied = f->is_checked = false;
    f->n_lags = f->n_cut = 0;
    if (f->is_initial) {
        f->is_initial = false;
        f->shown = rv;
        f->stats.streams++;
        follow_is_live(f);
        return;
    }
    int64_t from = BELFRY_MUTANT(kube_watch_behind_list) ? rv + 1 : rv;
    watch_want(f, from, (struct bond){.is_set = true, .link = f->adopt_link}, now_ms);
    follow_move(f, RESOURCE_LIVE);
}

/* The copy is whole. Whether etcd still has its past, a probe says that is sent from now on. */
static void listing_complete(struct resource_follow *f, int64_t rv, uint64_t link, uint64_t now_ms)
{
    bool is_odd = f->new_last.n > 0 && rv < f->new_last.held[0].rv; /* an item is newer than the list itself */
    bool is_behind = is_comparable(f) && rv < f->audit.head;
    if (is_odd || is_behind) {
        list_failed(f, now_ms);
        return;
    }
    /* Watchers at our head hear nothing of a list at the same version: then it must have all of our objects. */
    struct resource_debt debt;
    if (is_comparable(f) && (!resource_audit_end(&f->audit, rv, f->sum, &debt) ||
                             (!resource_debt_holds(&debt, f->audit.head) && !BELFRY_MUTANT(kube_same_version_spares))))
        f->is_rewritten = true;
    f->is_copied = true;
    f->adopt_rv = rv;
    f->adopt_link = link;
    request_cancel(f, &f->probe);
    probe_want(f, now_ms);
}

void resource_on_initial_end(struct resource_follow *follow, uint64_t id, int64_t rv, uint64_t now_ms)
{
    struct resource_follow *f = follow;
    BELFRY_OWNER_CHECK(f);
    if (!request_is(&f->watch, id))
        return;
    heard(f, f->link, now_ms);
    if (!f->is_initial || f->is_copied)
        return;
    f->from = rv;
    listing_complete(f, rv, f->link, now_ms);
}

/* The server cannot send initial events: it is asked for a list. */
static void initial_failed(struct resource_follow *f, uint64_t now_ms)
{
    f->no_initial |= UINT32_C(1) << f->server;
    watch_cancel(f);
    list_want(f, LIST_COPY, now_ms);
}

/* The probe that was sent after a listing was complete. */
static void listing_checked(struct resource_follow *f, int64_t rv, uint64_t now_ms)
{
    if (rv < f->adopt_rv && !BELFRY_MUTANT(kube_cache_unchecked) &&
        !(f->is_initial && BELFRY_MUTANT(kube_initial_unchecked))) {
        f->stats.gone++;
        list_failed(f, now_ms);
        return;
    }
    f->is_checked = true;
    adopt(f, now_ms);
}

/* The list agrees with us, and the watch is of the same cache. */
static void audit_agrees(struct resource_follow *f, uint64_t now_ms)
{
    bool is_good = true;
    f->stats.debts += !resource_debt_is_paid(&f->debt);
    belfry_list_each (node, &f->backlog.events) {
        const struct resource_event *event = belfry_container(node, struct resource_event, node);
        if (resource_debt_is_paid(&f->debt) || !is_good)
            break;
        if (!audit_pay(f, event->change, &event->object, &is_good, now_ms)) {
            start_join(f, follow_retry_at(f, now_ms));
            return;
        }
    }
    if (!is_good || !resource_debt_holds(&f->debt, f->shown)) {
        debt_is_bad(f, now_ms);
    } else if (resource_debt_is_paid(&f->debt)) {
        audit_passed(f, now_ms);
    } else {
        f->debt_ms = now_ms + RESOURCE_DEBT_MS;
        f->is_listed = true;
    }
}

static void audit_complete(struct resource_follow *f, int64_t rv, uint64_t link, uint64_t now_ms)
{
    bool on_link = f->watch.at == REQUEST_OPEN && (link == f->link || BELFRY_MUTANT(kube_link_ignored));
    bool is_alone = f->watch.at == REQUEST_OPEN && resource_link_place(f->link) == 0;
    if ((!on_link && !is_alone) || f->is_held) {
        start_join(f, follow_retry_at(f, now_ms));
        return;
    }
    if (!resource_audit_end(&f->audit, rv, f->sum, &f->debt)) {
        start_rewritten(f, now_ms, "a list at version %" PRId64 " contradicts the state at %" PRId64, rv,
                        f->audit.head);
        return;
    }
    if (on_link)
        audit_agrees(f, now_ms);
    else /* the watch has its connection for itself: it is opened anew, on that of the list */
        watch_want(f, f->audit.head, (struct bond){.is_set = true, .link = link}, now_ms);
}

static bool sum_is(struct resource_sum a, struct resource_sum b)
{
    return a.n == b.n && a.sum == b.sum;
}

/* A cache that is behind us, at version C, has exactly our objects, and all of our changes. Then a watch from C shows
 * what this past has between C and our head, if there is anything, and our state is that of this past. The watch
 * follows the list, or if that takes too long, a second list of the same cache follows the watch.
 * If the cache has what etcd has, it does not lag: its past has nothing between C and our head, and we have.
 * (An object that we have may have come and gone since C. But caches that lag for so long do not lack that alone.)
 * Otherwise the cache lags. */
static void older_complete(struct resource_follow *f, int64_t rv, uint64_t link, uint64_t now_ms)
{
    bool is_ours = f->audit.contradicted == 0 && sum_is(f->audit.found, f->sum);
    bool has_changes = f->last.n == 0 || rv >= f->last.held[f->last.n - 1].rv;
    bool is_watched = f->watch.at == REQUEST_OPEN;
    bool is_other = link != f->link && !BELFRY_MUTANT(kube_link_ignored);
    if (is_watched && (is_other || f->is_held)) {
        start_join(f, follow_retry_at(f, now_ms));
    } else if (rv >= f->audit.head) {
        ask_for_audit(f, now_ms);
    } else if ((is_ours && has_changes) || BELFRY_MUTANT(kube_older_unequal)) {
        f->stats.older++;
        if (is_watched) {
            publish_kept(f, f->from, now_ms);
            return;
        }
        int64_t from = BELFRY_MUTANT(kube_older_from_head) ? f->audit.head : rv;
        watch_want(f, from, (struct bond){.is_set = true, .link = link}, now_ms);
    } else if (f->is_judged && sum_is(f->listed, f->judged)) {
        start_rewritten(f, now_ms, "a cache at version %" PRId64 " has what etcd has, and not our state at %" PRId64,
                        rv, f->audit.head);
    } else {
        server_lags(f, now_ms);
    }
}

/* Of what etcd has, nothing contradicts us. Objects of ours may be missing: they were deleted since, or never were in
 * this past. A cache that has no more than etcd has will tell. */
static void judgement_complete(struct resource_follow *f, int64_t rv, uint64_t now_ms)
{
    struct resource_debt debt;
    if (!resource_audit_end(&f->audit, rv, f->sum, &debt)) {
        start_rewritten(f, now_ms, "a consistent list at version %" PRId64 " contradicts the state at %" PRId64, rv,
                        f->audit.head);
        return;
    }
    forget_tried(f);
    f->is_judged = true;
    f->judged = f->listed;
    list_want(f, LIST_OLDER, now_ms);
    follow_move(f, RESOURCE_AUDITING);
}

static void probe_complete(struct resource_follow *f, int64_t rv, uint64_t now_ms)
{
    if (f->state == RESOURCE_LISTING && f->is_copied && !f->is_checked)
        listing_checked(f, rv, now_ms);
    else if (rv >= f->probe_head || BELFRY_MUTANT(kube_behind_ignored) || f->is_rewritten)
        return;
    else
        start_rewritten(f, now_ms, "a consistent list is at version %" PRId64 ", behind ours at %" PRId64, rv,
                        f->probe_head);
}

/* A probe or a list of all versions, for a proof. */
static void fresh_complete(struct resource_follow *f, int64_t rv, uint64_t now_ms)
{
    resource_freshness_done(&f->fresh, rv, now_ms);
    if (rv < f->fresh_head && f->state != RESOURCE_LISTING)
        start_rewritten(f, now_ms, "a consistent list is at version %" PRId64 ", behind ours at %" PRId64, rv,
                        f->fresh_head);
}

static void list_complete(struct resource_follow *f, int64_t rv, uint64_t link, uint64_t now_ms)
{
    switch (f->list_kind) {
    case LIST_COPY:
        listing_complete(f, rv, link, now_ms);
        break;
    case LIST_AUDIT:
        audit_complete(f, rv, link, now_ms);
        break;
    case LIST_OLDER:
        older_complete(f, rv, link, now_ms);
        break;
    case LIST_JUDGE:
        judgement_complete(f, rv, now_ms);
        break;
    }
}

/* While a watch is open, what is asked about its server is to go on its link. Only an answer shows whether it does:
 * events still come on a link that the server wants to end. */
static void note_stray(struct resource_follow *f, uint64_t link)
{
    if (f->watch.at != REQUEST_OPEN)
        return;
    struct resource_beat *beat = resource_beat(f->opts.pulse, f->server, f->link);
    beat->n_astray = resource_link_place(link) != resource_link_place(f->link) ? beat->n_astray + 1 : 0;
}

void resource_on_listed(struct resource_follow *follow, uint64_t id, int64_t rv, uint64_t link, uint64_t now_ms)
{
    struct resource_follow *f = follow;
    BELFRY_OWNER_CHECK(f);
    if (request_is(&f->probe, id)) {
        f->probe.at = REQUEST_NONE;
        f->has_failed = false;
        note_stray(f, link);
        heard(f, link, now_ms);
        probe_complete(f, rv, now_ms);
    } else if (request_is(&f->list, id)) {
        f->list.at = REQUEST_NONE;
        heard(f, link, now_ms);
        list_complete(f, rv, link, now_ms);
    } else if (request_is(&f->fresh_request, id)) {
        f->fresh_request.at = REQUEST_NONE;
        note_stray(f, link);
        heard(f, link, now_ms);
        fresh_complete(f, rv, now_ms);
    }
}

/* ---- ends ---- */

static void watch_expired(struct resource_follow *f, uint64_t now_ms)
{
    if (BELFRY_MUTANT(kube_expired_lists_at_once))
        start_listing(f, false, "a server has lost the history", now_ms);
    else if (f->state != RESOURCE_LIVE)
        join_goes_on(f, true, now_ms);
    else if (f->n_short > SHORT_MAX)
        start_join_elsewhere(f, now_ms);
    else
        start_join(f, now_ms);
}

/* The server ended the watch. A server that reads its etcd anew does so, too. */
static void watch_over(struct resource_follow *f, bool was_open, uint64_t now_ms)
{
    if (f->state == RESOURCE_LIVE && was_open && BELFRY_MUTANT(kube_end_proves))
        watch_want(f, ingest_head(f->opts.ingest), (struct bond){0}, now_ms);
    else if (f->n_short > SHORT_MAX && !has_slept(f, now_ms)) /* otherwise it may have lasted */
        server_failed(f, now_ms);
    else
        start_join(f, f->n_short > 0 ? follow_retry_at(f, now_ms) : now_ms);
}

/* LISTING: the watch ended that sends, or has sent, all objects. */
static void initial_ended(struct resource_follow *f, bool was_open, enum resource_end end, uint64_t now_ms)
{
    if (f->is_copied)
        return; /* another watch continues it, on the same link */
    bool is_early = end == RESOURCE_ENDED && was_open && now_ms < f->until_ms;
    bool is_cut = end == RESOURCE_FAILED || (is_early && f->n_cut++ < CUTS_MAX);
    if (is_cut) /* it may be shutting down */
        list_failed(f, now_ms);
    else
        initial_failed(f, now_ms); /* 410, too: a server that knows of initial events has no reason for it */
}

static void watch_ended(struct resource_follow *f, enum resource_end end, uint64_t now_ms)
{
    bool was_open = f->watch.at == REQUEST_OPEN, is_short = !is_open_for(f, RESOURCE_SHORT_MS, now_ms);
    note_lasting(f, now_ms);
    /* After a watch that lasted, 410 is an answer: another question follows, and at last a listing. A server that was
     * restarted knows no history and gives it each time. */
    bool is_answer = end == RESOURCE_EXPIRED && f->state != RESOURCE_LIVE && f->n_short == 0;
    if (is_short && (was_open || end == RESOURCE_ENDED || end == RESOURCE_EXPIRED) && !is_answer)
        note_short(f, now_ms);
    f->watch.at = REQUEST_NONE;
    watch_cancel(f); /* what was kept of it */
    if (f->state == RESOURCE_LISTING) {
        initial_ended(f, was_open, end, now_ms);
        return;
    }
    switch (end) {
    case RESOURCE_ENDED:
        watch_over(f, was_open, now_ms);
        break;
    case RESOURCE_EXPIRED:
        heard(f, f->link, now_ms);
        watch_expired(f, now_ms);
        break;
    case RESOURCE_REFUSED:
    case RESOURCE_FAILED:
        server_failed(f, now_ms);
        break;
    }
}

void resource_on_end(struct resource_follow *follow, uint64_t id, enum resource_end end, uint64_t now_ms)
{
    struct resource_follow *f = follow;
    BELFRY_OWNER_CHECK(f);
    if (request_is(&f->watch, id)) {
        watch_ended(f, end, now_ms);
    } else if (request_is(&f->list, id)) {
        f->list.at = REQUEST_NONE;
        list_failed(f, now_ms);
    } else if (request_is(&f->probe, id)) {
        f->probe.at = REQUEST_NONE;
        f->has_failed = true;
        if (f->state == RESOURCE_LISTING && f->is_copied && !f->is_checked)
            list_failed(f, now_ms);
    } else if (request_is(&f->fresh_request, id)) {
        f->fresh_request.at = REQUEST_NONE;
        resource_freshness_failed(&f->fresh, now_ms);
    }
}

/* ---- freshness ---- */

uint64_t resource_prove(struct resource_follow *follow, size_t n, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(follow);
    return resource_freshness_ask(&follow->fresh, n, now_ms);
}

/* ---- time ---- */

void resource_drained(struct resource_follow *follow, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(follow);
    ingest_drained(follow->opts.ingest, now_ms);
}

/* What this process slept through is nobody's silence. */
static void forgive_gap(struct resource_follow *f, uint64_t now_ms)
{
    uint64_t gap = has_slept(f, now_ms) ? now_ms - f->tick_ms - RESOURCE_TICK_MS : 0;
    uint64_t *since[] = {&f->heard_ms, &f->moved_ms, &f->opened_ms, &f->spoke_ms, &f->began_ms};
    for (size_t i = 0; i < sizeof(since) / sizeof(since[0]); i++)
        *since[i] = belfry_min_time(*since[i] + gap, now_ms);
    if (f->asking_ms != 0)
        f->asking_ms = belfry_min_time(f->asking_ms + gap, now_ms);
    f->debt_ms += gap;
    f->tick_ms = now_ms;
}

/* Other followers may have heard of the server, on the link of our watch. */
static uint64_t server_silence(const struct resource_follow *f, uint64_t now_ms)
{
    uint64_t heard_ms = 0;
    if (f->state == RESOURCE_LIVE && f->watch.at == REQUEST_OPEN)
        heard_ms = resource_beat(f->opts.pulse, f->server, f->link)->heard_ms;
    for (size_t i = 0; i < RESOURCE_BEATS && BELFRY_MUTANT(kube_pulse_of_any); i++)
        heard_ms = later(heard_ms, f->opts.pulse->beats[i].heard_ms);
    if (f->asking_ms != 0) /* a probe of our own has no answer */
        heard_ms = belfry_min_time(heard_ms, f->asking_ms);
    return now_ms - (heard_ms > f->heard_ms ? heard_ms : f->heard_ms);
}

/* Nothing can show that the server of the watch is there, so the watch moves to another connection.
 * HTTP/1.1: requests go elsewhere, perhaps to another server of a balancer; bookmarks come every minute.
 * HTTP/2: a server that wants a connection to end (GOAWAY) lets its watches go on, and takes no request on it any more.
 * One probe may stray because the connection is full. */
static bool is_left_behind(const struct resource_follow *f, uint64_t now_ms)
{
    if (f->state != RESOURCE_LIVE || !is_open_for(f, RESOURCE_PROBE_MS, now_ms))
        return false;
    if (resource_link_place(f->link) == 0)
        return now_ms - f->spoke_ms >= RESOURCE_MUTE_MS;
    return resource_beat(f->opts.pulse, f->server, f->link)->n_astray >= 2 && !BELFRY_MUTANT(kube_stays_on_left_link);
}

/* Nobody else asks the server now, or our own watch was silent for long. */
static bool needs_probe(const struct resource_follow *f, uint64_t silence, uint64_t now_ms)
{
    bool is_asked = f->watch.at == REQUEST_OPEN &&
                    now_ms - resource_beat(f->opts.pulse, f->server, f->link)->sent_ms < 2 * RESOURCE_TICK_MS;
    if (f->state == RESOURCE_JOINING)
        return silence >= RESOURCE_PROBE_MS || now_ms - f->probed_ms >= RESOURCE_PROBE_MS;
    if (f->has_failed && now_ms - f->probed_ms < RESOURCE_PROBE_MS)
        return false; /* perhaps for a reason of our own: it is the turn of others */
    return (silence >= RESOURCE_PROBE_MS && !is_asked) || now_ms - f->heard_ms >= RESOURCE_OWN_PROBE_MS;
}

static void judge_silence(struct resource_follow *f, uint64_t now_ms)
{
    uint64_t silence = server_silence(f, now_ms);
    f->is_stale = silence >= RESOURCE_STALE_MS && !BELFRY_MUTANT(kube_never_stale);
    if (f->state == RESOURCE_LISTING) {
        bool is_initial = f->is_initial && !f->is_copied;
        if (is_initial && silence >= RESOURCE_STREAM_MS && now_ms - f->listed_ms >= RESOURCE_STREAM_MS) {
            initial_failed(f, now_ms);
            return;
        }
        bool waits = f->list.at == REQUEST_SENT || (f->is_copied && !f->is_checked);
        if (waits && silence >= RESOURCE_LIST_MS && now_ms - f->listed_ms >= RESOURCE_LIST_MS)
            list_failed(f, now_ms);
        return;
    }
    bool is_dead = silence >= RESOURCE_DEAD_MS && now_ms - f->moved_ms >= RESOURCE_DEAD_MS;
    bool lags = f->state == RESOURCE_JOINING && !f->is_stale && is_open_for(f, RESOURCE_LAG_MS, now_ms);
    if (lags) {
        server_lags(f, now_ms);
    } else if (is_left_behind(f, now_ms)) {
        start_join(f, now_ms);
    } else if (is_dead && !BELFRY_MUTANT(kube_waits_forever)) {
        f->dead |= UINT32_C(1) << f->server;
        server_failed(f, now_ms);
    } else if (needs_probe(f, silence, now_ms)) {
        probe_want(f, now_ms);
    }
}

void resource_tick(struct resource_follow *follow, uint64_t now_ms)
{
    struct resource_follow *f = follow;
    BELFRY_OWNER_CHECK(f);
    forgive_gap(f, now_ms);
    ingest_tick(f->opts.ingest, now_ms);
    note_lasting(f, now_ms);
    if (f->state == RESOURCE_LISTING && f->is_checked && now_ms >= f->adopt_ms)
        adopt(f, now_ms);
    if (f->state != RESOURCE_LISTING && store_is_damaged(f))
        start_listing(f, true, "the replica is damaged", now_ms);
    if (f->state == RESOURCE_AUDITING && f->is_listed && now_ms >= f->debt_ms)
        debt_is_bad(f, now_ms);
    publish_backlog(f, now_ms);
    judge_together(f, now_ms);
    f->resume = f->resume || (f->is_held && (f->state == RESOURCE_LIVE || f->state == RESOURCE_AUDITING));
    judge_silence(f, now_ms);
}

uint64_t resource_due(const struct resource_follow *follow)
{
    const struct resource_follow *f = follow;
    uint64_t due = belfry_min_time(f->tick_ms + RESOURCE_TICK_MS, ingest_due(f->opts.ingest));
    const struct request *requests[] = {&f->watch, &f->list, &f->probe};
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
        if (requests[i]->at == REQUEST_WANTED)
            due = belfry_min_time(due, requests[i]->due_ms);
    if (!resource_backlog_is_empty(&f->together) && resource_backlog_is_empty(&f->backlog) && !f->is_held)
        due = belfry_min_time(due, f->together_ms);
    if (fresh_facts(f).is_live)
        due = belfry_min_time(due, resource_freshness_due(&f->fresh));
    return due;
}

/* ---- how it stands ---- */

enum resource_state resource_state(const struct resource_follow *follow)
{
    return follow->state;
}

bool resource_stale(const struct resource_follow *follow)
{
    return follow->is_stale;
}

bool resource_ready(const struct resource_follow *follow)
{
    return follow->state == RESOURCE_LIVE && follow->watch.at == REQUEST_OPEN && !follow->is_stale;
}

const char *resource_why(const struct resource_follow *follow)
{
    return follow->why;
}

unsigned resource_server(const struct resource_follow *follow)
{
    return follow->server;
}

void resource_stats(const struct resource_follow *follow, struct resource_stats *out)
{
    *out = follow->stats;
}
