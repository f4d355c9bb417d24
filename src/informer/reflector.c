/* src/informer/reflector.c */
#include "informer/reflector.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/owner.h"

#define BACKOFF_FIRST_MS   800
#define BACKOFF_MAX_MS     30000
#define BACKOFF_FORGET_MS  120000
#define BACKOFF_FORGIVE_MS 10000 /* a watch with events that lasted this long resets the backoff */
#define SHORT_WATCH_MS     1000  /* a watch that ends sooner without events does not work */
#define SILENCE_MS         10000 /* without a byte: the server does not support watch-lists */
#define TIMEOUT_S          300   /* default length of a watch */
#define SHORT_MAX          3     /* short watches with events in a row before each waits */
#define CUT_MAX            3     /* watch-lists in a row ended before initial_end: not supported */

enum step {
    STEP_STATE, /* a watch-list if supported, else a list */
    STEP_LIST,  /* a list */
    STEP_WATCH
};

struct belfry_reflector {
    /* fixed */
    uint32_t chunk, timeout_s;
    /* owner */
    struct belfry_rng rng;
    enum belfry_reflector_state state;
    enum step next;                             /* RESTING */
    uint64_t rest_ms;                           /* RESTING: until then */
    char version[BELFRY_REFLECTOR_VERSION + 1]; /* the last seen; "": none yet */
    bool unavailable;                           /* the server no longer has this version, or not yet */
    bool partial;                               /* objects were reported from a state that never became complete */
    bool offers;                                /* the server may support watch-lists */
    bool whole;                                 /* the next list is not paged: a page's token expired */
    bool held;                                  /* a watch has worked since the state was read */
    unsigned n_cut, n_short;                    /* in a row; see CUT_MAX, SHORT_MAX */
    struct belfry_reflector_counts counts;
    /* the current request */
    bool newest, paged; /* it requested "", in pages */
    uint64_t began_ms, heard_ms, n_events;
    /* backoff */
    uint32_t delay_ms;  /* the next delay, before its jitter */
    uint64_t backed_ms; /* when it was last used */
    BELFRY_OWNER;
};

enum belfry_err belfry_reflector_create(const struct belfry_reflector_opts *opts, struct belfry_reflector **out)
{
    struct belfry_reflector *r = malloc(sizeof(*r));
    if (r == NULL)
        return BELFRY_ERR_NOMEM;
    uint32_t timeout_s = opts->watch_timeout_ms / 1000;
    *r = (struct belfry_reflector){.chunk = opts->chunk,
                                   .timeout_s = opts->watch_timeout_ms == 0 ? TIMEOUT_S : timeout_s,
                                   .rng = {opts->seed},
                                   .offers = opts->watch_list,
                                   .delay_ms = BACKOFF_FIRST_MS};
    if (r->timeout_s == 0)
        r->timeout_s = 1; /* less than a second, which the API cannot express */
    BELFRY_OWNER_INIT(r);
    *out = r;
    return BELFRY_OK;
}

void belfry_reflector_destroy(struct belfry_reflector *reflector)
{
    free(reflector);
}

/* ---- the next request ---- */

static void continue_with(struct belfry_reflector *r, enum step next)
{
    r->state = BELFRY_REFLECTOR_RESTING;
    r->next = next;
    r->rest_ms = 0;
}

static void reflector_back_off(struct belfry_reflector *r, enum step next, uint64_t now_ms)
{
    if (now_ms - r->backed_ms > BACKOFF_FORGET_MS)
        r->delay_ms = BACKOFF_FIRST_MS;
    uint64_t wait = r->delay_ms + belfry_rng_below(&r->rng, r->delay_ms + 1);
    r->delay_ms = r->delay_ms < BACKOFF_MAX_MS / 2 ? r->delay_ms * 2 : BACKOFF_MAX_MS;
    r->backed_ms = now_ms;
    r->counts.retries++;
    continue_with(r, next);
    r->rest_ms = now_ms + wait;
}

/* The first list may come from a cache of any age; a watch-list cannot ask for that. Objects of a state that broke off
 * may be newer than the last version: only the newest state is certainly not older than they are. */
static const char *version_for(const struct belfry_reflector *r, bool list)
{
    if (r->unavailable || r->partial)
        return "";
    return r->version[0] == '\0' && list ? "0" : r->version;
}

static void ask_list(struct belfry_reflector *r, struct belfry_reflector_request *out)
{
    const char *version = version_for(r, true);
    bool any = version[0] == '\0' || strcmp(version, "0") == 0;
    *out =
        (struct belfry_reflector_request){.fresh = true, .version = version, .chunk = any && !r->whole ? r->chunk : 0};
    r->state = BELFRY_REFLECTOR_LISTING;
}

static void ask_watch(struct belfry_reflector *r, bool initial, struct belfry_reflector_request *out)
{
    *out = (struct belfry_reflector_request){.watch = true,
                                             .initial = initial,
                                             .fresh = initial,
                                             .version = initial ? version_for(r, false) : r->version,
                                             .timeout_s =
                                                 r->timeout_s + (uint32_t)belfry_rng_below(&r->rng, r->timeout_s)};
    r->state = initial ? BELFRY_REFLECTOR_INITIAL : BELFRY_REFLECTOR_WATCHING;
    r->counts.watches++;
}

enum belfry_err belfry_reflector_next(struct belfry_reflector *reflector, uint64_t now_ms,
                                      struct belfry_reflector_request *out)
{
    BELFRY_OWNER_CHECK(reflector);
    struct belfry_reflector *r = reflector;
    if (r->state != BELFRY_REFLECTOR_RESTING || now_ms < r->rest_ms)
        return BELFRY_ERR_AGAIN;
    if (r->next == STEP_WATCH)
        ask_watch(r, false, out);
    else if (r->next == STEP_STATE && r->offers)
        ask_watch(r, true, out);
    else
        ask_list(r, out);
    r->newest = out->version[0] == '\0';
    r->paged = out->chunk > 0;
    r->began_ms = r->heard_ms = now_ms;
    r->n_events = 0;
    return BELFRY_OK;
}

uint64_t belfry_reflector_due(const struct belfry_reflector *reflector)
{
    switch (reflector->state) {
    case BELFRY_REFLECTOR_RESTING:
        return reflector->rest_ms;
    case BELFRY_REFLECTOR_INITIAL:
        return reflector->heard_ms + SILENCE_MS;
    case BELFRY_REFLECTOR_LISTING:
    case BELFRY_REFLECTOR_WATCHING:
        return BELFRY_NEVER;
    }
    return BELFRY_NEVER;
}

/* ---- results of requests ---- */

/* False: a watch cannot start from it. */
static bool note_version(struct belfry_reflector *r, const char *version)
{
    size_t len = strlen(version);
    if (len == 0 || len > BELFRY_REFLECTOR_VERSION || strcmp(version, "0") == 0)
        return false;
    memcpy(r->version, version, len + 1);
    r->unavailable = false;
    return true;
}

/* The state has been read. */
static void state_complete(struct belfry_reflector *r)
{
    r->counts.relists += r->counts.lists > 0;
    r->counts.lists++;
    r->whole = false;
    r->held = false;
    r->partial = false;
    r->n_cut = 0;
}

void belfry_reflector_item(struct belfry_reflector *reflector)
{
    BELFRY_OWNER_CHECK(reflector);
    reflector->partial = true;
}

bool belfry_reflector_event(struct belfry_reflector *reflector, enum belfry_decoded_kind kind, const char *version,
                            bool initial_end, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(reflector);
    struct belfry_reflector *r = reflector;
    assert(r->state == BELFRY_REFLECTOR_INITIAL || r->state == BELFRY_REFLECTOR_WATCHING);
    if (kind == BELFRY_DECODED_ERROR)
        return false; /* ended() handles it */
    r->heard_ms = now_ms;
    r->n_events++;
    if (r->state == BELFRY_REFLECTOR_WATCHING) {
        note_version(r, version); /* an unusable version leaves the old one */
        return false;
    }
    if (kind != BELFRY_DECODED_BOOKMARK || !initial_end) {
        r->partial = true;
        return false;
    }
    r->unavailable = !note_version(r, version);
    state_complete(r);
    r->state = BELFRY_REFLECTOR_WATCHING;
    r->began_ms = now_ms; /* from now on it is a normal watch */
    r->n_events = 0;
    return true;
}

bool belfry_reflector_listed(struct belfry_reflector *reflector, const char *version, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(reflector);
    assert(reflector->state == BELFRY_REFLECTOR_LISTING);
    if (!note_version(reflector, version)) {
        reflector_back_off(reflector, STEP_STATE, now_ms);
        return false;
    }
    state_complete(reflector);
    continue_with(reflector, STEP_WATCH);
    return true;
}

void belfry_reflector_resumed(struct belfry_reflector *reflector, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(reflector);
    reflector->heard_ms = now_ms;
}

bool belfry_reflector_stalled(const struct belfry_reflector *reflector, uint64_t now_ms)
{
    return reflector->state == BELFRY_REFLECTOR_INITIAL && now_ms >= reflector->heard_ms + SILENCE_MS;
}

/* ---- how requests end ---- */

static bool is_busy(const struct belfry_reflector_outcome *outcome)
{
    return outcome->refused || outcome->failure->code == 429;
}

static bool is_unavailable(const struct belfry_reflector_outcome *outcome)
{
    return outcome->failure->expired || outcome->failure->too_large;
}

static bool is_over(const struct belfry_reflector_outcome *outcome)
{
    return outcome->broke_off || outcome->failure->err == BELFRY_OK;
}

static void list_ended(struct belfry_reflector *r, const struct belfry_reflector_outcome *outcome, uint64_t now_ms)
{
    /* The newest state in one page is the last resort. If that is unavailable, too, only waiting can help. */
    if (!is_unavailable(outcome) || (r->newest && !r->paged)) {
        reflector_back_off(r, STEP_STATE, now_ms);
        return;
    }
    r->unavailable = true;
    r->whole = r->paged;
    continue_with(r, STEP_LIST);
}

/* Continues immediately, but asks a server that ends one watch after another at most once per second. */
static void continue_paced(struct belfry_reflector *r, enum step next)
{
    continue_with(r, next);
    if (r->n_short > SHORT_MAX)
        r->rest_ms = r->began_ms + SHORT_WATCH_MS;
}

static void watch_ended(struct belfry_reflector *r, const struct belfry_reflector_outcome *outcome, uint64_t now_ms)
{
    bool lasted = now_ms - r->began_ms >= SHORT_WATCH_MS, worked = r->n_events > 0 || lasted;
    enum step again = r->unavailable ? STEP_STATE : STEP_WATCH;
    if (is_busy(outcome)) {
        reflector_back_off(r, again, now_ms);
        return;
    }
    if (r->n_events > 0 && now_ms - r->began_ms >= BACKOFF_FORGIVE_MS)
        r->delay_ms = BACKOFF_FIRST_MS;
    r->held = r->held || worked;
    r->n_short = lasted ? 0 : r->n_short + 1;
    if (outcome->failure->expired && r->held)
        continue_paced(r, STEP_STATE);
    else if (!outcome->failure->expired && is_over(outcome) && worked)
        continue_paced(r, again);
    else
        reflector_back_off(r, STEP_STATE, now_ms);
}

/* Whether the failure says nothing about the support of watch-lists. */
static bool is_unrelated(const struct belfry_failure *failure)
{
    return failure->code >= 500 || failure->code == 401 || failure->code == 403;
}

static void initial_ended(struct belfry_reflector *r, const struct belfry_reflector_outcome *outcome, uint64_t now_ms)
{
    if (is_busy(outcome)) {
        reflector_back_off(r, STEP_STATE, now_ms);
    } else if (is_unavailable(outcome) && !r->newest) {
        r->unavailable = true;
        continue_with(r, STEP_STATE);
    } else if (is_over(outcome)) {
        r->n_cut = outcome->broke_off ? 0 : r->n_cut + 1;
        if (r->n_cut == CUT_MAX)
            r->offers = false;
        if (now_ms - r->began_ms < SHORT_WATCH_MS)
            reflector_back_off(r, STEP_STATE, now_ms);
        else
            continue_with(r, STEP_STATE);
    } else {
        r->offers = r->offers && is_unrelated(outcome->failure);
        continue_with(r, STEP_LIST);
    }
}

void belfry_reflector_ended(struct belfry_reflector *reflector, const struct belfry_reflector_outcome *outcome,
                            uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(reflector);
    switch (reflector->state) {
    case BELFRY_REFLECTOR_LISTING:
        list_ended(reflector, outcome, now_ms);
        return;
    case BELFRY_REFLECTOR_INITIAL:
        initial_ended(reflector, outcome, now_ms);
        return;
    case BELFRY_REFLECTOR_WATCHING:
        watch_ended(reflector, outcome, now_ms);
        return;
    case BELFRY_REFLECTOR_RESTING:
        assert(!"no request is under way");
        return;
    }
}

bool belfry_reflector_offers(const struct belfry_reflector *reflector)
{
    return reflector->offers;
}

enum belfry_reflector_state belfry_reflector_state(const struct belfry_reflector *reflector)
{
    return reflector->state;
}

struct belfry_reflector_counts belfry_reflector_counts(const struct belfry_reflector *reflector)
{
    return reflector->counts;
}
