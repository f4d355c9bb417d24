/* src/daemon/resource_fence.c */
#include "daemon/resource_fence.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/owner.h"

struct resource_wait {
    struct fence_wait base; /* first */
    struct belfry_list node;
    struct resource_fence *fence;
    uint64_t due_ms;
    fence_fn fn;
    void *user;
};

struct resource_fence {
    struct fence base; /* first */
    /* fixed at creation */
    struct resource_fence_opts opts;
    /* worker */
    uv_timer_t timer;             /* until the first wait is due */
    struct belfry_list now, next; /* waits of the question that is away; those that came later */
    struct belfry_list answered;  /* those that are being told */
    size_t n_waits;
    bool is_away, is_destroyed;
    struct fence_stats stats;
    /* of whoever has the mail */
    struct mail mail;
    struct resource_proof proof;
    int64_t rv; /* the answer */
    /* any: the worker's own, and one while the mail is away */
    _Atomic unsigned refs;
    BELFRY_OWNER;
};

static void fence_send(struct resource_fence *fence);

static void fence_unref(struct resource_fence *fence)
{
    if (atomic_fetch_sub_explicit(&fence->refs, 1, memory_order_acq_rel) == 1)
        free(fence);
}

/* ---- waits ---- */

static struct resource_wait *wait_of(struct belfry_list *node)
{
    return belfry_container(node, struct resource_wait, node);
}

static void wait_free(struct resource_wait *wait)
{
    belfry_list_remove(&wait->node);
    wait->fence->n_waits--;
    free(wait);
}

static void wait_answer(struct resource_wait *wait, enum belfry_err err, int64_t rv)
{
    fence_fn fn = wait->fn;
    void *user = wait->user;
    wait->fence->stats.failed += err != BELFRY_OK;
    wait_free(wait);
    fn(err, rv, user);
}

static void fence_arm(struct resource_fence *fence);

static void on_fence_timer(uv_timer_t *timer)
{
    struct resource_fence *fence = timer->data;
    uint64_t now = belfry_clock_ms();
    struct belfry_list *lists[] = {&fence->now, &fence->next};
    for (size_t i = 0; i < 2; i++)
        while (!belfry_list_empty(lists[i]) && wait_of(lists[i]->next)->due_ms <= now)
            wait_answer(wait_of(lists[i]->next), BELFRY_ERR_TIMEOUT, 0);
    fence_arm(fence);
}

/* All wait equally long, so the first of those that came first is the first due. */
static void fence_arm(struct resource_fence *fence)
{
    struct belfry_list *first = !belfry_list_empty(&fence->now) ? fence->now.next : fence->next.next;
    if (fence->is_destroyed || first == &fence->next || uv_is_active((uv_handle_t *)&fence->timer))
        return;
    uint64_t now = belfry_clock_ms(), due = wait_of(first)->due_ms;
    uv_update_time(fence->timer.loop);
    uv_timer_start(&fence->timer, on_fence_timer, due > now ? due - now : 0, 0);
}

/* ---- the question ---- */

/* On the worker's thread; owner NULL: it has ended. */
static void open_answer(struct mail *mail, void *owner)
{
    struct resource_fence *fence = belfry_container(mail, struct resource_fence, mail);
    if (owner == NULL || fence->is_destroyed) {
        fence_unref(fence);
        return;
    }
    int64_t rv = fence->rv;
    fence->is_away = false;
    belfry_list_move_all(&fence->answered, &fence->now);
    belfry_list_move_all(&fence->now, &fence->next);
    fence_send(fence);
    /* an answer may cancel other waits or destroy the fence: both take them from the list */
    while (!belfry_list_empty(&fence->answered))
        wait_answer(wait_of(fence->answered.next), rv != 0 ? BELFRY_OK : BELFRY_ERR_UNAVAILABLE, rv);
    fence_unref(fence);
}

/* On ingest's. */
static void on_fence_proven(struct resource_proof *proof, int64_t rv)
{
    struct resource_fence *fence = belfry_container(proof, struct resource_fence, proof);
    fence->rv = rv;
    fence->mail.open = open_answer;
    fence->opts.to_worker(&fence->mail, fence->opts.user);
}

/* On ingest's; owner NULL: it has ended, as the worker will. */
static void open_question(struct mail *mail, void *owner)
{
    struct resource_fence *fence = belfry_container(mail, struct resource_fence, mail);
    fence->proof.fn = on_fence_proven;
    if (owner == NULL)
        fence_unref(fence);
    else if (!fence->opts.prove(owner, fence->opts.number, &fence->proof))
        on_fence_proven(&fence->proof, 0);
}

/* For those in `now`, if there are any. */
static void fence_send(struct resource_fence *fence)
{
    if (fence->is_away || belfry_list_empty(&fence->now))
        return;
    fence->is_away = true;
    fence->proof.n = 0;
    belfry_list_each (node, &fence->now)
        fence->proof.n++;
    fence->stats.questions++;
    fence->mail.open = open_question;
    atomic_fetch_add_explicit(&fence->refs, 1, memory_order_relaxed);
    fence->opts.to_ingest(&fence->mail, fence->opts.user);
}

/* ---- interface ---- */

static enum belfry_err resource_fence_ask(struct fence *base, const struct identity *who, struct belfry_bytes key,
                                          fence_fn fn, void *user, struct fence_wait **out)
{
    struct resource_fence *fence = (struct resource_fence *)base;
    BELFRY_OWNER_CHECK(fence);
    (void)who;
    (void)key;
    if (fence->n_waits >= FENCE_WAITING)
        return BELFRY_ERR_LIMIT;
    struct resource_wait *wait = malloc(sizeof(*wait));
    if (wait == NULL)
        return BELFRY_ERR_NOMEM;
    *wait = (struct resource_wait){
        .base.api = base->api, .fence = fence, .due_ms = belfry_clock_ms() + RESOURCE_FENCE_MS, .fn = fn, .user = user};
    belfry_list_append(fence->is_away ? &fence->next : &fence->now, &wait->node);
    fence->n_waits++;
    fence->stats.asked++;
    fence_send(fence);
    fence_arm(fence);
    *out = &wait->base;
    return BELFRY_OK;
}

static void resource_fence_cancel(struct fence_wait *wait)
{
    wait_free((struct resource_wait *)wait);
}

static void resource_fence_stats(const struct fence *base, struct fence_stats *out)
{
    *out = ((const struct resource_fence *)base)->stats;
}

static void on_fence_timer_closed(uv_handle_t *timer)
{
    fence_unref(timer->data);
}

static void drop_waits(struct belfry_list *waits)
{
    while (!belfry_list_empty(waits))
        wait_free(wait_of(waits->next));
}

static void resource_fence_destroy(struct fence *base)
{
    struct resource_fence *fence = (struct resource_fence *)base;
    BELFRY_OWNER_CHECK(fence);
    fence->is_destroyed = true;
    drop_waits(&fence->now);
    drop_waits(&fence->next);
    drop_waits(&fence->answered);
    uv_close((uv_handle_t *)&fence->timer, on_fence_timer_closed);
}

static const struct fence_api resource_fence_api = {.ask = resource_fence_ask,
                                                    .cancel = resource_fence_cancel,
                                                    .stats = resource_fence_stats,
                                                    .destroy = resource_fence_destroy};

enum belfry_err resource_fence_create(const struct resource_fence_opts *opts, struct fence **out)
{
    struct resource_fence *fence = calloc(1, sizeof(*fence));
    if (fence == NULL)
        return BELFRY_ERR_NOMEM;
    fence->base.api = &resource_fence_api;
    fence->opts = *opts;
    belfry_list_init(&fence->now);
    belfry_list_init(&fence->next);
    belfry_list_init(&fence->answered);
    atomic_init(&fence->refs, 1);
    uv_timer_init(opts->loop, &fence->timer);
    fence->timer.data = fence;
    BELFRY_OWNER_INIT(fence);
    *out = &fence->base;
    return BELFRY_OK;
}
