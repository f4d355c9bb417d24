/* src/follow/driver.c: creating, the turns of the loop, destroying.
 *
 * libuv runs timers, then what we do in `prepare`, then it polls: so a turn of ours is poll, timers, prepare. Whatever
 * is done anywhere on the loop is followed by a prepare before the loop blocks, so nobody has to wake us.
 */
#include "follow/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "follow/driver_private.h"
#include "net/dns.h"

#define DIAL_MS            2000
#define COMMAND_MS         5000
#define KEEPALIVE_MS       10000 /* etcd ends connections that ping faster */
#define KEEPALIVE_WAIT_MS  5000
#define MAX_MESSAGE_BYTES  ((size_t)256 * 1024 * 1024)
#define MAX_REVISION_BYTES ((size_t)1024 * 1024 * 1024)
#define TRIM_ROWS          1000
#define LOST               "lost " /* as the stream tells it; the URL follows */
#define REFUSALS           1024    /* for which there is room when memory is short */

/* ---- backfills ---- */

void driver_backfill(struct driver *driver, uint64_t past, int64_t from, int64_t oldest, uint64_t token)
{
    enum belfry_err err = backfill_request(driver->backfill, past, from, oldest, token, belfry_clock_ms());
    struct driver_refusal refusal = {.token = token, .err = err};
    driver->backfills++;
    driver->poked = true;
    if (err == BELFRY_OK)
        return;
    if (belfry_buf_append(&driver->refusals, &refusal, sizeof(refusal)) == BELFRY_OK)
        return;
    driver->backfills--; /* more than REFUSALS in one turn, and no memory for a number: now, or never */
    driver->events.backfilled(token, err, NULL, 0, driver->user);
}

static void answer(struct driver *driver, const struct backfill_answer *answer)
{
    driver->backfills--;
    if (answer->err == BELFRY_OK && !answer->local) {
        driver->backfills_done++;
        driver->backfill_revisions += answer->segment->n;
    }
    driver->events.backfilled(answer->token, answer->err, answer->segment, answer->compact_rev, driver->user);
}

static void answer_backfills(struct driver *driver)
{
    struct backfill_answer out;
    struct driver_refusal refusal;
    /* what is asked from inside an answer is answered in the next turn */
    for (size_t n = belfry_buf_len(&driver->refusals); n > 0; n -= sizeof(refusal)) {
        memcpy(&refusal, belfry_buf_bytes(&driver->refusals).data, sizeof(refusal));
        belfry_buf_take(&driver->refusals, sizeof(refusal));
        answer(driver, &(struct backfill_answer){.token = refusal.token, .err = refusal.err});
    }
    for (size_t n = driver->backfills; n > 0 && backfill_answer(driver->backfill, &out); n--)
        answer(driver, &out);
}

/* Backfills of a past that is over end before anything else is asked for. */
static void note_past(struct driver *driver)
{
    uint64_t past = ingest_past(driver->ingest);
    if (past == driver->cut_past)
        return;
    driver->cut_past = past;
    driver->page_limit = INT64_MAX;
    backfill_cut(driver->backfill, past, belfry_clock_ms());
}

/* ---- a turn ---- */

static void tell_workers(struct driver *driver)
{
    int64_t head = ingest_head(driver->ingest);
    uint64_t past = ingest_past(driver->ingest);
    driver_note_standing(driver);
    bool words = driver_words_moved(driver);
    if (head == driver->told_head && past == driver->told_past && driver->standing == driver->told_standing &&
        driver_barred(driver) == driver->told_barred && !words)
        return;
    if (head != driver->told_head)
        driver_stamp(driver, head);
    driver->told_head = head;
    driver->told_past = past;
    driver->told_standing = driver->standing;
    driver->told_barred = driver_barred(driver);
    driver->events.changed(driver->user);
}

/* Every endpoint belongs to another cluster: what we follow is no more. The watches end, so that upstream lists anew, and
 * the next answer decides who we follow from now on. */
static void mind_cluster(struct driver *driver)
{
    static const char why[] = "every endpoint belongs to another cluster than before";
    if (!belfry_identity_lost(&driver->identity))
        return;
    belfry_mux_fail(belfry_stream_mux(driver->live), BELFRY_ERR_CLUSTER, why);
    belfry_mux_fail(belfry_stream_mux(driver->back), BELFRY_ERR_CLUSTER, why);
    belfry_stream_drain(driver->live);
    belfry_stream_drain(driver->back);
    driver->identity = (struct belfry_identity){.n_endpoints = driver->n_endpoints, .barred = driver->identity.barred};
}

static void pump(struct driver *driver, uint64_t now)
{
    belfry_stream_pump(driver->live, now);
    belfry_stream_pump(driver->back, now);
    belfry_calls_pump(driver->calls, now);
}

static void on_timer(uv_timer_t *timer);

static void arm(struct driver *driver)
{
    uint64_t due = belfry_min_time(upstream_due(driver->upstream), backfill_due(driver->backfill));
    due = belfry_min_time(due, ingest_due(driver->ingest));
    due = belfry_min_time(due, belfry_calls_due(driver->calls));
    due = belfry_min_time(due, belfry_stream_due(driver->live));
    due = belfry_min_time(due, belfry_stream_due(driver->back));
    due = belfry_min_time(due, driver_log_due(driver));
    due = belfry_min_time(due, driver->about.at_ms);
    if (driver->judged)
        due = belfry_min_time(due, driver->unhold_ms);
    uint64_t now = belfry_clock_ms();
    if (driver->given_up[0] != '\0')
        due = now + UPSTREAM_TICK_MS; /* what is due is not done any more */
    else if (driver->poked || due < now)
        due = now;
    uv_update_time(driver->loop);
    uv_timer_start(&driver->timer, on_timer, due == BELFRY_NEVER ? UPSTREAM_TICK_MS : due - now, 0);
}

static void follow(struct driver *driver, uint64_t now)
{
    driver_leave_barred(driver);
    driver_act(driver, now);
    pump(driver, now);
    driver_pump_about(driver, now);
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct driver *driver = prepare->data;
    uint64_t now = belfry_clock_ms();
    driver->poked = false;
    note_past(driver);
    tell_workers(driver); /* before the commit: they need not wait for it */
    if (driver->polled)
        upstream_drained(driver->upstream, now);
    driver->polled = false;
    mind_cluster(driver);
    driver_mind_server(driver, now);
    if (driver->given_up[0] == '\0')
        follow(driver, now);
    note_past(driver);
    answer_backfills(driver);
    driver_note_standing(driver);
    driver_log_changes(driver, now);
    if (driver->standing != driver->told_standing)
        driver->poked = true;
    arm(driver);
}

static void on_check(uv_check_t *check)
{
    struct driver *driver = check->data;
    driver->polled = true;
}

static void on_timer(uv_timer_t *timer)
{
    struct driver *driver = timer->data;
    uint64_t now = belfry_clock_ms();
    if (now >= upstream_due(driver->upstream))
        upstream_tick(driver->upstream, now);
    if (now >= backfill_due(driver->backfill))
        backfill_tick(driver->backfill, now);
    if (now >= ingest_due(driver->ingest))
        ingest_tick(driver->ingest, now);
}

/* ---- what libbelfry's parts say ---- */

static void on_changed(void *user)
{
    struct driver *driver = user;
    driver->poked = true;
}

static void on_header(const struct belfry_wire_header *header, void *user)
{
    (void)header; /* reads look at it themselves */
    (void)user;
}

/* It is tried again for as long as somebody needs it: the password may be changed, or auth be turned off. */
static void on_auth_failed(enum belfry_err err, const char *why, void *user)
{
    struct driver *driver = user;
    if (driver->auth_why[0] == '\0')
        belfry_logf(driver->log, BELFRY_LOG_ERROR, "upstream_log_in_failed", "why=\"%s\"", why);
    snprintf(driver->auth_why, sizeof(driver->auth_why), "%s", why);
    belfry_calls_fail_all(driver->calls, err, why);
}

static void on_live_text(const char *text, void *user)
{
    struct driver *driver = user;
    snprintf(driver->link_why, sizeof(driver->link_why), "%s", text);
    if (strncmp(text, LOST, strlen(LOST)) == 0)
        driver_mind_refusal(driver, text + strlen(LOST), text);
    driver_mind_silence(driver, text);
}

static void on_back_text(const char *text, void *user)
{
    struct driver *driver = user;
    belfry_logf(driver->log, BELFRY_LOG_DEBUG, "backfill_link", "text=\"%s\"", text);
}

/* ---- creating ---- */

static enum belfry_err copy_scope(struct driver *driver, const struct driver_opts *opts)
{
    driver->scope = malloc(opts->key.len + opts->range_end.len + 1);
    if (driver->scope == NULL)
        return BELFRY_ERR_NOMEM;
    if (opts->key.len > 0)
        memcpy(driver->scope, opts->key.data, opts->key.len);
    if (opts->range_end.len > 0)
        memcpy(driver->scope + opts->key.len, opts->range_end.data, opts->range_end.len);
    driver->key = belfry_bytes_of(driver->scope, opts->key.len);
    driver->range_end = belfry_bytes_of(driver->scope + opts->key.len, opts->range_end.len);
    struct belfry_bytes all = belfry_bytes_of("", 1);
    driver->whole_scope = belfry_bytes_equal(driver->key, all) && belfry_bytes_equal(driver->range_end, all);
    driver->judged = driver->whole_scope;
    return BELFRY_OK;
}

/* Many tiers with one list of endpoints must not all begin with the first. */
static enum belfry_err copy_endpoints(struct driver *driver, const struct driver_opts *opts)
{
    driver->endpoints = calloc(opts->n_endpoints, sizeof(*driver->endpoints));
    driver->barred = calloc(opts->n_endpoints, sizeof(*driver->barred));
    if (driver->endpoints == NULL || driver->barred == NULL)
        return BELFRY_ERR_NOMEM;
    size_t first = driver->first_endpoint = belfry_rng_below(&driver->rng, opts->n_endpoints);
    for (size_t i = 0; i < opts->n_endpoints; i++)
        driver->endpoints[i] = opts->endpoints[(first + i) % opts->n_endpoints];
    driver->n_endpoints = opts->n_endpoints;
    return BELFRY_OK;
}

static enum belfry_err create_machines(struct driver *driver, const struct driver_opts *opts)
{
    bool warm;
    struct ingest_opts ingest = {.store = opts->store,
                                 .evlog = opts->evlog,
                                 .extent_bytes = INGEST_EXTENT_BYTES,
                                 .trim_rows = TRIM_ROWS,
                                 .whole_scope = driver->whole_scope,
                                 .log = &driver->parts_log};
    enum belfry_err err = ingest_create(&ingest, &driver->ingest);
    if (err == BELFRY_OK)
        err = ingest_open(driver->ingest, &warm);
    struct upstream_opts upstream = {.ingest = driver->ingest,
                                     .store = opts->store,
                                     .key = driver->key,
                                     .range_end = driver->range_end,
                                     .log = &driver->machine_log};
    if (err == BELFRY_OK)
        err = upstream_create(&upstream, &driver->upstream);
    if (err == BELFRY_OK)
        err = backfill_create(opts->segment_bytes != 0 ? opts->segment_bytes : SEGMENT_BYTES, &driver->backfill);
    if (err == BELFRY_OK)
        backfill_prove_by(driver->backfill, driver->ingest);
    return err;
}

static struct belfry_link_opts link_opts(struct driver *driver, const struct driver_opts *opts, const char *name)
{
    return (struct belfry_link_opts){.loop = driver->loop,
                                     .dns = driver->dns,
                                     .tls = opts->tls,
                                     .endpoints = driver->endpoints,
                                     .n_endpoints = driver->n_endpoints,
                                     .barred = driver->barred,
                                     .dial_timeout_ms = driver->dial_timeout_ms,
                                     .grpc = {.user_agent = opts->user_agent,
                                              .via = driver->name[0] != '\0' ? driver->name : NULL,
                                              .keepalive_ms = KEEPALIVE_MS,
                                              .keepalive_timeout_ms = KEEPALIVE_WAIT_MS,
                                              .max_message_bytes = MAX_MESSAGE_BYTES,
                                              .log = &driver->parts_log},
                                     .name = name,
                                     .seed = belfry_rng_next(&driver->rng),
                                     .log = &driver->parts_log};
}

static enum belfry_err create_stream(struct driver *driver, const struct driver_opts *opts, bool live,
                                     struct belfry_stream **out)
{
    struct belfry_stream_opts stream = {.link = link_opts(driver, opts, live ? "live" : "backfill"),
                                        .calls = driver->calls,
                                        .auth = &driver->auth,
                                        .identity = &driver->identity,
                                        .hasleader = true,
                                        .max_message_bytes = MAX_MESSAGE_BYTES,
                                        .max_revision_bytes = MAX_REVISION_BYTES,
                                        .owner_judges = true,
                                        .patient = true,
                                        .wants_version = live,
                                        .deliver = driver_deliver,
                                        .created = driver_created,
                                        .link_text = live ? on_live_text : on_back_text,
                                        .changed = on_changed,
                                        .user = driver};
    return belfry_stream_create(&stream, out);
}

/* The cluster that a warm replica is of is the one we look for: an endpoint of another one is left, if there are more. */
static void know_cluster(struct driver *driver)
{
    struct store_meta meta;
    driver->store->api->meta(driver->store, &meta);
    driver->identity = (struct belfry_identity){.cluster_id = meta.revision != 0 ? meta.cluster_id : 0,
                                                .n_endpoints = driver->n_endpoints};
}

static enum belfry_err create_parts(struct driver *driver, const struct driver_opts *opts)
{
    know_cluster(driver);
    enum belfry_err err = belfry_auth_init(&driver->auth, opts->user, opts->password, opts->password_file);
    if (err == BELFRY_OK)
        err = belfry_dns_create(driver->loop, &driver->dns);
    if (err != BELFRY_OK)
        return err;
    struct belfry_calls_opts calls = {.link = link_opts(driver, opts, "reads"),
                                      .auth = &driver->auth,
                                      .identity = &driver->identity,
                                      .hasleader = true,
                                      .changed = on_changed,
                                      .header = on_header,
                                      .auth_failed = on_auth_failed,
                                      .user = driver};
    err = belfry_calls_create(&calls, &driver->calls);
    if (err == BELFRY_OK)
        err = create_stream(driver, opts, true, &driver->live);
    if (err == BELFRY_OK)
        err = create_stream(driver, opts, false, &driver->back);
    return err;
}

static void start_handles(struct driver *driver)
{
    uv_timer_init(driver->loop, &driver->timer);
    uv_prepare_init(driver->loop, &driver->prepare);
    uv_check_init(driver->loop, &driver->check);
    driver->timer.data = driver->prepare.data = driver->check.data = driver;
    driver->n_handles = 3;
    uv_timer_start(&driver->timer, on_timer, 0, 0);
    uv_prepare_start(&driver->prepare, on_prepare);
    uv_check_start(&driver->check, on_check);
}

static void set_up(struct driver *driver, const struct driver_opts *opts, const struct driver_events *events,
                   void *user)
{
    driver->loop = opts->loop;
    driver->events = *events;
    driver->user = user;
    driver->log = opts->log;
    driver->parts_log = (struct belfry_log){.line = driver_log_part, .user = driver, .level = BELFRY_LOG_DEBUG};
    driver->machine_log = (struct belfry_log){.line = driver_log_machine, .user = driver, .level = BELFRY_LOG_DEBUG};
    driver->dial_timeout_ms = opts->dial_timeout_ms != 0 ? opts->dial_timeout_ms : DIAL_MS;
    driver->command_timeout_ms = opts->command_timeout_ms != 0 ? opts->command_timeout_ms : COMMAND_MS;
    driver->store = opts->store;
    driver->name = opts->name != NULL ? opts->name : "";
    driver->rng.state = opts->seed;
    driver->page_limit = INT64_MAX;
    driver->heard_ms = driver->unhold_ms = BELFRY_NEVER;
    belfry_buf_init(&driver->scratch);
    belfry_buf_init(&driver->refusals);
    for (unsigned i = 0; i < DRIVER_SLOTS; i++)
        driver->slots[i].driver = driver;
}

enum belfry_err driver_create(const struct driver_opts *opts, const struct driver_events *events, void *user,
                              struct driver **out)
{
    uint8_t *room;
    if (opts->n_endpoints == 0)
        return BELFRY_ERR_INVALID;
    struct driver *driver = calloc(1, sizeof(*driver));
    if (driver == NULL)
        return BELFRY_ERR_NOMEM;
    set_up(driver, opts, events, user);
    enum belfry_err err = copy_scope(driver, opts);
    if (err == BELFRY_OK)
        err = copy_endpoints(driver, opts);
    if (err == BELFRY_OK)
        err = belfry_buf_reserve(&driver->refusals, REFUSALS * sizeof(struct driver_refusal), &room);
    if (err == BELFRY_OK)
        err = create_machines(driver, opts);
    if (err == BELFRY_OK)
        err = create_parts(driver, opts);
    start_handles(driver); /* also for who fails: the parts that exist need the loop to go away */
    if (err != BELFRY_OK) {
        driver_destroy(driver);
        return err;
    }
    *out = driver;
    return BELFRY_OK;
}

/* ---- destroying ---- */

static void on_handle_closed(uv_handle_t *handle)
{
    struct driver *driver = handle->data;
    if (--driver->n_handles > 0)
        return;
    belfry_auth_fini(&driver->auth);
    belfry_buf_fini(&driver->scratch);
    belfry_buf_fini(&driver->refusals);
    free(driver->events_room);
    free(driver->endpoints);
    free(driver->barred);
    free(driver->scope);
    free(driver);
}

static void end_backfills(struct driver *driver)
{
    if (driver->backfill == NULL)
        return;
    backfill_cut(driver->backfill, UINT64_MAX, belfry_clock_ms());
    while (driver->backfills > 0) /* one that is asked from inside an answer is refused too */
        answer_backfills(driver);
}

void driver_destroy(struct driver *driver)
{
    if (driver == NULL)
        return;
    driver->closing = true;
    end_backfills(driver);
    if (driver->about.call != NULL)
        belfry_grpc_call_cancel(driver->about.call);
    belfry_stream_destroy(driver->live);
    belfry_stream_destroy(driver->back);
    belfry_calls_destroy(driver->calls);
    belfry_dns_destroy(driver->dns);
    if (driver->ingest != NULL)
        ingest_drained(driver->ingest, belfry_clock_ms());
    backfill_destroy(driver->backfill);
    upstream_destroy(driver->upstream);
    ingest_destroy(driver->ingest);
    uv_close((uv_handle_t *)&driver->timer, on_handle_closed);
    uv_close((uv_handle_t *)&driver->prepare, on_handle_closed);
    uv_close((uv_handle_t *)&driver->check, on_handle_closed);
}
