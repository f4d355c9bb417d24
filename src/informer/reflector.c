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
#define BACKOFF_FORGIVE_MS 10000 /* a watch with events that lasted so long */
#define SHORT_WATCH_MS     1000  /* a watch that ends sooner, without events, is one that does not work */
#define SILENCE_MS         10000 /* of a watch-list: the server does not know what is wanted of it */
#define TIMEOUT_S          300   /* of a watch, when none is given */
#define SHORT_MAX          3     /* watches with events in a row that may be as short */
#define CUT_MAX            3     /* watch-lists that a server ends in a row before their initial_end */

enum step {
    STEP_STATE, /* a watch-list where it is offered, else a list */
    STEP_LIST,  /* a list, this time */
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
    bool unavailable;                           /* the server cannot go on from it */
    bool partial;                               /* objects of a state were told that never became complete */
    bool offers;                                /* watch-lists are worth asking for */
    bool whole;                                 /* the next list is not paged: a page's token expired */
    bool held;                                  /* a watch worked since the state was read */
    unsigned n_cut, n_short;                    /* in a row; see CUT_MAX, SHORT_MAX */
    struct belfry_reflector_counts counts;
    /* the request under way */
    bool newest, paged; /* it asked for "", in pages */
    uint64_t began_ms, heard_ms, n_events;
    /* backoff */
    uint32_t delay_ms;  /* the next one, before its jitter */
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
        r->timeout_s = 1; /* asked for less than a second, which the API cannot say */
    BELFRY_OWNER_INIT(r);
    *out = r;
    return BELFRY_OK;
}

void belfry_reflector_destroy(struct belfry_reflector *reflector)
{
    free(reflector);
}

/* ---- what comes next ---- */

static void go_on(struct belfry_reflector *r, enum step next)
{
    r->state = BELFRY_REFLECTOR_RESTING;
    r->next = next;
    r->rest_ms = 0;
}

static void back_off(struct belfry_reflector *r, enum step next, uint64_t now_ms)
{
    if (now_ms - r->backed_ms > BACKOFF_FORGET_MS)
        r->delay_ms = BACKOFF_FIRST_MS;
    uint64_t wait = r->delay_ms + belfry_rng_below(&r->rng, r->delay_ms + 1);
    r->delay_ms = r->delay_ms < BACKOFF_MAX_MS / 2 ? r->delay_ms * 2 : BACKOFF_MAX_MS;
    r->backed_ms = now_ms;
    r->counts.retries++;
    go_on(r, next);
    r->rest_ms = now_ms + wait;
}

/* A list may be answered from a cache of any age at first; a watch-list has no word for that. What was told of a state that
 * broke off may be newer than the last version: only the newest is certainly not older. */
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

/* ---- what comes in ---- */

/* False: it is none that a watch could go on from. */
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
static void complete(struct belfry_reflector *r)
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
        return false; /* ended() will say it */
    r->heard_ms = now_ms;
    r->n_events++;
    if (r->state == BELFRY_REFLECTOR_WATCHING) {
        note_version(r, version); /* without one that can be used, the one before stays */
        return false;
    }
    if (kind != BELFRY_DECODED_BOOKMARK || !initial_end) {
        r->partial = true;
        return false;
    }
    r->unavailable = !note_version(r, version);
    complete(r);
    r->state = BELFRY_REFLECTOR_WATCHING;
    r->began_ms = now_ms; /* from here on it is judged as any watch */
    r->n_events = 0;
    return true;
}

bool belfry_reflector_listed(struct belfry_reflector *reflector, const char *version, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(reflector);
    assert(reflector->state == BELFRY_REFLECTOR_LISTING);
    if (!note_version(reflector, version)) {
        back_off(reflector, STEP_STATE, now_ms);
        return false;
    }
    complete(reflector);
    go_on(reflector, STEP_WATCH);
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
    /* Asking for the newest in one piece is the last resort: if that is unavailable, too, time must help. */
    if (!is_unavailable(outcome) || (r->newest && !r->paged)) {
        back_off(r, STEP_STATE, now_ms);
        return;
    }
    r->unavailable = true;
    r->whole = r->paged;
    go_on(r, STEP_LIST);
}

/* At once, but a server that ends one watch after the other is not asked more than once a second. */
static void go_on_in_peace(struct belfry_reflector *r, enum step next)
{
    go_on(r, next);
    if (r->n_short > SHORT_MAX)
        r->rest_ms = r->began_ms + SHORT_WATCH_MS;
}

static void watch_ended(struct belfry_reflector *r, const struct belfry_reflector_outcome *outcome, uint64_t now_ms)
{
    bool lasted = now_ms - r->began_ms >= SHORT_WATCH_MS, worked = r->n_events > 0 || lasted;
    enum step again = r->unavailable ? STEP_STATE : STEP_WATCH;
    if (is_busy(outcome)) {
        back_off(r, again, now_ms);
        return;
    }
    if (r->n_events > 0 && now_ms - r->began_ms >= BACKOFF_FORGIVE_MS)
        r->delay_ms = BACKOFF_FIRST_MS;
    r->held = r->held || worked;
    r->n_short = lasted ? 0 : r->n_short + 1;
    if (outcome->failure->expired && r->held)
        go_on_in_peace(r, STEP_STATE);
    else if (!outcome->failure->expired && is_over(outcome) && worked)
        go_on_in_peace(r, again);
    else
        back_off(r, STEP_STATE, now_ms);
}

/* What the server says for another reason than that it does not offer watch-lists. */
static bool says_nothing_of_it(const struct belfry_failure *failure)
{
    return failure->code >= 500 || failure->code == 401 || failure->code == 403;
}

static void initial_ended(struct belfry_reflector *r, const struct belfry_reflector_outcome *outcome, uint64_t now_ms)
{
    if (is_busy(outcome)) {
        back_off(r, STEP_STATE, now_ms);
    } else if (is_unavailable(outcome) && !r->newest) {
        r->unavailable = true;
        go_on(r, STEP_STATE);
    } else if (is_over(outcome)) {
        r->n_cut = outcome->broke_off ? 0 : r->n_cut + 1;
        if (r->n_cut == CUT_MAX)
            r->offers = false;
        if (now_ms - r->began_ms < SHORT_WATCH_MS)
            back_off(r, STEP_STATE, now_ms);
        else
            go_on(r, STEP_STATE);
    } else {
        r->offers = r->offers && says_nothing_of_it(outcome->failure);
        go_on(r, STEP_LIST);
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

enum belfry_reflector_state belfry_reflector_state(const struct belfry_reflector *reflector)
{
    return reflector->state;
}

struct belfry_reflector_counts belfry_reflector_counts(const struct belfry_reflector *reflector)
{
    return reflector->counts;
}
