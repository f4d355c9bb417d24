/* tests/storm/job_calls.c: users with calls that are relayed (user.h): gets and puts, leases, a get now and then. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "storm/messages.h"
#include "storm/user.h"
#include "storm/verdict.h"
#include "wire/rpc.pb-c.h"

#define RANGE     "/etcdserverpb.KV/Range"
#define PUT       "/etcdserverpb.KV/Put"
#define GRANT     "/etcdserverpb.Lease/LeaseGrant"
#define KEEP      "/etcdserverpb.Lease/LeaseKeepAlive"
#define SECOND_MS 1000
#define MINUTE_MS (60 * (uint64_t)SECOND_MS)
#define HOUR_MS   (60 * MINUTE_MS)

enum call_what { CALL_GET, CALL_GIVEN_UP, CALL_PUT, CALL_SLOW, CALL_GRANT, CALL_KEEP };

static void call_get(struct user *user, enum call_what what)
{
    static const uint8_t range[] = {10, 5, '/', 'a', '/', 'k', '0'};
    user_call(user, RANGE, what, belfry_bytes_of(range, sizeof(range)), USER_ENDS);
}

static void on_unary_end(struct user *user, struct peer_call *call)
{
    user_expect_fine(user, call);
    user->tally->gets += call->what == CALL_GET || call->what == CALL_GIVEN_UP;
    user->tally->puts += call->what == CALL_PUT || call->what == CALL_SLOW;
}

static void on_unary_data(struct user *user, struct peer_call *call)
{
    (void)user;
    belfry_buf_clear(&call->in);
}

/* ---- gets and puts ---- */

#define READ_MS    6000
#define BURST      60
#define SPELL_ACTS 400 /* of a busy time: ten seconds */
#define SPELL_MS   25
#define GIVE_UP_MS 12
#define VALUE_MAX  (64 * 1024)
#define PIECE      8192
#define PIECE_MS   400 /* between two pieces of a put over a slow link */

struct read_state {
    unsigned spell; /* acts that are left of it */
    size_t slow_left;
    uint64_t give_up_ms, piece_ms, act_ms; /* BELFRY_NEVER: nothing to do then */
};

static void read_plan(struct user *user)
{
    struct read_state *state = user->state;
    user->next_ms = belfry_min_time(state->act_ms, belfry_min_time(state->give_up_ms, state->piece_ms));
}

static void read_put(struct user *user, unsigned kind)
{
    static char value[VALUE_MAX];
    static uint8_t packed[VALUE_MAX + 64];
    static uint8_t key[] = "/puts/1";
    Etcdserverpb__PutRequest put = ETCDSERVERPB__PUT_REQUEST__INIT;
    put.key = (ProtobufCBinaryData){sizeof(key) - 1, key};
    put.value = (ProtobufCBinaryData){choose(user->choices, VALUE_MAX), (uint8_t *)value};
    size_t len = etcdserverpb__put_request__pack(&put, packed);
    user_call(user, PUT, kind, belfry_bytes_of(packed, len), USER_ENDS);
}

/* A message of VALUE_MAX bytes, piece by piece. */
static void read_slow_put(struct user *user)
{
    static const uint8_t piece[PIECE]; /* the relay does not read what it passes on */
    struct read_state *state = user->state;
    struct peer_call *call = peer_find(&user->peer, CALL_SLOW);
    if (call == NULL) {
        struct habit_request request = user_request(user, PUT);
        call = peer_call(&user->peer, &request, CALL_SLOW);
        peer_send(&user->peer, call, belfry_bytes_of((const uint8_t[]){0, 0, 1, 0, 0}, MESSAGES_PREFIX), false);
        state->slow_left = VALUE_MAX;
    }
    state->slow_left -= PIECE;
    bool is_last = state->slow_left == 0;
    peer_send(&user->peer, call, belfry_bytes_of(piece, PIECE), is_last);
    call->since_ms = belfry_clock_ms();
    state->piece_ms = is_last ? BELFRY_NEVER : belfry_clock_ms() + PIECE_MS;
    user->is_busy = !is_last;
}

static void read_give_up(struct user *user)
{
    struct read_state *state = user->state;
    for (struct peer_call *call; (call = peer_find(&user->peer, CALL_GIVEN_UP)) != NULL;) {
        peer_cancel(&user->peer, call);
        user->tally->given_up++;
    }
    state->give_up_ms = BELFRY_NEVER;
}

/* Gets, which the tier may answer before, and puts, which it passes on. */
static void read_begin_giving_up(struct user *user, unsigned n)
{
    struct read_state *state = user->state;
    for (; n > 0; n--) {
        if (choose(user->choices, 2) == 0)
            call_get(user, CALL_GIVEN_UP);
        else
            read_put(user, CALL_GIVEN_UP);
    }
    state->give_up_ms = belfry_clock_ms() + choose(user->choices, GIVE_UP_MS);
}

static void read_act_now(struct user *user)
{
    struct read_state *state = user->state;
    uint32_t what = choose(user->choices, 100);
    if (state->spell > 0) {
        state->spell--;
        read_begin_giving_up(user, user->haste);
        call_get(user, CALL_GET);
    } else if (what < 60) {
        call_get(user, CALL_GET);
    } else if (what < 85) {
        read_begin_giving_up(user, 1);
    } else if (what < 97) {
        read_put(user, CALL_PUT);
    } else if (what < 98 && state->piece_ms == BELFRY_NEVER && peer_find(&user->peer, CALL_SLOW) == NULL) {
        read_slow_put(user);
    } else if (what < 99) {
        for (int i = 0; i < BURST / 2; i++)
            call_get(user, CALL_GET);
        read_begin_giving_up(user, BURST / 2);
    } else if (choose_rarely(user->choices, 8)) {
        state->spell = SPELL_ACTS;
    }
    state->act_ms = belfry_clock_ms() + (state->spell > 0 ? SPELL_MS : user_some_ms(user, READ_MS));
}

static void read_act(struct user *user)
{
    struct read_state *state = user->state;
    uint64_t now_ms = belfry_clock_ms();
    user_expect_prompt(user, CALL_GET);
    user_expect_prompt(user, CALL_PUT);
    if (now_ms >= state->give_up_ms)
        read_give_up(user);
    if (now_ms >= state->piece_ms)
        read_slow_put(user);
    if (now_ms >= state->act_ms)
        read_act_now(user);
    read_plan(user);
}

static void read_arrive(struct user *user)
{
    struct read_state *state = user->state;
    *state = (struct read_state){.give_up_ms = BELFRY_NEVER, .piece_ms = BELFRY_NEVER};
    call_get(user, CALL_GET);
    state->act_ms = belfry_clock_ms() + SECOND_MS;
    state->spell = choose_rarely(user->choices, 2) ? SPELL_ACTS : 0; /* a program that begins reads much */
    read_plan(user);
}

const struct user_job job_read = {.name = "read",
                                  .bytes = sizeof(struct read_state),
                                  .sleeps = true,
                                  .stays_ms = HOUR_MS,
                                  .away_ms = 5 * MINUTE_MS,
                                  .arrive = read_arrive,
                                  .act = read_act,
                                  .data = on_unary_data,
                                  .end = on_unary_end};

/* ---- leases ---- */

#define LEASES   3
#define THIRD_MS 10000 /* of the 30 s that etcd.c grants */
#define LEASE_MS 30000

struct lease_state {
    size_t n; /* granted */
    struct {
        int64_t id;
        uint64_t until_ms;
        bool is_asked;
    } leases[LEASES];
};

static void lease_ask(struct user *user, size_t i)
{
    struct lease_state *state = user->state;
    Etcdserverpb__LeaseKeepAliveRequest request = ETCDSERVERPB__LEASE_KEEP_ALIVE_REQUEST__INIT;
    struct peer_call *call = peer_find(&user->peer, CALL_KEEP);
    uint8_t packed[32];
    request.id = state->leases[i].id;
    struct belfry_bytes message =
        belfry_bytes_of(packed, etcdserverpb__lease_keep_alive_request__pack(&request, packed));
    state->leases[i].is_asked = true;
    if (call == NULL)
        user_call(user, KEEP, CALL_KEEP, message, USER_GOES_ON);
    else
        user_message(user, call, message);
}

static void lease_act(struct user *user)
{
    struct lease_state *state = user->state;
    uint64_t now_ms = belfry_clock_ms();
    user_expect_prompt(user, CALL_GRANT);
    for (size_t i = 0; i < state->n; i++) {
        if (state->leases[i].is_asked || now_ms > state->leases[i].until_ms)
            verdict_fail("%s: a keep-alive is not answered, or too late", user->peer.who);
        lease_ask(user, i);
    }
    user->next_ms = now_ms + THIRD_MS;
}

/* Leases outlive a connection. */
static void lease_arrive(struct user *user)
{
    struct lease_state *state = user->state;
    static const uint8_t grant[] = {8, 30};
    for (size_t i = 0; i < state->n; i++)
        state->leases[i].is_asked = false;
    for (size_t i = state->n; i < LEASES; i++)
        user_call(user, GRANT, CALL_GRANT, belfry_bytes_of(grant, sizeof(grant)), USER_ENDS);
    lease_act(user);
}

static void lease_granted(struct user *user, struct belfry_bytes message)
{
    struct lease_state *state = user->state;
    Etcdserverpb__LeaseGrantResponse *granted =
        etcdserverpb__lease_grant_response__unpack(NULL, message.len, (const uint8_t *)message.data);
    verdict_must(granted != NULL && state->n < LEASES, "a lease");
    state->leases[state->n].id = granted->id;
    state->leases[state->n++].until_ms = belfry_clock_ms() + LEASE_MS;
    etcdserverpb__lease_grant_response__free_unpacked(granted, NULL);
}

static void lease_kept(struct user *user, struct belfry_bytes message)
{
    struct lease_state *state = user->state;
    Etcdserverpb__LeaseKeepAliveResponse *kept =
        etcdserverpb__lease_keep_alive_response__unpack(NULL, message.len, (const uint8_t *)message.data);
    verdict_must(kept != NULL && kept->ttl > 0, "a lease that lives");
    for (size_t i = 0; i < state->n; i++) {
        if (state->leases[i].id != kept->id)
            continue;
        state->leases[i].is_asked = false;
        state->leases[i].until_ms = belfry_clock_ms() + LEASE_MS;
    }
    etcdserverpb__lease_keep_alive_response__free_unpacked(kept, NULL);
    user->tally->kept_alive++;
}

static void lease_data(struct user *user, struct peer_call *call)
{
    struct belfry_bytes message;
    for (; messages_first(&call->in, &message); messages_drop(&call->in, message)) {
        if (call->what == CALL_GRANT)
            lease_granted(user, message);
        else
            lease_kept(user, message);
    }
}

static void lease_end(struct user *user, struct peer_call *call)
{
    if (call->what == CALL_KEEP)
        user_end_never(user, call);
    user_expect_fine(user, call);
}

const struct user_job job_lease = {.name = "lease",
                                   .bytes = sizeof(struct lease_state),
                                   .stays_ms = 6 * HOUR_MS,
                                   .away_ms = 2 * SECOND_MS,
                                   .arrive = lease_arrive,
                                   .act = lease_act,
                                   .data = lease_data,
                                   .end = lease_end};

/* ---- now and then ---- */

static void quiet_act(struct user *user)
{
    user_expect_prompt(user, CALL_GET);
    call_get(user, CALL_GET);
    user->next_ms = belfry_clock_ms() + user_some_ms(user, 2 * HOUR_MS);
}

const struct user_job job_quiet = {.name = "quiet",
                                   .bytes = 1,
                                   .stays_ms = BELFRY_NEVER,
                                   .away_ms = 1,
                                   .arrive = quiet_act,
                                   .act = quiet_act,
                                   .data = on_unary_data,
                                   .end = on_unary_end};

static void once_arrive(struct user *user)
{
    call_get(user, CALL_GET);
    user->next_ms = belfry_clock_ms() + MINUTE_MS;
}

static void once_end(struct user *user, struct peer_call *call)
{
    on_unary_end(user, call);
    user->wants_to_leave = true;
}

/* It has not left by now, so there was no answer. */
static void once_act(struct user *user)
{
    user_expect_prompt(user, CALL_GET);
    user->next_ms = belfry_clock_ms() + MINUTE_MS;
}

const struct user_job job_once = {.name = "once",
                                  .bytes = 1,
                                  .sleeps = true,
                                  .stays_ms = BELFRY_NEVER,
                                  .away_ms = 2 * MINUTE_MS,
                                  .arrive = once_arrive,
                                  .act = once_act,
                                  .data = on_unary_data,
                                  .end = once_end};
