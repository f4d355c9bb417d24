/* src/serve/rights/etcd_fence.c */
#include "serve/rights/etcd_fence.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/owner.h"
#include "base/pack.h"
#include "net/grpc.h"
#include "serve/uplink/unary.h"
#include "wire/binary.h"
#include "wire/rpc.pb-c.h"
#include "wire/scan.h"

#define RANGE_PATH "/etcdserverpb.KV/Range"
#define MESSAGE    32 /* of a RangeRequest, beside its key */

/* What a question to upstream contains. With auth off it is the same for all. */
struct fence_subject {
    const char *field; /* "token" or "authorization", static; NULL: none is sent */
    bool is_user;      /* the secret is the name of a certificate's user */
    enum uplink_caller caller;
    struct belfry_bytes secret, key;
};

/* The waits with one subject: those that the Range under way answers, and those that came after it was sent. */
struct fence_question {
    struct etcd_fence *fence;
    struct belfry_map_node map_node;
    struct belfry_list now, next; /* of fence_wait.node */
    struct unary *unary;          /* NULL: it waits to be vouched for */
    struct vouch_wait wait;       /* this and the next: for a certificate's user */
    uint64_t revision;
    struct fence_subject subject; /* points behind this */
    size_t bytes;                 /* of it */
    char text[];
};

struct etcd_wait {
    struct fence_wait base; /* first */
    struct etcd_fence *fence;
    struct fence_question *question; /* NULL: it is being answered */
    struct belfry_list order;        /* of all, as they were asked */
    struct belfry_list node;
    uint64_t due_ms;
    fence_fn fn;
    void *user;
};

struct etcd_fence {
    struct fence base; /* first */
    /* fixed at creation */
    struct etcd_fence_opts opts;
    struct belfry_hash_key hash_key;
    /* owner */
    uv_timer_t timer; /* until the first of `order` is due */
    bool destroyed;
    struct belfry_list order;
    struct belfry_map questions;
    size_t n_waits, bytes;
    struct fence_stats stats;
    BELFRY_OWNER;
};

static enum belfry_err fence_question_send(struct fence_question *question);
static void on_fence_vouched(struct vouch_wait *wait);

/* ---- waits ---- */

static struct etcd_wait *fence_wait_of(struct belfry_list *node)
{
    return belfry_container(node, struct etcd_wait, node);
}

static void fence_wait_free(struct etcd_wait *wait)
{
    belfry_list_remove(&wait->order);
    belfry_list_remove(&wait->node);
    wait->fence->n_waits--;
    free(wait);
}

static void fence_wait_answer(struct etcd_wait *wait, enum belfry_err err, int64_t rev)
{
    fence_fn fn = wait->fn;
    void *user = wait->user;
    wait->fence->stats.failed += err != BELFRY_OK;
    fence_wait_free(wait);
    fn(err, rev, user);
}

/* An answer may cancel other waits, or destroy the fence: both remove them from the list. */
static void fence_answer_all(struct belfry_list *waits, enum belfry_err err, int64_t rev)
{
    while (!belfry_list_empty(waits))
        fence_wait_answer(fence_wait_of(waits->next), err, rev);
}

/* ---- questions ---- */

static uint64_t fence_subject_hash(const struct etcd_fence *fence, const struct fence_subject *subject)
{
    uint64_t hash = belfry_hash(fence->hash_key, subject->secret);
    return belfry_hash_int(hash + 4 * (uint64_t)subject->caller + 2 * subject->is_user + (subject->field != NULL)) ^
           belfry_hash(fence->hash_key, subject->key);
}

static bool fence_subject_equal(const struct fence_subject *a, const struct fence_subject *b)
{
    return a->field == b->field && a->is_user == b->is_user && a->caller == b->caller &&
           belfry_bytes_equal(a->secret, b->secret) && belfry_bytes_equal(a->key, b->key);
}

static struct fence_question *fence_question_find(const struct etcd_fence *fence, uint64_t hash,
                                                  const struct fence_subject *subject)
{
    struct belfry_map_node *node = belfry_map_first(&fence->questions, hash);
    for (; node != NULL; node = belfry_map_next(node)) {
        struct fence_question *question = belfry_container(node, struct fence_question, map_node);
        if (fence_subject_equal(&question->subject, subject))
            return question;
    }
    return NULL;
}

static void fence_question_free(struct fence_question *question)
{
    unary_cancel(question->unary);
    vouch_wait_end(&question->wait);
    explicit_bzero(question->text, question->bytes - sizeof(*question));
    free(question);
}

static void fence_question_drop(struct fence_question *question)
{
    belfry_map_remove(&question->fence->questions, &question->map_node);
    question->fence->bytes -= question->bytes;
    fence_question_free(question);
}

static enum belfry_err fence_question_create(struct etcd_fence *fence, uint64_t hash,
                                             const struct fence_subject *subject, struct fence_question **out)
{
    size_t bytes = sizeof(struct fence_question) + subject->secret.len + subject->key.len;
    if (bytes > FENCE_BYTES - fence->bytes)
        return BELFRY_ERR_LIMIT;
    struct fence_question *question = malloc(bytes);
    if (question == NULL)
        return BELFRY_ERR_NOMEM;
    char *to = question->text;
    *question = (struct fence_question){.fence = fence, .subject = *subject, .bytes = bytes};
    question->subject.secret = belfry_pack(&to, subject->secret);
    question->subject.key = belfry_pack(&to, subject->key);
    belfry_list_init(&question->now);
    belfry_list_init(&question->next);
    vouch_wait_init(&question->wait, on_fence_vouched);
    enum belfry_err err = fence_question_send(question);
    if (err != BELFRY_OK) {
        fence_question_free(question);
        return err;
    }
    belfry_map_add(&fence->questions, hash, &question->map_node);
    fence->bytes += bytes;
    *out = question;
    return BELFRY_OK;
}

/* The Range under way is over: sends the next one for waits that came after it, or drops the question if there are
 * none. Without memory the waits go into `failed`. */
static void fence_question_next(struct fence_question *question, struct belfry_list *failed)
{
    belfry_list_move_all(&question->now, &question->next);
    if (belfry_list_empty(&question->now)) {
        fence_question_drop(question);
    } else if (fence_question_send(question) != BELFRY_OK) {
        belfry_list_each (node, &question->now)
            fence_wait_of(node)->question = NULL;
        belfry_list_move_all(failed, &question->now);
        fence_question_drop(question);
    }
}

/* ---- Range ---- */

static enum belfry_err fence_judge(const struct unary_answer *with, int64_t *rev)
{
    struct belfry_wire_header header;
    switch (with->code) {
    case BELFRY_GRPC_OK:
        if (with->body.data == NULL || belfry_scan_response_header(with->body, &header) != BELFRY_OK)
            return BELFRY_ERR_UNAVAILABLE;
        *rev = header.revision;
        return header.revision > 0 ? BELFRY_OK : BELFRY_ERR_UNAVAILABLE;
    case BELFRY_GRPC_PERMISSION_DENIED:
        return BELFRY_ERR_DENIED;
    case BELFRY_GRPC_UNAUTHENTICATED:
    case BELFRY_GRPC_INVALID_ARGUMENT: /* "user name is empty", "revision of auth store is old" */
        return BELFRY_ERR_AUTH;
    case BELFRY_GRPC_DEADLINE_EXCEEDED:
        return BELFRY_ERR_TIMEOUT;
    default:
        return BELFRY_ERR_UNAVAILABLE;
    }
}

/* Answers the waits of the Range that is over, and goes on with the next. */
static void fence_question_answer(struct fence_question *question, enum belfry_err err, int64_t rev)
{
    struct belfry_list answered, failed;
    belfry_list_init(&answered);
    belfry_list_init(&failed);
    belfry_list_each (node, &question->now)
        fence_wait_of(node)->question = NULL;
    belfry_list_move_all(&answered, &question->now);
    fence_question_next(question, &failed);
    fence_answer_all(&answered, err, rev);
    fence_answer_all(&failed, BELFRY_ERR_UNAVAILABLE, 0);
}

static void on_fence_range(const struct unary_answer *with, void *user)
{
    struct fence_question *question = user;
    int64_t rev = 0;
    enum belfry_err err = fence_judge(with, &rev);
    question->unary = NULL;
    if (question->subject.is_user && strcmp(with->message, VOUCH_OLD) == 0) {
        vouch_outdate(question->fence->opts.vouch, question->revision);
        err = fence_question_send(question);
        if (err == BELFRY_OK)
            return;
    }
    fence_question_answer(question, err, rev);
}

static void on_fence_vouched(struct vouch_wait *wait)
{
    struct fence_question *question = belfry_container(wait, struct fence_question, wait);
    enum belfry_err err = fence_question_send(question);
    if (err != BELFRY_OK)
        fence_question_answer(question, err, 0);
}

static enum belfry_err fence_question_send_with(struct fence_question *question, const struct belfry_http_field *field)
{
    const struct fence_subject *subject = &question->subject;
    uint8_t *message = malloc(subject->key.len + MESSAGE);
    if (message == NULL)
        return BELFRY_ERR_NOMEM;
    Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
    request.key = belfry_binary(subject->key.len > 0 ? subject->key : belfry_bytes_of("", 1));
    request.count_only = true; /* and linearizable */
    struct unary_opts opts = {.uplink = question->fence->opts.uplink,
                              .path = RANGE_PATH,
                              .timeout_ms = FENCE_TIMEOUT_MS,
                              .fields = field,
                              .n_fields = field != NULL,
                              .caller = subject->caller,
                              .message = belfry_bytes_of(message, etcdserverpb__range_request__pack(&request, message)),
                              .fn = on_fence_range,
                              .user = question};
    enum belfry_err err = unary_open(&opts, &question->unary);
    free(message);
    question->fence->stats.questions += err == BELFRY_OK;
    return err == BELFRY_ERR_INVALID ? BELFRY_ERR_AUTH : err;
}

/* The question may wait after this. */
static enum belfry_err fence_question_send(struct fence_question *question)
{
    const struct fence_subject *subject = &question->subject;
    struct voucher voucher;
    if (!subject->is_user) {
        const char *name = subject->field != NULL ? subject->field : "";
        struct belfry_http_field field = {belfry_bytes_str(name), subject->secret};
        return fence_question_send_with(question, subject->field != NULL ? &field : NULL);
    }
    switch (vouch_ask(question->fence->opts.vouch, subject->secret, &question->wait, &voucher)) {
    case VOUCH_GIVEN:
        question->revision = voucher.revision;
        return fence_question_send_with(question, &voucher.field);
    case VOUCH_LATER:
        return BELFRY_OK;
    case VOUCH_REFUSED:
        return BELFRY_ERR_AUTH;
    case VOUCH_UNAVAILABLE:
        break;
    }
    return BELFRY_ERR_UNAVAILABLE;
}

/* ---- time ---- */

static void fence_arm_timer(struct etcd_fence *fence);

/* Removes a wait from its question. A Range without waits is cancelled, and the next one is sent immediately if waits
 * came after it. */
static void fence_wait_leave(struct etcd_wait *wait, struct belfry_list *failed)
{
    struct fence_question *question = wait->question;
    if (question == NULL)
        return;
    wait->question = NULL;
    belfry_list_remove(&wait->node);
    if (!belfry_list_empty(&question->now))
        return;
    unary_cancel(question->unary);
    question->unary = NULL;
    vouch_wait_end(&question->wait);
    fence_question_next(question, failed);
}

static void on_fence_timer(uv_timer_t *timer)
{
    struct etcd_fence *fence = timer->data;
    uint64_t now = belfry_clock_ms();
    struct belfry_list failed;
    belfry_list_init(&failed);
    while (!belfry_list_empty(&fence->order)) {
        struct etcd_wait *wait = belfry_container(fence->order.next, struct etcd_wait, order);
        if (now < wait->due_ms)
            break;
        fence_wait_leave(wait, &failed);
        fence_wait_answer(wait, BELFRY_ERR_TIMEOUT, 0);
    }
    fence_answer_all(&failed, BELFRY_ERR_UNAVAILABLE, 0);
    fence_arm_timer(fence);
}

/* All wait equally long, so the first in order is the first due. The timer is not moved when a wait is answered
 * early. */
static void fence_arm_timer(struct etcd_fence *fence)
{
    if (fence->destroyed || belfry_list_empty(&fence->order) || uv_is_active((uv_handle_t *)&fence->timer))
        return;
    uint64_t now = belfry_clock_ms();
    uint64_t due = belfry_container(fence->order.next, struct etcd_wait, order)->due_ms;
    uv_update_time(fence->timer.loop);
    uv_timer_start(&fence->timer, on_fence_timer, due > now ? due - now : 0, 0);
}

/* ---- interface ---- */

static void on_fence_timer_closed(uv_handle_t *timer)
{
    free(timer->data);
}

static void etcd_fence_destroy(struct fence *base)
{
    struct etcd_fence *fence = (struct etcd_fence *)base;
    BELFRY_OWNER_CHECK(fence);
    fence->destroyed = true;
    while (!belfry_list_empty(&fence->order))
        fence_wait_free(belfry_container(fence->order.next, struct etcd_wait, order));
    for (struct belfry_map_node *node; (node = belfry_map_drain(&fence->questions)) != NULL;)
        fence_question_free(belfry_container(node, struct fence_question, map_node));
    belfry_map_fini(&fence->questions);
    uv_close((uv_handle_t *)&fence->timer, on_fence_timer_closed);
}

static struct fence_subject fence_subject_of(const struct etcd_fence *fence, const struct identity *who,
                                             struct belfry_bytes key, uint64_t now)
{
    if (fence->opts.permit != NULL && permit_is_open(fence->opts.permit, now))
        return (struct fence_subject){0};
    if (who->kind == IDENTITY_TOKEN)
        return (struct fence_subject){.field = identity_field_name(who), .secret = who->text, .key = key};
    bool is_open = who->rights == LISTEN_RIGHTS_OPEN;
    if (who->kind == IDENTITY_CERT && !is_open)
        return (struct fence_subject){.is_user = true, .secret = who->text, .key = key};
    return (struct fence_subject){.caller = is_open ? UPLINK_CALLER_ANYONE : UPLINK_CALLER_CLIENT, .key = key};
}

/* Finds the list for a new wait: of an existing question, after its Range under way, or of a new question. */
static enum belfry_err fence_place(struct etcd_fence *fence, const struct fence_subject *subject,
                                   struct fence_question **question, struct belfry_list **list)
{
    uint64_t hash = fence_subject_hash(fence, subject);
    *question = fence_question_find(fence, hash, subject);
    if (*question != NULL) {
        *list = &(*question)->next;
        return BELFRY_OK;
    }
    enum belfry_err err = fence_question_create(fence, hash, subject, question);
    if (err == BELFRY_OK)
        *list = &(*question)->now;
    return err;
}

static enum belfry_err etcd_fence_ask(struct fence *base, const struct identity *who, struct belfry_bytes key,
                                      fence_fn fn, void *user, struct fence_wait **out)
{
    struct etcd_fence *fence = (struct etcd_fence *)base;
    BELFRY_OWNER_CHECK(fence);
    if (fence->n_waits >= FENCE_WAITING)
        return BELFRY_ERR_LIMIT;
    struct etcd_wait *wait = calloc(1, sizeof(*wait));
    if (wait == NULL)
        return BELFRY_ERR_NOMEM;
    uint64_t now = belfry_clock_ms();
    struct fence_subject subject = fence_subject_of(fence, who, key, now);
    struct belfry_list *list = NULL;
    enum belfry_err err = fence_place(fence, &subject, &wait->question, &list);
    if (err != BELFRY_OK) {
        free(wait);
        return err;
    }
    wait->base.api = base->api;
    wait->fence = fence;
    wait->due_ms = now + FENCE_TIMEOUT_MS;
    wait->fn = fn;
    wait->user = user;
    belfry_list_append(list, &wait->node);
    belfry_list_append(&fence->order, &wait->order);
    fence->n_waits++;
    fence->stats.asked++;
    fence_arm_timer(fence);
    *out = &wait->base;
    return BELFRY_OK;
}

static void etcd_fence_cancel(struct fence_wait *base)
{
    struct etcd_wait *wait = (struct etcd_wait *)base;
    struct fence_question *question = wait->question;
    fence_wait_free(wait);
    if (question != NULL && belfry_list_empty(&question->now) && belfry_list_empty(&question->next))
        fence_question_drop(question);
}

static void etcd_fence_stats(const struct fence *base, struct fence_stats *out)
{
    *out = ((const struct etcd_fence *)base)->stats;
}

static const struct fence_api etcd_fence_api = {
    .ask = etcd_fence_ask, .cancel = etcd_fence_cancel, .stats = etcd_fence_stats, .destroy = etcd_fence_destroy};

enum belfry_err etcd_fence_create(const struct etcd_fence_opts *opts, struct fence **out)
{
    struct etcd_fence *fence = calloc(1, sizeof(*fence));
    if (fence == NULL)
        return BELFRY_ERR_NOMEM;
    fence->base.api = &etcd_fence_api;
    fence->opts = *opts;
    fence->hash_key = belfry_hash_key_draw();
    belfry_list_init(&fence->order);
    belfry_map_init(&fence->questions);
    uv_timer_init(opts->loop, &fence->timer);
    fence->timer.data = fence;
    BELFRY_OWNER_INIT(fence);
    *out = &fence->base;
    return BELFRY_OK;
}
