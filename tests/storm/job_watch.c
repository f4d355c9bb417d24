/* tests/storm/job_watch.c: users that watch (user.h): for long, and often. */
#include <stdlib.h>

#include "base/clock.h"
#include "storm/messages.h"
#include "storm/reading.h"
#include "storm/user.h"
#include "storm/verdict.h"
#include "wire/write.h"

#define WATCH       "/etcdserverpb.Watch/Watch"
#define MINUTE_MS   60000
#define HOUR_MS     (60 * (uint64_t)MINUTE_MS)
#define PROGRESS_MS (10 * (uint64_t)MINUTE_MS)
#define ANSWER_MS   5000

static struct belfry_wire_create create_of(const char *key, const char *end, int64_t start_rev)
{
    return (struct belfry_wire_create){.key = belfry_bytes_str(key),
                                       .range_end = belfry_bytes_str(end),
                                       .start_revision = start_rev,
                                       .progress_notify = true};
}

/* ---- one watch for long ---- */

struct watch_state {
    struct reading reading;
    uint64_t asked_ms; /* for progress; 0: not */
    int64_t head;      /* of the feed, at its last act */
};

static void watch_arrive(struct user *user)
{
    struct watch_state *state = user->state;
    struct belfry_wire_create create = create_of(FEED_PREFIX, FEED_END, state->reading.next_rev);
    struct belfry_buf message;
    belfry_buf_init(&message);
    verdict_must(belfry_write_watch_create(&message, &create) == BELFRY_OK, "a request");
    state->reading.who = user->peer.who;
    state->reading.is_created = false;
    state->head = 0;
    state->asked_ms = 0;
    user_call(user, WATCH, 0, belfry_buf_bytes(&message), USER_GOES_ON);
    belfry_buf_fini(&message);
    user->next_ms = belfry_clock_ms() + ANSWER_MS;
    user->tally->watches++;
}

static void watch_act(struct user *user)
{
    struct watch_state *state = user->state;
    struct belfry_buf message;
    if (!state->reading.is_created)
        verdict_fail("%s: a watch is not created after %d ms", user->peer.who, ANSWER_MS);
    if (state->asked_ms != 0)
        verdict_fail("%s: no progress since it was asked for", user->peer.who);
    if (!reading_is_whole(&state->reading, state->head))
        verdict_fail("%s: events up to %lld are missing", user->peer.who, (long long)state->head);
    state->head = feed_head();
    user->next_ms = belfry_clock_ms() + user_some_ms(user, PROGRESS_MS);
    if (user->peer.habit->measures != HABIT_MEASURE_GO) /* other libraries do not ask */
        return;
    belfry_buf_init(&message);
    verdict_must(belfry_write_watch_progress(&message) == BELFRY_OK, "a request");
    user_message(user, peer_find(&user->peer, 0), belfry_buf_bytes(&message));
    belfry_buf_fini(&message);
    state->asked_ms = belfry_clock_ms();
}

static void watch_data(struct user *user, struct peer_call *call)
{
    struct watch_state *state = user->state;
    struct belfry_wire_watch head;
    struct belfry_bytes message;
    for (; messages_first(&call->in, &message); messages_drop(&call->in, message)) {
        uint64_t before = state->reading.events;
        reading_take(&state->reading, message, &head);
        if (head.canceled)
            verdict_fail("%s: canceled: %.*s", user->peer.who, (int)head.cancel_reason.len, head.cancel_reason.data);
        user->tally->events += state->reading.events - before;
        if (head.n_events > 0 || head.created)
            continue;
        state->asked_ms = 0;
        user->tally->progress++;
    }
}

const struct user_job job_watch = {.name = "watch",
                                   .bytes = sizeof(struct watch_state),
                                   .stays_ms = 3 * HOUR_MS,
                                   .away_ms = MINUTE_MS,
                                   .arrive = watch_arrive,
                                   .act = watch_act,
                                   .data = watch_data,
                                   .end = user_end_never};

/* ---- watches that come and go ---- */

#define CHURN_MAX   300
#define CHURN_BURST 250
#define CHURN_FEW   12
#define CHURN_MS    4000

/* Watches that are there. etcd answers creates in their order. */
struct churn_state {
    int64_t ids[CHURN_MAX];
    size_t n, n_creating, n_canceling;
    uint64_t asked_ms; /* when the last create or cancel was sent */
};

static void churn_send(struct user *user, struct belfry_buf *message)
{
    struct churn_state *state = user->state;
    struct peer_call *call = peer_find(&user->peer, 0);
    if (call == NULL)
        user_call(user, WATCH, 0, belfry_buf_bytes(message), USER_GOES_ON);
    else
        user_message(user, call, belfry_buf_bytes(message));
    belfry_buf_fini(message);
    state->asked_ms = belfry_clock_ms();
}

static void churn_create(struct user *user)
{
    struct churn_state *state = user->state;
    struct belfry_buf message;
    char key[64];
    feed_key(choose(user->choices, FEED_CRD), key, sizeof(key));
    struct belfry_wire_create one = create_of(key, "", 0), all = create_of("/b/", "/b0", 0);
    belfry_buf_init(&message);
    verdict_must(belfry_write_watch_create(&message, choose_rarely(user->choices, 4) ? &all : &one) == BELFRY_OK,
                 "a request");
    churn_send(user, &message);
    state->n_creating++;
    user->tally->watches++;
}

static void churn_cancel(struct user *user)
{
    struct churn_state *state = user->state;
    struct belfry_buf message;
    size_t at = choose(user->choices, (uint32_t)state->n);
    belfry_buf_init(&message);
    verdict_must(belfry_write_watch_cancel(&message, state->ids[at]) == BELFRY_OK, "a request");
    state->ids[at] = state->ids[--state->n];
    churn_send(user, &message);
    state->n_canceling++;
}

static void churn_arrive(struct user *user)
{
    struct churn_state *state = user->state;
    *state = (struct churn_state){0};
    churn_create(user);
    user->next_ms = belfry_clock_ms() + user_some_ms(user, CHURN_MS);
}

/* Few watches, and now and then hundreds, which go again together. */
static void churn_act(struct user *user)
{
    struct churn_state *state = user->state;
    uint64_t now_ms = belfry_clock_ms();
    if (state->n_creating + state->n_canceling > 0 && now_ms > state->asked_ms + ANSWER_MS)
        verdict_fail("%s: %zu creates and %zu cancels have no answer", user->peer.who, state->n_creating,
                     state->n_canceling);
    if (state->n > CHURN_FEW) {
        while (state->n > 1)
            churn_cancel(user);
    } else if (choose_rarely(user->choices, 300)) {
        for (size_t i = 0; i < CHURN_BURST; i++)
            churn_create(user);
    } else if (state->n > 1 && choose(user->choices, 2) == 0) {
        churn_cancel(user);
    } else {
        churn_create(user);
    }
    user->next_ms = now_ms + user_some_ms(user, CHURN_MS);
}

static void churn_take(struct user *user, const struct belfry_wire_watch *head)
{
    struct churn_state *state = user->state;
    bool is_asked = head->created ? state->n_creating > 0 : state->n_canceling > 0;
    if ((head->created && head->canceled) || ((head->created || head->canceled) && !is_asked))
        verdict_fail("%s: watch %lld is %s: %.*s", user->peer.who, (long long)head->watch_id,
                     head->canceled ? "canceled" : "created", (int)head->cancel_reason.len, head->cancel_reason.data);
    if (head->created) {
        verdict_must(state->n < CHURN_MAX, "a place for a watch");
        state->ids[state->n++] = head->watch_id;
        state->n_creating--;
    } else if (head->canceled) {
        state->n_canceling--;
    }
    user->tally->events += head->n_events;
}

static void churn_data(struct user *user, struct peer_call *call)
{
    struct belfry_wire_watch head;
    struct belfry_bytes message;
    for (; messages_first(&call->in, &message); messages_drop(&call->in, message)) {
        if (belfry_scan_watch(message, &head) != BELFRY_OK)
            verdict_fail("%s: a response that cannot be read", user->peer.who);
        churn_take(user, &head);
    }
}

const struct user_job job_churn = {.name = "churn",
                                   .bytes = sizeof(struct churn_state),
                                   .sleeps = true,
                                   .stays_ms = 2 * HOUR_MS,
                                   .away_ms = 5 * MINUTE_MS,
                                   .arrive = churn_arrive,
                                   .act = churn_act,
                                   .data = churn_data,
                                   .end = user_end_never};
