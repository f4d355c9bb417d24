/* src/net/carrier.c */
#include "net/carrier.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/owner.h"

#define GAP_MS        1000 /* a timer that is later than this means that the process did not run */
#define READ_FIRST_MS 20

struct belfry_carrier {
    /* fixed */
    struct belfry_http *http; /* owned */
    const char *nonsense;
    const struct belfry_carrier_events *events;
    void *user;
    struct belfry_endpoint endpoint;
    struct belfry_transport *transport;
    uv_timer_t timer;
    /* owner */
    struct belfry_list node; /* of the owner's carriers, until it is closed */
    unsigned depth;          /* uses of it on the stack: closing waits until the outermost is left */
    bool closing, lost, draining, retired;
    bool has_name;     /* once it is up */
    uint64_t armed_ms; /* what the timer is set to, while it is active */
    bool late;         /* the timer came much too late, and the socket is being read first */
    BELFRY_OWNER;
};

static void on_timer(uv_timer_t *timer);

static void free_carrier(uv_handle_t *timer)
{
    struct belfry_carrier *carrier = timer->data;
    if (carrier->events->gone != NULL)
        carrier->events->gone(carrier->user);
    free(carrier);
}

static void carrier_really_close(struct belfry_carrier *carrier)
{
    belfry_transport_close(carrier->transport);
    carrier->depth++; /* the events of calls may say close once more */
    belfry_http_destroy(carrier->http);
    uv_close((uv_handle_t *)&carrier->timer, free_carrier);
}

void belfry_carrier_enter(struct belfry_carrier *carrier)
{
    BELFRY_OWNER_CHECK(carrier);
    carrier->depth++;
}

/* Retired, and its last call has ended. */
static bool is_done(const struct belfry_carrier *carrier)
{
    return carrier->retired && !carrier->closing && belfry_http_n_calls(carrier->http) == 0;
}

void belfry_carrier_leave(struct belfry_carrier *carrier)
{
    BELFRY_OWNER_CHECK(carrier);
    if (carrier->depth == 1 && is_done(carrier))
        belfry_carrier_close(carrier);
    if (--carrier->depth == 0 && carrier->closing)
        carrier_really_close(carrier);
}

static bool is_over(const struct belfry_carrier *carrier)
{
    return carrier->closing || carrier->lost;
}

static void carrier_lose(struct belfry_carrier *carrier, enum belfry_err err, const char *why)
{
    if (carrier->lost)
        return;
    carrier->lost = true;
    uv_timer_stop(&carrier->timer);
    belfry_carrier_enter(carrier);
    belfry_http_lost(carrier->http, why);
    if (carrier->retired)
        belfry_carrier_close(carrier);
    else if (!carrier->closing)
        carrier->events->lost(carrier, err, why, carrier->user);
    belfry_carrier_leave(carrier);
}

/* Why the connection could not go on, for its owner. */
static const char *carrier_describe(const struct belfry_carrier *carrier, enum belfry_err err)
{
    if (err == BELFRY_ERR_TIMEOUT)
        return "it does not answer pings";
    if (carrier->nonsense == NULL)
        return belfry_http_why(carrier->http);
    return err == BELFRY_ERR_PROTOCOL ? carrier->nonsense : belfry_strerror((int)err);
}

static void carrier_feed(struct belfry_carrier *carrier)
{
    if (carrier->events->feed != NULL && !is_over(carrier) && !carrier->retired)
        carrier->events->feed(carrier, carrier->user);
}

/* After anything that may have changed what the connection waits for. */
static void carrier_rearm(struct belfry_carrier *carrier)
{
    if (is_done(carrier))
        belfry_carrier_close(carrier);
    if (is_over(carrier))
        return;
    if (!carrier->draining && !carrier->retired && belfry_http_state(carrier->http) >= BELFRY_HTTP_DRAINING) {
        carrier->draining = true;
        carrier->events->draining(carrier, carrier->user);
        if (is_over(carrier))
            return;
    }
    belfry_transport_hold(carrier->transport, !belfry_http_wants_read(carrier->http));

    uint64_t due = belfry_http_due(carrier->http);
    if (due == BELFRY_NEVER) {
        uv_timer_stop(&carrier->timer);
    } else if (due != carrier->armed_ms || !uv_is_active((uv_handle_t *)&carrier->timer)) {
        uint64_t now = belfry_clock_ms();
        carrier->armed_ms = due;
        uv_update_time(carrier->timer.loop);
        uv_timer_start(&carrier->timer, on_timer, due > now ? due - now : 0, 0);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct belfry_carrier *carrier = timer->data;
    uint64_t now = belfry_clock_ms();

    /* After a gap (the process was stopped, the machine slept) libuv runs timers before it reads sockets: what the peer
     * sent meanwhile must be seen before it is judged by the clock. What is due at once (0) is no judgement. */
    uint64_t due = belfry_http_due(carrier->http);
    bool gap = due > 0 && now > GAP_MS && now - GAP_MS > due;
    carrier->late = gap && !carrier->late;
    if (carrier->late) {
        uv_timer_start(&carrier->timer, on_timer, READ_FIRST_MS, 0);
        return;
    }

    belfry_carrier_enter(carrier);
    enum belfry_err err = belfry_http_tick(carrier->http, now);
    if (err != BELFRY_OK)
        carrier_lose(carrier, err, carrier_describe(carrier, err));
    else
        belfry_carrier_flush(carrier);
    belfry_carrier_leave(carrier);
}

static void on_up(struct belfry_transport *transport, void *user)
{
    struct belfry_carrier *carrier = user;
    belfry_carrier_enter(carrier);
    carrier->has_name = belfry_transport_has_name(transport);
    carrier->events->up(carrier, belfry_transport_alpn(transport), carrier->user);
    belfry_carrier_flush(carrier);
    belfry_carrier_leave(carrier);
}

static void on_bytes(struct belfry_transport *transport, struct belfry_bytes bytes, void *user)
{
    struct belfry_carrier *carrier = user;
    (void)transport;
    if (is_over(carrier))
        return;
    belfry_carrier_enter(carrier);
    enum belfry_err err = belfry_http_receive(carrier->http, bytes, belfry_clock_ms());
    if (err != BELFRY_OK)
        carrier_lose(carrier, err, carrier_describe(carrier, err));
    else
        belfry_carrier_flush(carrier);
    belfry_carrier_leave(carrier);
}

static struct belfry_bytes on_pull(struct belfry_transport *transport, void *user)
{
    struct belfry_carrier *carrier = user;
    struct belfry_bytes bytes = {NULL, 0};
    (void)transport;
    if (is_over(carrier))
        return bytes;
    belfry_carrier_enter(carrier);
    carrier_feed(carrier);
    enum belfry_err err = belfry_http_pull(carrier->http, belfry_clock_ms(), &bytes);
    if (err != BELFRY_OK)
        carrier_lose(carrier, err, carrier_describe(carrier, err));
    carrier_rearm(carrier);
    if (is_over(carrier))
        bytes = (struct belfry_bytes){NULL, 0};
    belfry_carrier_leave(carrier);
    return bytes;
}

static void on_lost(struct belfry_transport *transport, enum belfry_err err, const char *why, void *user)
{
    (void)transport;
    carrier_lose(user, err, why);
}

static const struct belfry_transport_events transport_events = {
    .up = on_up, .bytes = on_bytes, .pull = on_pull, .lost = on_lost};

enum belfry_err belfry_carrier_open(const struct belfry_carrier_opts *opts, struct belfry_carrier **out)
{
    enum belfry_err err = BELFRY_ERR_NOMEM;
    struct belfry_carrier *carrier = calloc(1, sizeof(*carrier));
    if (carrier == NULL)
        goto fail;
    carrier->http = opts->http;
    carrier->nonsense = opts->nonsense;
    carrier->events = opts->events;
    carrier->user = opts->user;
    carrier->endpoint = *opts->transport.endpoint;
    err = belfry_transport_open(&opts->transport, &transport_events, carrier, &carrier->transport);
    if (err != BELFRY_OK)
        goto fail;
    uv_timer_init(opts->transport.loop, &carrier->timer);
    carrier->timer.data = carrier;
    belfry_list_init(&carrier->node);
    if (opts->all != NULL)
        belfry_list_append(opts->all, &carrier->node);
    BELFRY_OWNER_INIT(carrier);
    *out = carrier;
    return BELFRY_OK;

fail:
    belfry_http_destroy(opts->http);
    free(carrier);
    return err;
}

void belfry_carrier_retire(struct belfry_carrier *carrier)
{
    BELFRY_OWNER_CHECK(carrier);
    carrier->retired = true;
    carrier_rearm(carrier);
}

void belfry_carrier_close(struct belfry_carrier *carrier)
{
    if (carrier == NULL || carrier->closing)
        return;
    BELFRY_OWNER_CHECK(carrier);
    carrier->closing = true;
    belfry_list_remove(&carrier->node);
    if (carrier->depth == 0)
        carrier_really_close(carrier);
}

void belfry_carrier_close_all(struct belfry_list *all, const char *why)
{
    while (!belfry_list_empty(all)) {
        struct belfry_carrier *carrier = belfry_container(all->next, struct belfry_carrier, node);
        carrier->retired = true; /* the owner hears nothing of it */
        belfry_carrier_enter(carrier);
        carrier_lose(carrier, BELFRY_ERR_UNAVAILABLE, why);
        belfry_carrier_close(carrier);
        belfry_carrier_leave(carrier);
    }
}

void belfry_carrier_flush(struct belfry_carrier *carrier)
{
    BELFRY_OWNER_CHECK(carrier);
    carrier_feed(carrier);
    if (!is_over(carrier) && belfry_http_wants_write(carrier->http))
        belfry_transport_kick(carrier->transport);
    carrier_rearm(carrier);
}

bool belfry_carrier_has_name(const struct belfry_carrier *carrier)
{
    return carrier->has_name;
}

struct belfry_http *belfry_carrier_http(const struct belfry_carrier *carrier)
{
    return carrier->http;
}

const struct belfry_endpoint *belfry_carrier_endpoint(const struct belfry_carrier *carrier)
{
    return &carrier->endpoint;
}

void *belfry_carrier_user(const struct belfry_carrier *carrier)
{
    return carrier->user;
}
