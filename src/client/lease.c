/* src/client/lease.c: a kept lease on a session: sends the keeper's requests and reports its events. */
#include <belfry/lease.h>

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/owner.h"
#include "client/etcd_request.h"
#include "client/keeper.h"
#include "client/reply.h"
#include "client/session.h"

/* Whether the user's callback is running, and whether it closed the lease. */
enum callback { OUTSIDE, INSIDE, INSIDE_CLOSED };

struct belfry_lease {
    struct belfry_guest guest;
    struct belfry_timer timer; /* by belfry_clock_ms(), like all timers of the session */
    struct belfry *b;
    struct belfry_keeper keeper; /* by belfry_clock_boot_ms() */
    struct belfry_call *call;    /* the current grant or renewal; NULL: none */
    belfry_lease_fn fn;
    void *user;
    enum callback callback;
};

/* ---- ending ---- */

static void free_lease(struct belfry_lease *lease)
{
    if (lease->call != NULL && belfry_calls_cancel(lease->call))
        belfry_session_poke(lease->b); /* sends the cancellation */
    belfry_session_set_timer(lease->b, &lease->timer, BELFRY_NEVER);
    belfry_list_remove(&lease->guest.node);
    lease->b->n_busy--;
    free(lease);
}

static void lease_tell(struct belfry_lease *lease, const struct belfry_lease_event *event)
{
    lease->callback = INSIDE;
    lease->fn(lease, event, lease->user);
    bool over = lease->callback == INSIDE_CLOSED || event->kind == BELFRY_LEASE_END;
    lease->callback = OUTSIDE;
    if (over)
        free_lease(lease);
}

static void on_close(struct belfry_guest *guest)
{
    struct belfry_lease *lease = belfry_container(guest, struct belfry_lease, guest);
    int64_t id = belfry_lease_id(lease);
    struct belfry_lease_event event = {.kind = BELFRY_LEASE_END,
                                       .id = id,
                                       .ttl_s = id != 0 ? lease->keeper.ttl_s : 0,
                                       .err = BELFRY_ERR_CANCELED,
                                       .why = "the session was closed"};
    lease_tell(lease, &event);
}

/* ---- driving ---- */

/* Converts the keeper's time for the session's timer. */
static void lease_arm(struct belfry_lease *lease)
{
    uint64_t due = belfry_keeper_due(&lease->keeper), now = belfry_clock_boot_ms();
    if (due != BELFRY_NEVER)
        due = belfry_clock_ms() + (due > now ? due - now : 0);
    belfry_session_set_timer(lease->b, &lease->timer, due);
}

/* Reports the keeper's event, if any; the lease may be gone afterwards. */
static void lease_finish(struct belfry_lease *lease, const struct belfry_keeper_step *step)
{
    lease_arm(lease);
    if (step->event.kind != 0)
        lease_tell(lease, &step->event);
}

static void on_answer(const struct belfry_answer *answer, void *user)
{
    struct belfry_lease *lease = user;
    bool exists = answer->err == BELFRY_ERR_REFUSED && strstr(answer->why, "lease already exists") != NULL;
    struct belfry_keeper_answer got = {.err = answer->err, .why = answer->why, .exists = exists};
    struct belfry_reply_view view = {.kind = BELFRY_REPLY_GRANT}; /* the answer to a renewal has the same fields */
    lease->call = NULL;
    if (answer->err == BELFRY_OK) {
        got.err = belfry_reply_init(&view, BELFRY_REPLY_GRANT, answer->message);
        got.why = belfry_strerror(got.err);
        got.ttl_s = view.reply.ttl_s;
        belfry_reply_fini(&view);
    }
    struct belfry_keeper_step step = belfry_keeper_answer(&lease->keeper, &got, belfry_clock_boot_ms());
    lease_finish(lease, &step);
}

/* A grant with an id that only we have may be repeated like a read: the result is the same lease. */
static enum belfry_err send_request(struct belfry_lease *lease, const struct belfry_keeper_step *step)
{
    struct belfry_buf request = {0};
    bool grant = step->send == BELFRY_KEEPER_GRANT;
    enum belfry_err err = grant ? belfry_request_lease_grant(&request, lease->keeper.ttl_s, lease->keeper.id)
                                : belfry_request_lease_id(&request, lease->keeper.id);
    if (err == BELFRY_OK)
        err = belfry_calls_start(lease->b->calls, grant ? BELFRY_CALL_READ : BELFRY_CALL_STREAM,
                                 grant ? BELFRY_PATH_LEASE_GRANT : BELFRY_PATH_LEASE_KEEPALIVE,
                                 belfry_buf_bytes(&request), belfry_clock_ms() + step->wait_ms, on_answer, lease,
                                 &lease->call);
    belfry_buf_fini(&request);
    belfry_session_poke(lease->b);
    return err;
}

static void on_timer(struct belfry_timer *timer)
{
    struct belfry_lease *lease = belfry_container(timer, struct belfry_lease, timer);
    uint64_t now = belfry_clock_boot_ms();
    struct belfry_keeper_step step = belfry_keeper_turn(&lease->keeper, now);
    if (step.send != BELFRY_KEEPER_NONE) {
        enum belfry_err err = send_request(lease, &step);
        struct belfry_keeper_answer failed = {.err = err, .why = belfry_strerror(err)};
        if (err != BELFRY_OK)
            step = belfry_keeper_answer(&lease->keeper, &failed, now);
    }
    lease_finish(lease, &step);
}

/* ---- public functions ---- */

int belfry_lease_open(struct belfry *b, int64_t ttl_s, belfry_lease_fn fn, void *user, struct belfry_lease **out)
{
    BELFRY_OWNER_ENTER(b);
    enum belfry_err err = belfry_session_refuses(b, fn != NULL, NULL, 0);
    if (err != BELFRY_OK)
        return err;
    if (ttl_s < 1)
        return belfry_why_note(b, BELFRY_ERR_INVALID, "the time of a lease is at least 1 s");
    uint64_t random;
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return belfry_why_note(b, BELFRY_ERR_IO, NULL);
    int64_t id = (int64_t)(random & INT64_MAX);
    if (id == 0) /* 0 would let the server choose */
        id = 1;
    struct belfry_lease *lease = calloc(1, sizeof(*lease));
    if (lease == NULL)
        return belfry_why_note(b, BELFRY_ERR_NOMEM, NULL);
    *lease = (struct belfry_lease){.guest.close = on_close, .b = b, .fn = fn, .user = user};
    belfry_timer_init(&lease->timer, on_timer);
    belfry_keeper_init(&lease->keeper, id, ttl_s, b->command_timeout_ms, belfry_rng_next(&b->rng));
    belfry_list_init(&lease->guest.node);
    belfry_list_prepend(&b->guests, &lease->guest.node);
    b->n_busy++;

    /* The grant is sent now, so that the caller learns of local errors immediately. */
    struct belfry_keeper_step step = belfry_keeper_turn(&lease->keeper, belfry_clock_boot_ms());
    err = send_request(lease, &step);
    if (err != BELFRY_OK) {
        free_lease(lease);
        return belfry_why_note(b, err, NULL);
    }
    lease_arm(lease);
    if (out != NULL)
        *out = lease;
    return BELFRY_OK;
}

int64_t belfry_lease_id(const struct belfry_lease *lease)
{
    switch (lease->keeper.state) {
    case BELFRY_KEEPER_ASKING:
    case BELFRY_KEEPER_FINDING:
        return 0;
    case BELFRY_KEEPER_HELD:
    case BELFRY_KEEPER_OVER:
        break;
    }
    return lease->keeper.id;
}

int64_t belfry_lease_left_ms(const struct belfry_lease *lease)
{
    return (int64_t)belfry_keeper_left_ms(&lease->keeper, belfry_clock_boot_ms());
}

static void on_revoked(const struct belfry_answer *answer, void *user)
{
    (void)answer;
    (void)user;
}

/* Sent once: if it fails, the lease expires by itself. */
static void send_revocation(struct belfry *b, int64_t id)
{
    struct belfry_buf request = {0};
    enum belfry_err err = belfry_request_lease_id(&request, id);
    if (err == BELFRY_OK)
        err = belfry_calls_start(b->calls, BELFRY_CALL_WRITE, BELFRY_PATH_LEASE_REVOKE, belfry_buf_bytes(&request),
                                 belfry_clock_ms() + b->command_timeout_ms, on_revoked, NULL, NULL);
    belfry_ignore(err);
    belfry_buf_fini(&request);
    belfry_session_poke(b);
}

void belfry_lease_close(struct belfry_lease *lease, enum belfry_lease_way way)
{
    if (lease == NULL || lease->callback == INSIDE_CLOSED)
        return;
    BELFRY_OWNER_ENTER(lease->b);
    if (way == BELFRY_LEASE_REVOKE && belfry_keeper_may_exist(&lease->keeper) && !lease->b->closing)
        send_revocation(lease->b, lease->keeper.id);
    if (lease->callback == INSIDE)
        lease->callback = INSIDE_CLOSED;
    else
        free_lease(lease);
}
