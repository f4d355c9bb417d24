/* src/informer/audience.c */
#include "informer/audience.h"

#include <assert.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/owner.h"

enum handler_state { REPLAYING, LIVE, RESYNCING };

struct belfry_handler {
    /* fixed */
    struct belfry_list node; /* in belfry_audience.handlers */
    struct belfry_audience *audience;
    belfry_news_fn fn;
    void *user;
    uint32_t resync_ms; /* 0: never */
    uint64_t number;    /* grows with each handler */
    /* owner */
    enum handler_state state;
    struct belfry_object *place; /* one reference: the last object walked; NULL: none yet, or no walk */
    uint64_t resync_at;          /* BELFRY_NEVER: never */
    bool synced;                 /* has received SYNCED */
    bool removed;                /* freed when no call of the audience is on the stack */
};

struct belfry_audience {
    struct belfry_informer *informer; /* passed to callbacks */
    struct belfry_store *store;       /* lent until destroy */
    struct belfry_list handlers;      /* in the order they were added */
    uint64_t n_added;
    bool complete;  /* the store has been complete */
    bool destroyed; /* freed when no call of the audience is on the stack */
    unsigned depth; /* calls of the audience on the stack */
    BELFRY_OWNER;
};

static struct belfry_handler *handler_of(struct belfry_list *node)
{
    return belfry_container(node, struct belfry_handler, node);
}

/* ---- create and destroy ---- */

enum belfry_err belfry_audience_create(struct belfry_informer *informer, struct belfry_store *store,
                                       struct belfry_audience **out)
{
    struct belfry_audience *audience = calloc(1, sizeof(*audience));
    if (audience == NULL)
        return BELFRY_ERR_NOMEM;
    audience->informer = informer;
    audience->store = store;
    belfry_list_init(&audience->handlers);
    BELFRY_OWNER_INIT(audience);
    *out = audience;
    return BELFRY_OK;
}

enum belfry_err belfry_audience_add(struct belfry_audience *audience, belfry_news_fn fn, void *user, uint32_t resync_ms,
                                    uint64_t now_ms, struct belfry_handler **out)
{
    BELFRY_OWNER_CHECK(audience);
    assert(!audience->destroyed);
    struct belfry_handler *handler = malloc(sizeof(*handler));
    if (handler == NULL)
        return BELFRY_ERR_NOMEM;
    *handler = (struct belfry_handler){.audience = audience,
                                       .fn = fn,
                                       .user = user,
                                       .resync_ms = resync_ms,
                                       .number = audience->n_added++,
                                       .state = REPLAYING,
                                       .resync_at = resync_ms == 0 ? BELFRY_NEVER : now_ms + resync_ms};
    belfry_list_append(&audience->handlers, &handler->node);
    *out = handler;
    return BELFRY_OK;
}

static void stand_at(struct belfry_handler *handler, struct belfry_object *object)
{
    struct belfry_object *before = handler->place;
    handler->place = object == NULL ? NULL : belfry_object_ref(object);
    belfry_object_unref(before);
}

static void free_handler(struct belfry_handler *handler)
{
    belfry_list_remove(&handler->node);
    stand_at(handler, NULL);
    free(handler);
}

/* Frees removed handlers and a destroyed audience, unless a caller on the stack still uses them. */
static void free_gone(struct belfry_audience *audience)
{
    if (audience->depth > 0)
        return;
    belfry_list_each_safe (node, &audience->handlers) {
        if (audience->destroyed || handler_of(node)->removed)
            free_handler(handler_of(node));
    }
    if (audience->destroyed)
        free(audience);
}

void belfry_handler_remove(struct belfry_handler *handler)
{
    if (handler == NULL)
        return;
    handler->removed = true;
    free_gone(handler->audience);
}

void belfry_audience_destroy(struct belfry_audience *audience)
{
    if (audience == NULL)
        return;
    BELFRY_OWNER_CHECK(audience);
    audience->destroyed = true;
    free_gone(audience);
}

int belfry_handler_synced(const struct belfry_handler *handler)
{
    return handler->synced;
}

/* ---- reporting news ---- */

static bool is_gone(const struct belfry_handler *handler)
{
    return handler->removed || handler->audience->destroyed;
}

static void call_handler(struct belfry_handler *handler, const struct belfry_news *news, bool *pause)
{
    enum belfry_next next = handler->fn(handler->audience->informer, news, handler->user);
    if (is_gone(handler))
        return; /* the audience, and *pause with it, may be gone */
    if (next == BELFRY_PAUSE)
        *pause = true;
    else if (next == BELFRY_STOP)
        handler->removed = true;
}

static void tell_synced(struct belfry_handler *handler, bool *pause)
{
    handler->synced = true;
    call_handler(handler, &(struct belfry_news){.kind = BELFRY_NEWS_SYNCED}, pause);
}

static bool counts_for(const struct belfry_handler *handler, const struct belfry_news *news)
{
    if (handler->state != REPLAYING || news->object == NULL)
        return true;
    return handler->place != NULL &&
           belfry_bytes_cmp(belfry_object_key(news->object), belfry_object_key(handler->place)) <= 0;
}

/* Visits the handlers that exist now; handlers added meanwhile wait for the next visit. */
static bool visit_handlers(struct belfry_audience *audience,
                           void (*visit)(struct belfry_handler *handler, const void *with, bool *pause),
                           const void *with, bool *pause)
{
    uint64_t n_added = audience->n_added;
    audience->depth++;
    for (struct belfry_list *node = audience->handlers.next; node != &audience->handlers && !audience->destroyed;
         node = node->next) {
        if (!handler_of(node)->removed && handler_of(node)->number < n_added)
            visit(handler_of(node), with, pause);
    }
    audience->depth--;
    bool remains = !audience->destroyed;
    free_gone(audience);
    return remains;
}

static void visit_tell(struct belfry_handler *handler, const void *with, bool *pause)
{
    const struct belfry_news *news = with;
    if (counts_for(handler, news))
        call_handler(handler, news, pause);
}

bool belfry_audience_tell(struct belfry_audience *audience, const struct belfry_news *news, bool *pause)
{
    BELFRY_OWNER_CHECK(audience);
    return visit_handlers(audience, visit_tell, news, pause);
}

static void visit_synced(struct belfry_handler *handler, const void *with, bool *pause)
{
    (void)with;
    if (handler->state != REPLAYING)
        tell_synced(handler, pause);
}

bool belfry_audience_synced(struct belfry_audience *audience, bool *pause)
{
    BELFRY_OWNER_CHECK(audience);
    audience->complete = true;
    return visit_handlers(audience, visit_synced, NULL, pause);
}

/* ---- walks ---- */

static struct belfry_object *next_object(const struct belfry_handler *handler)
{
    struct belfry_bytes behind = {0};
    if (handler->place != NULL)
        behind = belfry_object_key(handler->place);
    return belfry_store_next(handler->audience->store, (struct belfry_bytes){0}, behind);
}

static void end_walk(struct belfry_handler *handler, bool *pause)
{
    bool owed = handler->state == REPLAYING && handler->audience->complete;
    handler->state = LIVE;
    stand_at(handler, NULL);
    if (owed)
        tell_synced(handler, pause);
}

static void tell_place(struct belfry_handler *handler, bool *pause)
{
    struct belfry_news news = {.kind = BELFRY_NEWS_ADDED, .object = handler->place, .initial = 1};
    if (handler->state == RESYNCING)
        news = (struct belfry_news){
            .kind = BELFRY_NEWS_UPDATED, .object = handler->place, .old = handler->place, .resync = 1};
    call_handler(handler, &news, pause);
}

static void walk_slice(struct belfry_handler *handler, bool *pause)
{
    for (int i = 0; i < BELFRY_AUDIENCE_SLICE && !is_gone(handler) && !*pause; i++) {
        struct belfry_object *object = next_object(handler);
        if (object == NULL) {
            end_walk(handler, pause);
            return;
        }
        stand_at(handler, object); /* first, so that the object counts as walked whatever the callback does */
        tell_place(handler, pause);
    }
}

static void visit_turn(struct belfry_handler *handler, const void *with, bool *pause)
{
    uint64_t now_ms = *(const uint64_t *)with;
    if (*pause)
        return;
    if (handler->state == LIVE && now_ms >= handler->resync_at) {
        handler->state = RESYNCING;
        handler->resync_at = now_ms + handler->resync_ms;
    }
    if (handler->state != LIVE)
        walk_slice(handler, pause);
}

bool belfry_audience_turn(struct belfry_audience *audience, uint64_t now_ms, bool *pause)
{
    BELFRY_OWNER_CHECK(audience);
    return visit_handlers(audience, visit_turn, &now_ms, pause);
}

uint64_t belfry_audience_due(const struct belfry_audience *audience)
{
    uint64_t due = BELFRY_NEVER;
    belfry_list_each (node, &audience->handlers) {
        const struct belfry_handler *handler = handler_of(node);
        if (!handler->removed)
            due = belfry_min_time(due, handler->state == LIVE ? handler->resync_at : 0);
    }
    return due;
}
