/* src/client/session.c */
#include "client/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/owner.h"
#include "client/opts.h"
#include "net/loop.h"

#define USER_AGENT "libbelfry/" BELFRY_VERSION

/* ---- pumping ---- */

static void on_timer(uv_timer_t *timer);

static void session_arm(struct belfry *b)
{
    uint64_t due = belfry_timers_due(&b->timers);
    if (belfry_session_has_etcd(b)) {
        due = belfry_min_time(due, belfry_calls_due(b->calls));
        due = belfry_min_time(due, belfry_stream_due(b->stream));
        due = belfry_min_time(due, belfry_watches_due(b->watches));
    }
    uint64_t now = belfry_clock_ms();
    if (due == BELFRY_NEVER) {
        uv_timer_stop(b->timer);
        return;
    }
    uv_update_time(belfry_loop_uv(b->loop));
    uv_timer_start(b->timer, on_timer, due > now ? due - now : 0, 0);
}

/* Does everything that is due. */
static void on_timer(uv_timer_t *timer)
{
    struct belfry *b = timer->data;
    uint64_t now = belfry_clock_ms();
    uv_timer_stop(b->timer); /* a poke from inside starts it again */
    b->poked = false;
    belfry_timers_fire(&b->timers, now);
    if (belfry_session_has_etcd(b)) {
        belfry_watches_pump(b->watches, now);
        belfry_stream_pump(b->stream, now);
        belfry_calls_pump(b->calls, now);
    }
    if (!uv_is_active((uv_handle_t *)b->timer))
        session_arm(b);
}

void belfry_session_poke(struct belfry *b)
{
    if (b->closing || b->poked)
        return;
    b->poked = true;
    uv_update_time(belfry_loop_uv(b->loop));
    uv_timer_start(b->timer, on_timer, 0, 0);
    belfry_loop_rearm(b->loop);
}

void belfry_session_set_timer(struct belfry *b, struct belfry_timer *timer, uint64_t due_ms)
{
    uint64_t first = belfry_timers_due(&b->timers);
    belfry_timers_set(&b->timers, timer, due_ms);
    if (due_ms < first)
        belfry_session_poke(b); /* the pump recalculates when it is due */
}

/* Called inside a turn of the loop, which updates the descriptor anyway. */
static void on_changed(void *user)
{
    struct belfry *b = user;
    if (!b->closing)
        uv_timer_start(b->timer, on_timer, 0, 0);
}

static void on_header(const struct belfry_wire_header *header, void *user)
{
    struct belfry *b = user;
    belfry_mux_saw(belfry_stream_mux(b->stream), header->revision);
}

static void on_auth_failed(enum belfry_err err, const char *why, void *user)
{
    struct belfry *b = user;
    belfry_watches_end_all(b->watches, err, why);
    belfry_calls_fail_all(b->calls, err, why);
}

static void on_exhausted(const char *why, void *user)
{
    struct belfry *b = user;
    belfry_watches_tell_listing(b->watches, why);
}

static void on_link_text(const char *text, void *user)
{
    struct belfry *b = user;
    belfry_watches_tell_link(b->watches, text);
}

/* ---- opening ---- */

static struct belfry_pool_opts link_opts(struct belfry *b, const struct belfry_opts *opts, const char *name)
{
    struct belfry_grpc_opts grpc = {.user_agent = USER_AGENT,
                                    .keepalive_ms = (uint32_t)belfry_opts_number(opts, BELFRY_OPT_KEEPALIVE_TIME),
                                    .keepalive_timeout_ms =
                                        (uint32_t)belfry_opts_number(opts, BELFRY_OPT_KEEPALIVE_TIMEOUT),
                                    .max_message_bytes = (size_t)belfry_opts_number(opts, BELFRY_OPT_MAX_MESSAGE),
                                    .log = &b->log};
    return (struct belfry_pool_opts){.loop = belfry_loop_uv(b->loop),
                                     .dns = b->dns,
                                     .tls = b->tls,
                                     .endpoints = b->endpoints,
                                     .n_endpoints = b->n_endpoints,
                                     .dial_timeout_ms = (uint32_t)belfry_opts_number(opts, BELFRY_OPT_DIAL_TIMEOUT),
                                     .http = belfry_grpc_http_opts(&grpc),
                                     .name = name,
                                     .seed = belfry_rng_next(&b->rng),
                                     .log = &b->log};
}

/* The calls, the stream and the watches, in this order: each uses those before it. */
static enum belfry_err open_parts(struct belfry *b, const struct belfry_opts *opts)
{
    bool hasleader = belfry_opts_number(opts, BELFRY_OPT_HASLEADER) != 0;
    struct belfry_calls_opts calls = {.link = link_opts(b, opts, "calls"),
                                      .auth = &b->auth,
                                      .identity = &b->identity,
                                      .hasleader = hasleader,
                                      .changed = on_changed,
                                      .header = on_header,
                                      .exhausted = on_exhausted,
                                      .auth_failed = on_auth_failed,
                                      .user = b};
    enum belfry_err err = belfry_calls_create(&calls, &b->calls);
    if (err != BELFRY_OK)
        return err;
    struct belfry_stream_opts stream = {.link = link_opts(b, opts, "watch"),
                                        .calls = b->calls,
                                        .auth = &b->auth,
                                        .identity = &b->identity,
                                        .hasleader = hasleader,
                                        .max_message_bytes = (size_t)belfry_opts_number(opts, BELFRY_OPT_MAX_MESSAGE),
                                        .deliver = belfry_watches_deliver,
                                        .link_text = on_link_text,
                                        .changed = on_changed,
                                        .user = b};
    err = belfry_stream_create(&stream, &b->stream);
    if (err != BELFRY_OK)
        return err;
    struct belfry_watches_opts watches = {.stream = b->stream,
                                          .calls = b->calls,
                                          .identity = &b->identity,
                                          .page_timeout_ms = b->command_timeout_ms,
                                          .poke = belfry_session_poke,
                                          .session = b};
    return belfry_watches_create(&watches, &b->watches);
}

static enum belfry_err open_etcd(struct belfry *b, const char *endpoints, const struct belfry_opts *opts, char *why,
                                 size_t len)
{
    enum belfry_err err = belfry_endpoint_parse_list(endpoints, &b->endpoints, &b->n_endpoints, why, len);
    if (err != BELFRY_OK)
        return err;

    /* In random order, so that sessions spread over the members. */
    bool wants_tls = false;
    for (size_t i = b->n_endpoints; i > 1; i--) {
        size_t j = belfry_rng_below(&b->rng, i);
        struct belfry_endpoint swap = b->endpoints[i - 1];
        b->endpoints[i - 1] = b->endpoints[j];
        b->endpoints[j] = swap;
    }
    for (size_t i = 0; i < b->n_endpoints; i++)
        wants_tls = wants_tls || b->endpoints[i].tls;
    b->identity.n_endpoints = b->n_endpoints;

    err =
        belfry_auth_init(&b->auth, belfry_opts_text(opts, BELFRY_OPT_USER), belfry_opts_text(opts, BELFRY_OPT_PASSWORD),
                         belfry_opts_text(opts, BELFRY_OPT_PASSWORD_FILE));
    if (err == BELFRY_ERR_INVALID)
        snprintf(why, len, "user is set without a password: set password, password-file, or user name:password");
    if (err != BELFRY_OK)
        return err;

    struct belfry_tls_opts tls = {.cacert = belfry_opts_text(opts, BELFRY_OPT_CACERT),
                                  .cert = belfry_opts_text(opts, BELFRY_OPT_CERT),
                                  .key = belfry_opts_text(opts, BELFRY_OPT_KEY),
                                  .server_name = belfry_opts_text(opts, BELFRY_OPT_SERVER_NAME),
                                  .skip_verify = belfry_opts_number(opts, BELFRY_OPT_SKIP_VERIFY) != 0};
    if (wants_tls)
        err = belfry_tls_create(&tls, &b->tls, why, len);
    return err == BELFRY_OK ? open_parts(b, opts) : err;
}

static enum belfry_err open_all(struct belfry *b, const char *endpoints, const struct belfry_opts *opts, char *why,
                                size_t len)
{
    BELFRY_OWNER_ENTER(b);
    enum belfry_err err = belfry_loop_create(&b->loop);
    if (err != BELFRY_OK)
        return err;
    b->timer = malloc(sizeof(*b->timer));
    if (b->timer == NULL)
        return BELFRY_ERR_NOMEM;
    uv_timer_init(belfry_loop_uv(b->loop), b->timer);
    b->timer->data = b;
    err = belfry_dns_create(belfry_loop_uv(b->loop), &b->dns);
    return err == BELFRY_OK && endpoints != NULL ? open_etcd(b, endpoints, opts, why, len) : err;
}

static bool opts_are_sane(const struct belfry_opts *opts, char *why, size_t len)
{
    if (!belfry_opts_fit(opts, BELFRY_FOR_OPEN)) {
        snprintf(why, len, "%s", belfry_opts_why(opts));
        return false;
    }
    if (belfry_opts_number(opts, BELFRY_OPT_KEEPALIVE_TIME) < 10000) {
        snprintf(why, len, "keepalive-time is under 10s: etcd ends connections that ping faster");
        return false;
    }
    if (belfry_opts_number(opts, BELFRY_OPT_DIAL_TIMEOUT) <= 0 ||
        belfry_opts_number(opts, BELFRY_OPT_COMMAND_TIMEOUT) <= 0 ||
        belfry_opts_number(opts, BELFRY_OPT_KEEPALIVE_TIMEOUT) <= 0) {
        snprintf(why, len, "dial-timeout, command-timeout and keepalive-timeout must be above 0");
        return false;
    }
    if (belfry_opts_number(opts, BELFRY_OPT_MAX_MESSAGE) < 4 * 1024 * 1024) {
        snprintf(why, len, "max-message is under 4MiB: etcd cuts responses only from 2 MiB on");
        return false;
    }
    return true;
}

/* The caller's sentence, and this thread's for belfry_why(). */
static enum belfry_err failed_to_open(enum belfry_err err, char *why, size_t len)
{
    if (why[0] == '\0')
        snprintf(why, len, "%s", belfry_strerror(err));
    return why == belfry_why_here() ? err : belfry_why_note(NULL, err, why);
}

int belfry_open_why(const char *endpoints, const struct belfry_opts *opts, struct belfry **out, char *why, size_t len)
{
    if (why == NULL || len == 0) {
        why = belfry_why_here();
        len = BELFRY_WHY_BYTES;
    }
    why[0] = '\0';
    if (!opts_are_sane(opts, why, len))
        return failed_to_open(BELFRY_ERR_INVALID, why, len);
    struct belfry *b = calloc(1, sizeof(*b));
    if (b == NULL)
        return failed_to_open(BELFRY_ERR_NOMEM, why, len);
    belfry_list_init(&b->guests);
    if (getrandom(&b->rng.state, sizeof(b->rng.state), GRND_NONBLOCK) != (ssize_t)sizeof(b->rng.state))
        b->rng.state = belfry_clock_ms() ^ (uintptr_t)b; /* no randomness early at boot; enough for jitter */
    b->command_timeout_ms = (uint32_t)belfry_opts_number(opts, BELFRY_OPT_COMMAND_TIMEOUT);

    enum belfry_err err = open_all(b, endpoints, opts, why, len);
    if (err != BELFRY_OK) {
        belfry_close(b);
        return failed_to_open(err, why, len);
    }
    *out = b;
    return BELFRY_OK;
}

int belfry_open(const char *endpoints, const struct belfry_opts *opts, struct belfry **out)
{
    return belfry_open_why(endpoints, opts, out, NULL, 0);
}

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

static void close_all(struct belfry *b)
{
    BELFRY_OWNER_ENTER(b);
    b->closing = true; /* first, so that callbacks cannot open anything */
    struct belfry_list *guest;
    while ((guest = belfry_list_pop(&b->guests)) != NULL) {
        struct belfry_guest *leaving = belfry_container(guest, struct belfry_guest, node);
        leaving->close(leaving);
    }
    belfry_watches_end_all(b->watches, BELFRY_ERR_CANCELED, "the session was closed");
    belfry_calls_abort(b->calls); /* answers may still use the session */
    belfry_stream_destroy(b->stream);
    belfry_calls_destroy(b->calls);
    belfry_watches_destroy(b->watches); /* after both: a connection that ends may report to watches */
    belfry_dns_destroy(b->dns);
    if (b->timer != NULL)
        uv_close((uv_handle_t *)b->timer, free_handle);
    belfry_loop_destroy(b->loop);
    belfry_tls_destroy(b->tls);
    belfry_auth_fini(&b->auth);
    free(b->endpoints);
}

void belfry_close(struct belfry *b)
{
    if (b == NULL)
        return;
    close_all(b);
    free(b);
}

/* ---- calls ---- */

enum belfry_err belfry_session_refuses(struct belfry *b, bool has_callback, const struct belfry_opts *opts,
                                       unsigned where)
{
    if (!has_callback)
        return belfry_why_note(b, BELFRY_ERR_INVALID, "a callback is missing");
    if (!belfry_session_has_etcd(b))
        return belfry_why_note(b, BELFRY_ERR_INVALID, "the session has no etcd: it was opened without endpoints");
    if (!belfry_opts_fit(opts, where))
        return belfry_why_note(b, BELFRY_ERR_INVALID, belfry_opts_why(opts));
    if (b->closing)
        return belfry_why_note(b, BELFRY_ERR_CANCELED, "the session is being closed");
    return BELFRY_OK;
}

/* ---- driving ---- */

int belfry_fd(const struct belfry *b)
{
    return belfry_loop_fd(b->loop);
}

int belfry_dispatch(struct belfry *b)
{
    BELFRY_OWNER_ENTER(b);
    return belfry_why_unless_ok(b, belfry_loop_dispatch(b->loop), NULL);
}

int belfry_run(struct belfry *b, int timeout_ms)
{
    BELFRY_OWNER_ENTER(b);
    uint64_t end = timeout_ms < 0 ? BELFRY_NEVER : belfry_clock_ms() + (uint64_t)timeout_ms;
    while (!atomic_exchange(&b->stop, false)) {
        bool anything_left = b->n_busy > 0 || (belfry_session_has_etcd(b) &&
                                               (!belfry_watches_empty(b->watches) || belfry_calls_count(b->calls) > 0));
        if (!anything_left)
            break;
        uint64_t now = belfry_clock_ms();
        int left = end == BELFRY_NEVER ? -1 : now >= end ? 0 : (int)(end - now);
        enum belfry_err err = belfry_loop_wait(b->loop, left);
        if (err == BELFRY_OK)
            err = belfry_loop_dispatch(b->loop);
        if (err == BELFRY_OK && belfry_clock_ms() >= end && !atomic_load(&b->stop))
            err = BELFRY_ERR_TIMEOUT;
        if (err == BELFRY_ERR_TIMEOUT)
            return belfry_why_note(b, err,
                                   "belfry_run() ran for its timeout_ms, and what is on the session goes on: call it "
                                   "again, or with -1");
        if (err != BELFRY_OK)
            return belfry_why_note(b, err, NULL);
    }
    return BELFRY_OK;
}

/* Sets the flag first, so that the thread woken by the descriptor sees it. */
void belfry_stop(struct belfry *b)
{
    atomic_store(&b->stop, true);
    belfry_loop_wake(b->loop);
}

static void forward_line(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    struct belfry *b = user;
    b->log_fn((enum belfry_level)level, event, text, b->log_user);
}

void belfry_set_log(struct belfry *b, enum belfry_level level, belfry_log_fn fn, void *user)
{
    BELFRY_OWNER_ENTER(b);
    b->log_fn = fn;
    b->log_user = user;
    b->log =
        (struct belfry_log){.line = fn != NULL ? forward_line : NULL, .user = b, .level = (enum belfry_log_level)level};
}

const struct belfry_stats *belfry_get_stats(struct belfry *b)
{
    BELFRY_OWNER_ENTER(b);
    if (!belfry_session_has_etcd(b))
        return &b->stats;
    struct belfry_pool_counts watch = belfry_pool_counts(belfry_stream_link(b->stream));
    struct belfry_pool_counts calls = belfry_pool_counts(belfry_calls_link(b->calls));
    struct belfry_watches_stats watches = belfry_watches_stats(b->watches);
    struct belfry_mux_stats mux = belfry_mux_stats(belfry_stream_mux(b->stream));
    b->stats.connects = watch.connects + calls.connects;
    b->stats.losses = watch.losses + calls.losses;
    b->stats.events = watches.events;
    b->stats.lists = watches.lists;
    b->stats.resumes = mux.resumes;
    b->stats.creates = mux.creates;
    b->stats.parked = mux.parked;
    b->stats.stale_events = mux.stale_events;
    b->stats.held_bytes = belfry_mux_held_bytes(belfry_stream_mux(b->stream));
    b->stats.log_ins = b->auth.log_ins;
    return &b->stats;
}
