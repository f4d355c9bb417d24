/* src/client/keeper.c */
#include "client/keeper.h"

#include <assert.h>
#include <stdio.h>

#define TTL_MAX_S    INT64_C(9000000000) /* etcd's limit */
#define DRIFT        1000                /* our clock and the server's may differ by one part in this many */
#define TRY_MIN_MS   500                 /* for one renewal: members may be far away */
#define AGAIN_MS     100                 /* after a failed renewal ... */
#define AGAIN_MAX_MS 1000                /* ... growing to this */

static uint64_t ttl_ms(const struct belfry_keeper *k)
{
    return (uint64_t)k->ttl_s * 1000;
}

/* The only place that changes the state. */
static void keeper_move(struct belfry_keeper *k, enum belfry_keeper_state to)
{
    assert(k->state != BELFRY_KEEPER_OVER);
    assert(to != BELFRY_KEEPER_FINDING || k->state == BELFRY_KEEPER_ASKING);
    k->state = to;
}

void belfry_keeper_init(struct belfry_keeper *k, int64_t id, int64_t ttl_s, uint64_t patience_ms, uint64_t seed)
{
    assert(id > 0 && ttl_s >= 1);
    *k = (struct belfry_keeper){.id = id,
                                .patience_ms = patience_ms,
                                .state = BELFRY_KEEPER_ASKING,
                                .ttl_s = ttl_s,
                                .sent_ms = BELFRY_NEVER,
                                .rng.state = seed};
    belfry_backoff_init(&k->backoff, AGAIN_MS, AGAIN_MAX_MS);
}

/* ---- events ---- */

static struct belfry_keeper_step keeper_tell(const struct belfry_keeper *k, enum belfry_lease_kind kind,
                                             uint64_t now_ms)
{
    return (struct belfry_keeper_step){.event = {.kind = kind,
                                                 .id = k->id,
                                                 .ttl_s = k->ttl_s,
                                                 .left_ms = (int64_t)belfry_keeper_left_ms(k, now_ms),
                                                 .why = k->why}};
}

static void keeper_note(struct belfry_keeper *k, const char *why)
{
    snprintf(k->why, sizeof(k->why), "%s", why);
}

static struct belfry_keeper_step keeper_end(struct belfry_keeper *k, enum belfry_err err, const char *why)
{
    bool had = k->state == BELFRY_KEEPER_HELD;
    keeper_note(k, why);
    keeper_move(k, BELFRY_KEEPER_OVER);
    k->sent_ms = BELFRY_NEVER;
    struct belfry_keeper_step step = keeper_tell(k, BELFRY_LEASE_END, 0);
    step.event.err = err;
    if (!had)
        step.event.id = step.event.ttl_s = 0;
    return step;
}

static struct belfry_keeper_step keeper_end_in_time(struct belfry_keeper *k)
{
    static const char sentence[] = "it was not renewed in time and may have expired";
    char why[BELFRY_KEEPER_WHY];
    int room = (int)(sizeof(why) - sizeof(sentence) - 2);
    snprintf(why, sizeof(why), "%s%s%.*s", sentence, k->why[0] != '\0' ? ": " : "", room, k->why);
    return keeper_end(k, BELFRY_ERR_TIMEOUT, why);
}

/* ---- time ---- */

static bool is_late(const struct belfry_keeper *k, uint64_t now_ms)
{
    return k->state == BELFRY_KEEPER_HELD && now_ms >= k->deadline_ms;
}

/* A sixth of the TTL leaves room for several tries between the first third and the end. */
static uint64_t wait_of(const struct belfry_keeper *k, uint64_t now_ms)
{
    if (k->state != BELFRY_KEEPER_HELD)
        return k->patience_ms;
    uint64_t wait = ttl_ms(k) / 6 > TRY_MIN_MS ? ttl_ms(k) / 6 : TRY_MIN_MS;
    wait = belfry_min_time(wait, k->patience_ms);
    return belfry_min_time(wait, k->deadline_ms - now_ms);
}

struct belfry_keeper_step belfry_keeper_turn(struct belfry_keeper *k, uint64_t now_ms)
{
    struct belfry_keeper_step step = {.send = BELFRY_KEEPER_NONE};
    if (k->state == BELFRY_KEEPER_OVER)
        return step;
    if (is_late(k, now_ms))
        return keeper_end_in_time(k);
    if (k->sent_ms != BELFRY_NEVER || now_ms < k->next_ms)
        return step;
    k->sent_ms = now_ms;
    step.send = k->state == BELFRY_KEEPER_ASKING ? BELFRY_KEEPER_GRANT : BELFRY_KEEPER_RENEW;
    step.wait_ms = wait_of(k, now_ms);
    return step;
}

uint64_t belfry_keeper_due(const struct belfry_keeper *k)
{
    uint64_t next = k->sent_ms == BELFRY_NEVER ? k->next_ms : BELFRY_NEVER;
    switch (k->state) {
    case BELFRY_KEEPER_ASKING:
    case BELFRY_KEEPER_FINDING:
        return next;
    case BELFRY_KEEPER_HELD:
        return belfry_min_time(next, k->deadline_ms);
    case BELFRY_KEEPER_OVER:
        break;
    }
    return BELFRY_NEVER;
}

uint64_t belfry_keeper_left_ms(const struct belfry_keeper *k, uint64_t now_ms)
{
    return k->state == BELFRY_KEEPER_HELD && now_ms < k->deadline_ms ? k->deadline_ms - now_ms : 0;
}

/* ---- answers ---- */

/* The server has the lease, and had it at some time after `sent_ms`. */
static struct belfry_keeper_step keeper_hold(struct belfry_keeper *k, int64_t ttl_s, uint64_t sent_ms, uint64_t now_ms)
{
    bool first = k->state != BELFRY_KEEPER_HELD;
    k->ttl_s = ttl_s < TTL_MAX_S ? ttl_s : TTL_MAX_S;
    uint64_t third = ttl_ms(k) / 3;
    k->deadline_ms = sent_ms + ttl_ms(k) - ttl_ms(k) / DRIFT;
    k->next_ms = sent_ms + third - belfry_rng_below(&k->rng, third / 10 + 1);
    belfry_backoff_reset(&k->backoff);
    k->why[0] = '\0';
    keeper_move(k, BELFRY_KEEPER_HELD);
    if (is_late(k, now_ms)) /* the answer was delayed, or we were stopped, longer than the TTL */
        return keeper_end_in_time(k);
    return keeper_tell(k, first ? BELFRY_LEASE_HELD : BELFRY_LEASE_RENEWED, now_ms);
}

static struct belfry_keeper_step keeper_gone(struct belfry_keeper *k)
{
    k->gone = true;
    return keeper_end(k, BELFRY_ERR_NOT_FOUND, "the server no longer has the lease: it expired or was revoked");
}

static struct belfry_keeper_step on_grant(struct belfry_keeper *k, const struct belfry_keeper_answer *answer,
                                          uint64_t sent_ms, uint64_t now_ms)
{
    if (answer->exists) {
        keeper_move(k, BELFRY_KEEPER_FINDING);
        k->next_ms = now_ms;
        return (struct belfry_keeper_step){.send = BELFRY_KEEPER_NONE};
    }
    if (answer->err != BELFRY_OK)
        return keeper_end(k, answer->err, answer->why);
    if (answer->ttl_s < 1)
        return keeper_end(k, BELFRY_ERR_PROTOCOL, "the server granted a lease with a TTL of 0 or less");
    return keeper_hold(k, answer->ttl_s, sent_ms, now_ms);
}

static struct belfry_keeper_step on_renewal(struct belfry_keeper *k, const struct belfry_keeper_answer *answer,
                                            uint64_t sent_ms, uint64_t now_ms)
{
    if (answer->err == BELFRY_OK && answer->ttl_s >= 1)
        return keeper_hold(k, answer->ttl_s, sent_ms, now_ms);
    if (answer->err == BELFRY_OK || answer->err == BELFRY_ERR_NOT_FOUND)
        return keeper_gone(k);
    if (k->state != BELFRY_KEEPER_HELD)
        return keeper_end(k, answer->err, answer->why);
    /* Whether the lease exists is not known. */
    keeper_note(k, answer->why);
    if (is_late(k, now_ms))
        return keeper_end_in_time(k);
    k->next_ms = now_ms + belfry_backoff_next(&k->backoff, &k->rng);
    return keeper_tell(k, BELFRY_LEASE_LATE, now_ms);
}

struct belfry_keeper_step belfry_keeper_answer(struct belfry_keeper *k, const struct belfry_keeper_answer *answer,
                                               uint64_t now_ms)
{
    assert(k->state != BELFRY_KEEPER_OVER && k->sent_ms != BELFRY_NEVER);
    uint64_t sent_ms = k->sent_ms;
    k->sent_ms = BELFRY_NEVER;
    return k->state == BELFRY_KEEPER_ASKING ? on_grant(k, answer, sent_ms, now_ms)
                                            : on_renewal(k, answer, sent_ms, now_ms);
}

bool belfry_keeper_may_exist(const struct belfry_keeper *k)
{
    return !k->gone;
}
