/* tests/storm/user.c */
#include "storm/user.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "storm/house.h"
#include "storm/messages.h"
#include "storm/verdict.h"

#define ANSWER_MS 5000 /* that an answer may take; etcd takes less than one second */
#define PAUSE_MS  3000 /* between connecting and the preface, on a busy machine */
#define FIRST_MS  60000

uint64_t user_some_ms(struct user *user, uint64_t about_ms)
{
    return about_ms / 2 + choose(user->choices, (uint32_t)about_ms + 1);
}

/* ---- calls ---- */

struct habit_request user_request(const struct user *user, const char *path)
{
    return (struct habit_request){
        .scheme = house_door_is_tls(user->door) ? "https" : "http", .path = path, .token = user->token};
}

struct peer_call *user_call(struct user *user, const char *path, unsigned what, struct belfry_bytes message,
                            enum user_ends ends)
{
    struct belfry_buf framed;
    struct habit_request request = user_request(user, path);
    request.timeout = ends == USER_ENDS ? "10S" : NULL;
    struct peer_call *call = peer_call(&user->peer, &request, what);
    belfry_buf_init(&framed);
    messages_append(&framed, message);
    peer_send(&user->peer, call, belfry_buf_bytes(&framed), ends == USER_ENDS);
    belfry_buf_fini(&framed);
    return call;
}

void user_message(struct user *user, struct peer_call *call, struct belfry_bytes message)
{
    struct belfry_buf framed;
    belfry_buf_init(&framed);
    messages_append(&framed, message);
    peer_send(&user->peer, call, belfry_buf_bytes(&framed), false);
    belfry_buf_fini(&framed);
}

static void user_fail_end(const struct user *user, const struct peer_call *call)
{
    verdict_fail("%s: stream %u ends with status %d, grpc-status %d", user->peer.who, call->id, call->status,
                 call->grpc_status);
}

void user_expect_fine(const struct user *user, const struct peer_call *call)
{
    if (call->status != 200 || call->grpc_status != 0)
        user_fail_end(user, call);
}

void user_end_never(struct user *user, struct peer_call *call)
{
    user_fail_end(user, call);
}

void user_expect_prompt(const struct user *user, unsigned what)
{
    uint64_t now_ms = belfry_clock_ms();
    for (size_t i = 0; i < PEER_CALLS; i++) {
        const struct peer_call *call = &user->peer.calls[i];
        if (call->id != 0 && call->what == what && now_ms > call->since_ms + ANSWER_MS)
            verdict_fail("%s: stream %u has no answer after %d ms", user->peer.who, call->id, ANSWER_MS);
    }
}

/* ---- connections ---- */

static void on_peer_data(void *data, struct peer_call *call)
{
    struct user *user = data;
    user->job->data(user, call);
}

static void on_peer_end(void *data, struct peer_call *call)
{
    struct user *user = data;
    user->job->end(user, call);
}

static void user_arrive(struct user *user)
{
    uint64_t pause_ms = choose_rarely(user->choices, 4) ? choose(user->choices, PAUSE_MS) : 0;
    uint64_t now_ms = belfry_clock_ms();
    user->wants_to_leave = user->is_busy = false;
    user->leave_ms =
        user->job->stays_ms == BELFRY_NEVER ? BELFRY_NEVER : now_ms + user_some_ms(user, user->job->stays_ms);
    user->next_ms = now_ms + pause_ms;
    user->tally->connects++;
    peer_open(&user->peer, user->door, user->address, pause_ms);
}

static void user_leave(struct user *user)
{
    user->tally->pings += user->peer.n_pings;
    user->peer.n_pings = 0;
    peer_leave(&user->peer);
    user->next_ms = belfry_clock_ms() + 1 + choose(user->choices, (uint32_t)user->job->away_ms);
}

/* The first act on a connection is the job's arrival. */
static void user_act(struct user *user)
{
    if (user->peer.state == PEER_SILENT || user->peer.next_id == 1)
        user->job->arrive(user);
    else
        user->job->act(user);
}

bool user_turn(struct user *user, bool is_night)
{
    static const uint64_t look_ms = 60000;
    uint64_t now_ms = belfry_clock_ms();
    bool is_away = user->peer.state == PEER_AWAY;
    if (now_ms >= user->next_ms && is_night && user->job->sleeps && !user->is_busy)
        user->next_ms = now_ms + user_some_ms(user, look_ms);
    if (is_away && now_ms >= user->next_ms)
        user_arrive(user);
    else if (!is_away && (now_ms >= user->leave_ms || user->wants_to_leave))
        user_leave(user);
    else if (!is_away && now_ms >= user->next_ms)
        user_act(user);
    return peer_turn(&user->peer);
}

uint64_t user_due(const struct user *user)
{
    if (user->peer.state == PEER_AWAY)
        return user->next_ms;
    if (user->wants_to_leave)
        return 0;
    return belfry_min_time(belfry_min_time(user->next_ms, user->leave_ms), peer_due(&user->peer));
}

void user_init(struct user *user, const struct user_opts *opts)
{
    static const struct peer_events events = {on_peer_data, on_peer_end};
    const uint8_t host[4] = {10, 0, 0, (uint8_t)opts->host};
    *user = (struct user){.job = opts->job,
                          .door = opts->door,
                          .token = opts->token,
                          .choices = opts->choices,
                          .tally = opts->tally,
                          .haste = opts->haste};
    user->address = client_address_ipv4(host, (uint16_t)(1000 + opts->number));
    user->peer.habit = habit_of(opts->habit);
    user->peer.events = &events;
    user->peer.user = user;
    snprintf(user->peer.who, sizeof(user->peer.who), "%s %u (%s)", opts->job->name, opts->number,
             user->peer.habit->name);
    peer_init(&user->peer);
    user->state = calloc(1, opts->job->bytes);
    verdict_must(user->state != NULL, "a user");
    user->next_ms = belfry_clock_ms() + choose(opts->choices, FIRST_MS);
}

void user_fini(struct user *user)
{
    if (user->peer.state != PEER_AWAY)
        user_leave(user);
    free(user->state);
}
