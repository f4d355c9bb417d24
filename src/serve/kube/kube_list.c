/* src/serve/kube/kube_list.c */
#include "serve/kube/kube_list.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/owner.h"
#include "base/pack.h"
#include "kube/token.h"
#include "serve/kube/kube_answer.h"

#define H2_INTERNAL_ERROR 2
#define PAUSE_MS          2  /* the store's commit is up to 5 ms after the log */
#define PAUSE_MAX_MS      50 /* for a tier that lags */

/* A page that the reader has or had. It may outlive its list, and all lists. */
struct trip {
    struct kube_page page;
    struct kube_list *list;   /* NULL: gone */
    struct kube_lists *lists; /* NULL: gone */
    struct belfry_list node;  /* in `orphans`, when its list is gone */
};

enum list_state { LIST_NEW, LIST_FENCING, LIST_QUEUED, LIST_READING, LIST_WRITING, LIST_PAUSED, N_STATES };

struct kube_list {
    /* fixed at creation */
    struct kube_lists *lists;
    struct exchange *x;
    void (*done)(void *user, enum belfry_err err, const struct kube_status *status, int64_t rev);
    void *user;
    bool is_watch, head_only;
    bool is_continued; /* by a token, of a revision that may have left the window */
    bool is_fenced;    /* it asks for the latest state */
    bool is_verbatim;  /* its resource is: a version that is not there yet is proven */
    uint64_t deadline_ms;
    struct identity who; /* this and name: in text */
    struct belfry_bytes name;
    size_t bytes;              /* as counted in the room */
    struct shares_conn *share; /* its connection's */
    struct lane *lane;         /* in which it waits for a place */
    /* moves */
    enum list_state state;   /* by kube_list_move_to() alone */
    struct belfry_list node; /* in the list of its state */
    struct belfry_list turn; /* QUEUED: in its lane */
    struct trip *trip;       /* owned, unless READING */
    struct fence_wait *wait; /* FENCING */
    bool head_sent;
    uint64_t again_ms, pause_ms; /* PAUSED: until when; how long the next pause is */
    uint64_t until_ms;           /* to wait for a revision that the store does not have yet; 0: not missed yet */
    uint64_t page_ms;            /* WRITING: since when */
    int64_t rev;                 /* of the pages received; 0: none was */
    size_t n_counted;            /* of page.n */
    bool in_line;                /* the last byte written is not a newline */
    char text[];
};

/* What kube_lists has counted in its room. */
struct room_part {
    size_t lists, pages, queued;
};

struct kube_lists {
    /* fixed at creation */
    struct kube_lists_opts opts;
    struct kube_room own; /* unless the room is shared */
    struct kube_room *room;
    struct belfry_hash_key key; /* of the lanes */
    /* owner */
    struct belfry_list in[N_STATES]; /* kube_list.node */
    size_t n_in[N_STATES];
    struct lanes lanes;         /* for a place */
    struct belfry_list orphans; /* trip.node */
    size_t n_orphans;
    struct room_part counted;
    uint64_t due; /* not later than the first list that is due; places for lists that wait are not considered */
    struct kube_lists_stats stats;
    BELFRY_OWNER;
};

static uint64_t now_of(const struct kube_lists *lists)
{
    return lists->opts.now(lists->opts.user);
}

/* ---- states ---- */

static bool is_placed(enum list_state state)
{
    return state == LIST_READING || state == LIST_WRITING;
}

/* Keeps the lane of the list right. */
static void kube_list_change_turn(struct kube_list *list, enum list_state to)
{
    bool is_now = is_placed(list->state), will_be = is_placed(to);
    belfry_list_remove(&list->turn);
    if (to == LIST_QUEUED) {
        list->lane = lanes_of(&list->lists->lanes, list->lists->key, list->who.source);
        lanes_wait(&list->lists->lanes, list->lane, &list->turn);
    }
    if (will_be && !is_now)
        lane_hold(list->lane);
    else if (is_now && !will_be)
        lane_release(list->lane);
}

static size_t n_waiting(const struct kube_lists *lists)
{
    return lists->n_in[LIST_NEW] + lists->n_in[LIST_FENCING] + lists->n_in[LIST_QUEUED] + lists->n_in[LIST_PAUSED];
}

/* After any of the numbers has changed. */
static void kube_lists_count(struct kube_lists *lists)
{
    struct kube_room *room = lists->room;
    struct room_part now = {.lists = n_waiting(lists),
                            .pages = lists->n_in[LIST_READING] + lists->n_in[LIST_WRITING] + lists->n_orphans,
                            .queued = lists->n_in[LIST_QUEUED]};
    room->lists = room->lists - lists->counted.lists + now.lists;
    room->pages = room->pages - lists->counted.pages + now.pages;
    room->queued = room->queued - lists->counted.queued + now.queued;
    lists->counted = now;
}

static void kube_list_move_to(struct kube_list *list, enum list_state to)
{
    static const unsigned legal[N_STATES] = {
        [LIST_NEW] = 1 << LIST_FENCING | 1 << LIST_QUEUED,
        [LIST_FENCING] = 1 << LIST_QUEUED,
        [LIST_QUEUED] = 1 << LIST_READING,
        [LIST_READING] = 1 << LIST_WRITING,
        [LIST_WRITING] = 1 << LIST_READING | 1 << LIST_PAUSED,
        [LIST_PAUSED] = 1 << LIST_QUEUED | 1 << LIST_FENCING,
    };
    assert((legal[list->state] & 1u << to) != 0);
    (void)legal;
    struct kube_lists *lists = list->lists;
    kube_list_change_turn(list, to);
    belfry_list_remove(&list->node);
    belfry_list_append(&lists->in[to], &list->node);
    lists->n_in[list->state]--;
    lists->n_in[to]++;
    list->state = to;
    kube_lists_count(lists);
}

static struct kube_list *list_of(struct belfry_list *node)
{
    return belfry_container(node, struct kube_list, node);
}

/* When its page is late, if other lists wait for a place. */
static uint64_t stalled_at(const struct kube_list *list)
{
    return list->page_ms + KUBE_STALL_MS;
}

static size_t free_places(const struct kube_lists *lists)
{
    return kube_room_free_pages(lists->room);
}

/* The list that gets the next place; NULL: none waits that may have one. */
static struct kube_list *next_in_turn(const struct kube_lists *lists)
{
    struct lane *lane = lists->n_in[LIST_QUEUED] > 0 ? lanes_next(&lists->lanes, free_places(lists)) : NULL;
    return lane == NULL ? NULL : belfry_container(lane->waiting.next, struct kube_list, turn);
}

/* Would another list have its place? */
static bool is_in_the_way(const struct kube_list *list)
{
    const struct kube_lists *lists = list->lists;
    return !belfry_list_empty(&list->lane->waiting) || (lists->room->queued > 0 && free_places(lists) == 0);
}

/* When lists wait for a place, pages that are late become due. */
static void kube_lists_note_stalled(struct kube_lists *lists)
{
    if (lists->n_in[LIST_QUEUED] == 0)
        return;
    belfry_list_each (node, &lists->in[LIST_WRITING]) {
        struct kube_list *list = list_of(node);
        if (is_in_the_way(list))
            lists->due = belfry_min_time(lists->due, stalled_at(list));
    }
}

static void trip_free(struct trip *trip)
{
    if (trip == NULL)
        return;
    kube_page_fini(&trip->page);
    free(trip);
}

static void trip_leave(struct kube_list *list)
{
    struct trip *trip = list->trip;
    if (list->state != LIST_READING) {
        trip_free(trip);
        return;
    }
    trip->list = NULL;
    belfry_list_append(&list->lists->orphans, &trip->node);
    list->lists->n_orphans++;
}

static void kube_list_free(struct kube_list *list)
{
    struct kube_lists *lists = list->lists;
    if (list->wait != NULL)
        fence_cancel(list->wait);
    trip_leave(list);
    kube_list_change_turn(list, LIST_NEW);
    shares_count(list->share, SHARES_LISTS, 1, 0);
    belfry_list_remove(&list->node);
    lists->n_in[list->state]--;
    shares_count(list->share, SHARES_LIST_BYTES, list->bytes, 0);
    kube_lists_count(lists);
    explicit_bzero(list->text, list->who.text.len);
    free(list);
}

/* ---- how it ends ---- */

static const struct belfry_http_field plain_head[] = {
    {{"content-type", 12}, {"application/json", 16}},
    {{"cache-control", 13}, {"no-cache, private", 17}},
};
static const struct belfry_http_field packed_head[] = {
    {{"content-type", 12}, {"application/json", 16}},
    {{"cache-control", 13}, {"no-cache, private", 17}},
    {{"content-encoding", 16}, {"gzip", 4}},
    {{"vary", 4}, {"Accept-Encoding", 15}},
};

static void kube_list_fail(struct kube_list *list, enum belfry_err err, const struct kube_status *status)
{
    if (list->is_watch)
        list->done(list->user, err, status, list->rev);
    else if (list->head_sent)
        exchange_reset(list->x, H2_INTERNAL_ERROR);
    else if (list->head_only)
        exchange_answer(list->x, kube_reason_code(status->reason), plain_head, 2, (struct belfry_bytes){0});
    else
        kube_answer_status(list->x, status);
    kube_list_free(list);
}

static void kube_list_finish(struct kube_list *list)
{
    if (list->is_watch)
        list->done(list->user, BELFRY_OK, NULL, list->rev);
    else
        exchange_end(list->x, NULL, 0);
    kube_list_free(list);
}

static void fail_deadline(struct kube_list *list)
{
    struct kube_status status;
    list->lists->stats.timeouts++;
    kube_status_set(&status, KUBE_TIMEOUT, "Timeout: request did not complete within the allotted timeout");
    status.retry_after_s = 1;
    kube_list_fail(list, BELFRY_ERR_TIMEOUT, &status);
}

static void fail_stalled(struct kube_list *list)
{
    struct kube_status status;
    list->lists->stats.timeouts++;
    kube_status_set(&status, KUBE_TIMEOUT, "Timeout: the response is not being read, and others wait");
    status.retry_after_s = 1;
    kube_list_fail(list, BELFRY_ERR_TIMEOUT, &status);
}

static void fail_unavailable(struct kube_list *list, const char *why)
{
    struct kube_status status;
    kube_status_set(&status, KUBE_SERVICE_UNAVAILABLE, "%s", why);
    status.retry_after_s = 1;
    kube_list_fail(list, BELFRY_ERR_UNAVAILABLE, &status);
}

static void fail_not_found(struct kube_list *list)
{
    const struct kube_resource *resource = list->trip->page.resource;
    struct kube_status status;
    kube_status_set(&status, KUBE_NOT_FOUND, "%s%s%s \"%.*s\" not found", resource->plural,
                    resource->group[0] == '\0' ? "" : ".", resource->group, (int)list->name.len, list->name.data);
    status.name = list->name;
    status.group = belfry_bytes_str(resource->group);
    status.kind = belfry_bytes_str(resource->plural);
    kube_list_fail(list, BELFRY_ERR_NOT_FOUND, &status);
}

/* An API server's own sentences, for resources of one: programs compare them. */
#define API_LIST_EXPIRED "The resourceVersion for the provided list is too old."
#define API_CONTINUE_EXPIRED                                                                                           \
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "        \
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "     \
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "        \
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
static_assert(sizeof(API_CONTINUE_EXPIRED) <= KUBE_MESSAGE_MAX, "it must not be cut");

static void set_expired(struct kube_status *status, const struct kube_list *list)
{
    const struct kube_page *page = &list->trip->page;
    if (page->resource->is_verbatim)
        kube_status_set(status, KUBE_EXPIRED, "%s", list->is_continued ? API_CONTINUE_EXPIRED : API_LIST_EXPIRED);
    else if (list->is_continued)
        kube_status_set(status, KUBE_EXPIRED,
                        "the continue token is of a state that is not kept any more (%lld, the oldest is %lld): list "
                        "anew, or go on with the token in metadata.continue, which lists the rest as it is now",
                        (long long)page->rev, (long long)page->at);
    else
        kube_status_expired(status, page->rev, page->at);
}

/* A list that was continued may continue at the same key and a newer revision: the Status has a token for that. It has
 * no origin, so that it is the API server that lists the rest of its resource. */
static void fail_compacted(struct kube_list *list)
{
    const struct kube_page *page = &list->trip->page;
    struct kube_status status;
    struct belfry_buf token = {0};
    list->lists->stats.expired++;
    set_expired(&status, list);
    if (list->is_continued &&
        kube_token_write(-1, (struct kube_token_origin){0}, kube_page_start(page), &token) == BELFRY_OK)
        status.continue_with = belfry_buf_bytes(&token);
    kube_list_fail(list, BELFRY_ERR_COMPACTED, &status);
    belfry_buf_fini(&token);
}

static void fail_too_large(struct kube_list *list)
{
    const struct kube_page *page = &list->trip->page;
    struct kube_status status;
    list->lists->stats.timeouts++;
    kube_status_too_large(&status, page->rev > 0 ? page->rev : page->floor, page->at);
    kube_list_fail(list, BELFRY_ERR_TIMEOUT, &status);
}

static void fail_reading(struct kube_list *list, enum belfry_err err)
{
    struct kube_status status;
    if (err == BELFRY_ERR_NOMEM)
        kube_status_busy(&status, "belfry: memory limit reached");
    else
        kube_status_set(&status, KUBE_INTERNAL_ERROR, "belfry: the replica cannot be read: %s",
                        belfry_strerror((int)err));
    kube_list_fail(list, err, &status);
}

/* ---- pages ---- */

static void on_page_back(struct kube_page *page, void *user);

static void kube_list_read_next(struct kube_list *list)
{
    struct kube_reader *reader = list->lists->opts.reader;
    kube_list_move_to(list, LIST_READING);
    reader->read(reader, &list->trip->page, on_page_back, list->trip);
}

static void kube_list_write_part(struct kube_list *list, size_t n)
{
    struct belfry_buf *text = &list->trip->page.text;
    struct belfry_bytes bytes = belfry_buf_bytes(text);
    exchange_write(list->x, bytes.data, n);
    list->in_line = bytes.data[n - 1] != '\n';
    belfry_buf_take(text, n);
    list->lists->stats.bytes += n;
}

static void kube_list_take_place(struct kube_list *list)
{
    (void)lanes_take(&list->lists->lanes, list->lane);
    kube_list_read_next(list);
}

/* It is QUEUED: lists that wait longer go first. A tick gives them places, never the call that made room. */
static void kube_list_go_on(struct kube_list *list)
{
    struct kube_lists *lists = list->lists;
    if (lists->n_in[LIST_QUEUED] > 1)
        return;
    if (next_in_turn(lists) == list)
        kube_list_take_place(list);
    else
        kube_lists_note_stalled(lists);
}

static void kube_list_write_some(struct kube_list *list)
{
    struct belfry_buf *text = &list->trip->page.text;
    while (belfry_buf_len(text) > 0) {
        size_t room = exchange_room(list->x), left = belfry_buf_len(text);
        if (room == 0)
            return; /* there is too little room: `writable` will come */
        kube_list_write_part(list, left < room ? left : room);
    }
    if (list->trip->page.more)
        kube_list_read_next(list);
    else
        kube_list_finish(list);
}

static void send_head(struct kube_list *list)
{
    bool packed = list->trip->page.packed;
    exchange_respond(list->x, 200, packed ? packed_head : plain_head, packed ? 4 : 2);
    list->head_sent = true;
}

static void kube_list_take_page(struct kube_list *list)
{
    struct kube_page *page = &list->trip->page;
    struct kube_lists_stats *stats = &list->lists->stats;
    stats->objects += page->n - list->n_counted;
    stats->undecodable += page->undecodable;
    stats->skipped += page->skipped;
    list->n_counted = page->n;
    list->rev = page->rev;
    list->until_ms = 0;
    bool is_empty = belfry_buf_len(&page->text) == 0 && page->more; /* no row was read yet, or none matched */
    if (page->as == KUBE_PAGE_OBJECT && page->n == 0 && !page->more) {
        fail_not_found(list);
        return;
    }
    if (!list->head_sent && !is_empty)
        send_head(list);
    if (list->head_only && !is_empty) {
        belfry_buf_clear(&page->text);
        kube_list_finish(list);
        return;
    }
    kube_list_write_some(list);
}

static void kube_list_prove(struct kube_list *list);

static void wait_for_revision(struct kube_list *list)
{
    uint64_t now = now_of(list->lists);
    bool is_first = list->until_ms == 0;
    if (is_first) {
        list->until_ms = now + KUBE_WAIT_MS;
        list->pause_ms = PAUSE_MS;
    }
    if (now >= list->until_ms) {
        fail_too_large(list);
        return;
    }
    list->again_ms = belfry_min_time(now + list->pause_ms, list->until_ms);
    list->pause_ms = list->pause_ms * 2 < PAUSE_MAX_MS ? list->pause_ms * 2 : PAUSE_MAX_MS;
    list->lists->due = belfry_min_time(list->lists->due, list->again_ms);
    kube_list_move_to(list, LIST_PAUSED);
    if (is_first && list->is_verbatim && !list->is_fenced)
        kube_list_prove(list);
}

/* Frees the page of a list that is gone. When `lists` is gone, too, this may be any thread, so nothing else is
 * touched. */
static void trip_bury(struct trip *trip)
{
    struct kube_lists *lists = trip->lists;
    if (lists != NULL) {
        belfry_list_remove(&trip->node);
        lists->n_orphans--;
        kube_lists_count(lists);
    }
    trip_free(trip);
}

static void on_page_back(struct kube_page *page, void *user)
{
    struct trip *trip = user;
    struct kube_list *list = trip->list;
    if (list == NULL) {
        trip_bury(trip);
        return;
    }
    enum belfry_err err = page->err;
    kube_list_move_to(list, LIST_WRITING);
    list->page_ms = now_of(list->lists);
    if (list->lists->n_in[LIST_QUEUED] > 0)
        list->lists->due = belfry_min_time(list->lists->due, stalled_at(list));
    if (err == BELFRY_OK)
        kube_list_take_page(list);
    else if (err == BELFRY_ERR_AGAIN)
        wait_for_revision(list);
    else if (err == BELFRY_ERR_COMPACTED)
        fail_compacted(list);
    else if (err == BELFRY_ERR_CANCELED)
        fail_unavailable(list, "belfry: stopping; connect anew");
    else
        fail_reading(list, err);
}

/* ---- where upstream is ---- */

static void set_fence_status(struct kube_status *status, enum belfry_err err, const struct identity *who)
{
    if (err == BELFRY_ERR_AUTH || err == BELFRY_ERR_DENIED)
        kube_status_no_fence(status, err, who);
    else if (err == BELFRY_ERR_LIMIT || err == BELFRY_ERR_NOMEM)
        kube_status_busy(status, "belfry: too many lists at once");
    else if (err == BELFRY_ERR_TIMEOUT)
        kube_status_set(status, KUBE_TIMEOUT, "Timeout: upstream does not say which revision is its newest");
    else
        kube_status_set(status, KUBE_SERVICE_UNAVAILABLE, "upstream cannot be asked which revision is its newest");
    if (err == BELFRY_ERR_TIMEOUT || err == BELFRY_ERR_UNAVAILABLE)
        status->retry_after_s = 1;
}

static void on_list_fence(enum belfry_err err, int64_t rev, void *user)
{
    struct kube_list *list = user;
    list->wait = NULL;
    if (err == BELFRY_OK) {
        list->trip->page.floor = rev;
        kube_list_move_to(list, LIST_QUEUED);
        kube_list_go_on(list);
        return;
    }
    struct kube_status status;
    set_fence_status(&status, err, &list->who);
    list->lists->stats.timeouts += err == BELFRY_ERR_TIMEOUT;
    kube_list_fail(list, err, &status);
}

/* How far upstream is does not matter: what it has published by then is in the store. */
static void on_list_proof(enum belfry_err err, int64_t rev, void *user)
{
    struct kube_list *list = user;
    (void)err;
    (void)rev;
    list->wait = NULL;
    kube_list_move_to(list, LIST_QUEUED);
    kube_list_go_on(list);
}

/* PAUSED, and stays so if it cannot be asked. */
static void kube_list_prove(struct kube_list *list)
{
    struct belfry_bytes key = belfry_buf_bytes(&list->trip->page.key);
    if (fence_ask(list->lists->opts.fence, &list->who, key, on_list_proof, list, &list->wait) == BELFRY_OK)
        kube_list_move_to(list, LIST_FENCING);
}

/* Errors: those of fence_ask(). */
static enum belfry_err kube_list_start(struct kube_list *list)
{
    if (!list->is_fenced) {
        kube_list_move_to(list, LIST_QUEUED);
        kube_list_go_on(list);
        return BELFRY_OK;
    }
    struct belfry_bytes key = belfry_buf_bytes(&list->trip->page.key);
    enum belfry_err err = fence_ask(list->lists->opts.fence, &list->who, key, on_list_fence, list, &list->wait);
    if (err == BELFRY_OK)
        kube_list_move_to(list, LIST_FENCING);
    return err;
}

/* ---- the exchange ---- */

static void on_list_writable(struct exchange *x, void *user)
{
    struct kube_list *list = user;
    (void)x;
    if (list->state == LIST_WRITING)
        kube_list_write_some(list);
}

static void on_list_gone(struct exchange *x, void *user)
{
    struct kube_list *list = user;
    (void)x;
    if (list->is_watch)
        list->done(list->user, BELFRY_ERR_CANCELED, NULL, 0);
    kube_list_free(list);
}

static const struct exchange_events list_events = {
    .body = exchange_drop_body, .body_end = exchange_ignore, .writable = on_list_writable, .gone = on_list_gone};

/* ---- what is asked ---- */

static enum belfry_err bad_token(struct kube_status *status, const char *why)
{
    kube_status_set(status, KUBE_BAD_REQUEST, "continue key is not valid: %s", why);
    return BELFRY_ERR_INVALID;
}

static enum belfry_err take_token(struct kube_list *list, struct belfry_bytes text, struct kube_status *status)
{
    struct kube_page *page = &list->trip->page;
    struct kube_token token = {0};
    enum belfry_err err = kube_token_read(text, &token);
    if (err == BELFRY_ERR_INVALID)
        err = bad_token(status, "it cannot be read");
    else if (err == BELFRY_OK && !kube_page_skip_to(page, belfry_buf_bytes(&token.start), &err) && err == BELFRY_OK)
        err = bad_token(status, "it does not belong to this list");
    if (err == BELFRY_OK) {
        list->is_continued = token.rev >= 0;
        list->is_fenced = token.rev < 0;
        page->rev = token.rev < 0 ? 0 : token.rev;
        if (token.origin.process == page->origin.process)
            page->origin.past = token.origin.past;
    }
    kube_token_fini(&token);
    return err;
}

static enum belfry_err take_plan(struct kube_list *list, const struct kube_list_ask *ask, struct kube_status *status)
{
    struct kube_page *page = &list->trip->page;
    bool all = ask->plan.limit <= 0 || ask->as != KUBE_PAGE_ITEMS;
    page->limit = all ? SIZE_MAX : (size_t)ask->plan.limit;
    switch (ask->plan.read) {
    case KUBE_READ_ANY:
        page->limit = SIZE_MAX;
        break;
    case KUBE_READ_NOT_OLDER:
        page->floor = ask->plan.rev;
        break;
    case KUBE_READ_LATEST:
        list->is_fenced = true;
        break;
    case KUBE_READ_EXACT:
        page->rev = ask->plan.rev;
        break;
    case KUBE_READ_CONTINUE:
        return take_token(list, ask->continue_token, status);
    }
    return BELFRY_OK;
}

static struct trip *trip_make(struct kube_lists *lists, struct kube_list *list, const struct kube_list_ask *ask)
{
    struct trip *trip = calloc(1, sizeof(*trip));
    if (trip == NULL)
        return NULL;
    trip->lists = lists;
    trip->list = list;
    belfry_list_init(&trip->node);
    trip->page = (struct kube_page){.resource = kube_resource_ref(ask->resource),
                                    .version = ask->version,
                                    .selector = ask->selector == NULL ? NULL : kube_selector_ref(ask->selector),
                                    .view = ask->view,
                                    .include = ask->include,
                                    .as = ask->as,
                                    .gzip = ask->gzip && !ask->head_only && ask->as != KUBE_PAGE_EVENTS,
                                    .origin.process = lists->opts.process};
    return trip;
}

/* Not in any list and not counted yet. */
static struct kube_list *kube_list_make(struct kube_lists *lists, const struct kube_list_ask *ask)
{
    size_t text = ask->who.text.len + ask->name.len;
    struct kube_list *list = calloc(1, sizeof(*list) + text);
    if (list == NULL)
        return NULL;
    char *to = list->text;
    list->lists = lists;
    list->x = ask->x;
    list->done = ask->done;
    list->user = ask->user;
    list->is_watch = ask->as == KUBE_PAGE_EVENTS;
    list->is_verbatim = ask->resource->is_verbatim;
    list->head_sent = list->is_watch;
    list->head_only = ask->head_only;
    list->deadline_ms = ask->deadline_ms > 0 ? ask->deadline_ms : now_of(lists) + KUBE_LIST_MS;
    list->who = identity_pack(&to, &ask->who);
    list->name = belfry_pack(&to, ask->name);
    list->bytes = sizeof(*list) + sizeof(struct trip) + text;
    list->trip = trip_make(lists, list, ask);
    belfry_list_init(&list->node);
    belfry_list_init(&list->turn);
    list->share = exchange_share(ask->x);
    if (list->trip != NULL)
        return list;
    free(list);
    return NULL;
}

static void kube_list_enter(struct kube_list *list)
{
    struct kube_lists *lists = list->lists;
    const struct kube_page *page = &list->trip->page;
    list->bytes += page->key.cap + page->end.cap + page->namespace.cap;
    if (page->selector != NULL)
        list->bytes += kube_selector_bytes(page->selector);
    lists->n_in[LIST_NEW]++;
    kube_lists_count(lists);
    shares_count(list->share, SHARES_LISTS, 0, 1);
    shares_count(list->share, SHARES_LIST_BYTES, 0, list->bytes);
    belfry_list_append(&lists->in[LIST_NEW], &list->node);
    lists->due = belfry_min_time(lists->due, list->deadline_ms);
}

static enum belfry_err prepare(struct kube_list *list, const struct kube_list_ask *ask, struct kube_status *status)
{
    enum belfry_err err = kube_page_aim(&list->trip->page, ask->namespace, ask->name);
    return err != BELFRY_OK ? err : take_plan(list, ask, status);
}

static enum belfry_err kube_list_admit(struct kube_list *list, struct kube_status *status)
{
    struct kube_lists *lists = list->lists;
    if (lists->room->lists > KUBE_LISTS_WAITING || !shares_make_room(list->share, SHARES_LISTS, 0) ||
        !shares_make_room(list->share, SHARES_LIST_BYTES, 0))
        return BELFRY_ERR_LIMIT;
    enum belfry_err err = kube_list_start(list);
    if (err != BELFRY_ERR_AUTH)
        return err;
    set_fence_status(status, err, &list->who);
    return BELFRY_ERR_INVALID;
}

enum belfry_err kube_list_begin(struct kube_lists *lists, const struct kube_list_ask *ask, struct kube_list **out,
                                struct kube_status *status)
{
    BELFRY_OWNER_CHECK(lists);
    struct kube_list *list = kube_list_make(lists, ask);
    if (list == NULL)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = prepare(list, ask, status);
    kube_list_enter(list);
    if (err == BELFRY_OK)
        err = kube_list_admit(list, status);
    if (err != BELFRY_OK) {
        kube_list_free(list);
        return err;
    }
    lists->stats.lists += ask->as != KUBE_PAGE_OBJECT;
    lists->stats.gets += ask->as == KUBE_PAGE_OBJECT;
    exchange_handle(ask->x, &list_events, list);
    *out = list;
    return BELFRY_OK;
}

bool kube_list_end_line(struct kube_list *list)
{
    assert(list->is_watch);
    if (!list->in_line)
        return true;
    struct belfry_bytes text = belfry_buf_bytes(&list->trip->page.text); /* a line lies within one page */
    const char *end = memchr(text.data, '\n', text.len);
    assert(end != NULL);
    size_t n = (size_t)(end - text.data) + 1;
    if (n > EXCHANGE_ROOM)
        return false;
    kube_list_write_part(list, n);
    return true;
}

void kube_list_cancel(struct kube_list *list)
{
    assert(list->is_watch);
    kube_list_free(list);
}

/* ---- all of them ---- */

static uint64_t kube_list_due(const struct kube_list *list)
{
    if (list->state == LIST_PAUSED)
        return belfry_min_time(list->again_ms, list->deadline_ms);
    if (list->state == LIST_WRITING && is_in_the_way(list))
        return belfry_min_time(stalled_at(list), list->deadline_ms);
    return list->deadline_ms;
}

/* Its time has come. */
static void kube_list_time_has_come(struct kube_list *list, uint64_t now)
{
    if (now >= list->deadline_ms) {
        fail_deadline(list);
    } else if (list->state == LIST_WRITING) {
        fail_stalled(list);
    } else {
        list->lists->due = belfry_min_time(list->lists->due, list->deadline_ms);
        kube_list_move_to(list, LIST_QUEUED);
        kube_list_go_on(list);
    }
}

/* Handling one list may end others and make new ones due, so the loop starts at the head of the list each time. */
static void kube_lists_visit_due(struct kube_lists *lists, enum list_state state, uint64_t now)
{
    struct belfry_list later;
    belfry_list_init(&later);
    while (!belfry_list_empty(&lists->in[state])) {
        struct kube_list *list = list_of(lists->in[state].next);
        uint64_t due = kube_list_due(list);
        if (due <= now) {
            kube_list_time_has_come(list, now);
            continue;
        }
        lists->due = belfry_min_time(lists->due, due);
        belfry_list_remove(&list->node);
        belfry_list_append(&later, &list->node);
    }
    belfry_list_move_all(&lists->in[state], &later);
}

static void kube_lists_admit(struct kube_lists *lists)
{
    for (struct kube_list *list; (list = next_in_turn(lists)) != NULL;)
        kube_list_take_place(list);
    kube_lists_note_stalled(lists);
}

/* When a list is due. Lists of other resources may wait for its place. */
static uint64_t kube_lists_next(const struct kube_lists *lists)
{
    if (belfry_list_empty(&lists->in[LIST_WRITING]))
        return lists->due;
    const struct kube_list *first = list_of(lists->in[LIST_WRITING].next);
    return is_in_the_way(first) ? belfry_min_time(lists->due, stalled_at(first)) : lists->due;
}

void kube_lists_tick(struct kube_lists *lists, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(lists);
    if (now_ms >= kube_lists_next(lists)) {
        lists->due = BELFRY_NEVER;
        for (enum list_state state = LIST_FENCING; state < N_STATES; state++)
            kube_lists_visit_due(lists, state, now_ms);
    }
    kube_lists_admit(lists);
}

uint64_t kube_lists_due(const struct kube_lists *lists)
{
    return next_in_turn(lists) != NULL ? 0 : kube_lists_next(lists);
}

enum belfry_err kube_lists_create(const struct kube_lists_opts *opts, struct kube_lists **out)
{
    struct kube_lists *lists = calloc(1, sizeof(*lists));
    if (lists == NULL)
        return BELFRY_ERR_NOMEM;
    lists->opts = *opts;
    lists->room = opts->room != NULL ? opts->room : &lists->own;
    lists->due = BELFRY_NEVER;
    lists->key = (struct belfry_hash_key){opts->process, belfry_hash_int(opts->process)};
    lanes_init(&lists->lanes, 1);
    for (enum list_state state = 0; state < N_STATES; state++)
        belfry_list_init(&lists->in[state]);
    belfry_list_init(&lists->orphans);
    BELFRY_OWNER_INIT(lists);
    *out = lists;
    return BELFRY_OK;
}

void kube_lists_destroy(struct kube_lists *lists)
{
    if (lists == NULL)
        return;
    BELFRY_OWNER_CHECK(lists);
    static const char why[] = "belfry: stopping; connect anew";
    for (enum list_state state = 0; state < N_STATES; state++) {
        while (!belfry_list_empty(&lists->in[state]))
            fail_unavailable(list_of(lists->in[state].next), why);
    }
    for (struct belfry_list *node; (node = belfry_list_pop(&lists->orphans)) != NULL;)
        belfry_container(node, struct trip, node)->lists = NULL;
    lists->n_orphans = 0;
    kube_lists_count(lists);
    free(lists);
}

void kube_lists_stats(const struct kube_lists *lists, struct kube_lists_stats *out)
{
    *out = lists->stats;
    out->active = lists->n_in[LIST_READING] + lists->n_in[LIST_WRITING];
    out->waiting = n_waiting(lists);
}
