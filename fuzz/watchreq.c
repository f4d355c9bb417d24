/* fuzz/watchreq.c: any bytes as WatchRequests.
 *
 * Once as one message: where protobuf-c accepts it too, both must have read the same. They may differ in what they
 * accept: we give up at field number 0, at numbers beyond 2^29, at varints beyond 64 bits and at foreign wire types of
 * all known fields, where it goes on; it merges members of the union that come twice, where the last counts for us (as
 * in etcd).
 *
 * Once as the body of a watch stream on a real core, cut in two places that the first bytes choose: nothing may break,
 * and what is done, answered and said in the end must not depend on the cuts.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "fuzz/check.h"
#include "serve/etcd/watch.h"
#include "wire/rpc.pb-c.h"
#include "wire/scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- as one message ---- */

static bool appears_once(struct belfry_bytes message)
{
    size_t n = 0;
    for (uint32_t number = 1; number <= 3; number++) {
        size_t at = 0;
        struct belfry_bytes field;
        while (belfry_scan_field(message, number, &at, &field) == BELFRY_OK)
            n++;
    }
    return n <= 1;
}

static bool has_filter(const Etcdserverpb__WatchCreateRequest *create, int filter)
{
    for (size_t i = 0; i < create->n_filters; i++)
        if ((int)create->filters[i] == filter)
            return true;
    return false;
}

static void same_data(struct belfry_bytes ours, ProtobufCBinaryData theirs)
{
    check(belfry_bytes_equal(ours, belfry_bytes_of(theirs.data, theirs.len)));
}

static void same_create(const struct belfry_wire_watch_request *ours, const Etcdserverpb__WatchCreateRequest *theirs)
{
    same_data(ours->key, theirs->key);
    same_data(ours->range_end, theirs->range_end);
    check(ours->start_revision == theirs->start_revision);
    check(ours->watch_id == theirs->watch_id);
    check(ours->progress_notify == theirs->progress_notify);
    check(ours->prev_kv == theirs->prev_kv);
    check(ours->fragment == theirs->fragment);
    check(ours->no_put == has_filter(theirs, ETCDSERVERPB__WATCH_CREATE_REQUEST__FILTER_TYPE__NOPUT));
    check(ours->no_delete == has_filter(theirs, ETCDSERVERPB__WATCH_CREATE_REQUEST__FILTER_TYPE__NODELETE));
}

static void same_request(const struct belfry_wire_watch_request *ours, const Etcdserverpb__WatchRequest *theirs)
{
    switch (ours->kind) {
    case BELFRY_WATCH_NOTHING:
        check(theirs->request_union_case == ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION__NOT_SET);
        break;
    case BELFRY_WATCH_CREATE:
        check(theirs->request_union_case == ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST);
        same_create(ours, theirs->create_request);
        break;
    case BELFRY_WATCH_CANCEL:
        check(theirs->request_union_case == ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST);
        check(ours->watch_id == theirs->cancel_request->watch_id);
        break;
    case BELFRY_WATCH_PROGRESS:
        check(theirs->request_union_case == ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_PROGRESS_REQUEST);
        break;
    }
}

static void as_message(const uint8_t *data, size_t size)
{
    struct belfry_bytes message = belfry_bytes_of(data, size);
    struct belfry_wire_watch_request ours;
    if (belfry_scan_watch_request(message, &ours) != BELFRY_OK || !appears_once(message))
        return;
    Etcdserverpb__WatchRequest *theirs = etcdserverpb__watch_request__unpack(NULL, size, data);
    if (theirs == NULL)
        return;
    same_request(&ours, theirs);
    etcdserverpb__watch_request__free_unpacked(theirs, NULL);
}

/* ---- as a stream ---- */

/* Auth is off. */
bool permit_is_open_to(struct permit *permit, const struct identity *who, uint64_t now_ms)
{
    (void)permit, (void)who, (void)now_ms;
    return true;
}

enum permit_regime permit_regime(const struct permit *permit, const struct permit_party *party)
{
    (void)permit, (void)party;
    return PERMIT_OPEN;
}

bool permit_may_deliver(const struct permit *permit, const struct permit_party *party, uint64_t now_ms)
{
    (void)permit, (void)party, (void)now_ms;
    return true;
}

void permit_join(struct permit *permit, struct permit_party *party, const struct identity *who, permit_party_fn fn)
{
    (void)permit, (void)who;
    party->fn = fn;
}

void permit_leave(struct permit *permit, struct permit_party *party)
{
    (void)permit;
    party->fn = NULL;
}

void permit_listen(struct permit *permit, void (*fn)(void *user), void *user)
{
    (void)permit, (void)fn, (void)user;
}

void permit_unlisten(struct permit *permit, const void *user)
{
    (void)permit, (void)user;
}

enum belfry_err permit_hold(struct permit *permit, struct permit_party *party, struct belfry_bytes key,
                            struct belfry_bytes range_end, uint64_t now_ms, permit_fn fn, void *user,
                            struct permit_question **out)
{
    (void)permit, (void)party, (void)key, (void)range_end, (void)now_ms, (void)fn, (void)user, (void)out;
    abort();
}

void permit_cancel(struct permit_question *question)
{
    (void)question;
    abort();
}

struct peer {
    struct exchange x;
    struct exchange_conn conn;
    struct belfry_buf body;
    size_t came, taken;
    bool ended;
    char status[64];
};

static struct peer *peer_of(struct exchange *x)
{
    return (struct peer *)(void *)x; /* its first member */
}

static void on_taken(struct exchange *x, size_t n)
{
    peer_of(x)->taken += n;
    check(peer_of(x)->taken <= peer_of(x)->came);
}

static void on_respond(struct exchange *x, int status, const struct belfry_http_field *fields, size_t n)
{
    (void)x, (void)fields, (void)n;
    check(status == 200);
}

static size_t on_room(struct exchange *x)
{
    (void)x;
    return EXCHANGE_ROOM;
}

static void on_write(struct exchange *x, const void *data, size_t len)
{
    check(belfry_buf_append(&peer_of(x)->body, data, len) == BELFRY_OK);
}

static void on_end(struct exchange *x, const struct belfry_http_field *fields, size_t n)
{
    struct peer *peer = peer_of(x);
    check(!peer->ended);
    peer->ended = true;
    for (size_t i = 0; i < n; i++) {
        if (!belfry_bytes_equal(fields[i].name, belfry_bytes_str("grpc-message")))
            continue;
        size_t len = fields[i].value.len < sizeof(peer->status) ? fields[i].value.len : sizeof(peer->status);
        memcpy(peer->status, fields[i].value.data, len);
    }
}

static void on_answer(struct exchange *x, int status, const struct belfry_http_field *fields, size_t n,
                      struct belfry_bytes body)
{
    (void)status, (void)body;
    on_end(x, fields, n);
}

static void on_reset(struct exchange *x, uint32_t h2_code)
{
    (void)x, (void)h2_code;
    abort();
}

static const struct exchange_ops ops = {on_taken, on_respond, on_room, on_write, on_end, on_answer, on_reset};

static uint64_t now(void *user)
{
    (void)user;
    return 1000;
}

static void work(void *user)
{
    (void)user;
}

static void begin(struct watch_service *service, struct peer *peer)
{
    static const char *const text[] = {"content-type", "application/grpc", "grpc-encoding", "gzip"};
    struct belfry_http_field fields[2];
    for (size_t i = 0; i < 2; i++)
        fields[i] = (struct belfry_http_field){belfry_bytes_str(text[2 * i]), belfry_bytes_str(text[2 * i + 1])};
    struct exchange_head head = {.method = belfry_bytes_str("POST"), .fields = fields, .n_fields = 2};
    *peer = (struct peer){.x = {.ops = &ops, .conn = &peer->conn}};
    watch_begin(service, &peer->x, &head, 1000);
    check(peer->x.events != NULL);
}

static void send_part(struct peer *peer, const uint8_t *data, size_t len)
{
    if (peer->ended || len == 0)
        return;
    uint8_t *exact = malloc(len); /* so that a byte too many is seen */
    check(exact != NULL);
    memcpy(exact, data, len);
    peer->came += len;
    peer->x.events->body(&peer->x, belfry_bytes_of(exact, len), peer->x.user);
    free(exact);
}

static void turns(struct watch_service *service, struct worker *worker)
{
    do {
        worker_turn(worker, 1000, 1000000);
        watch_after_turn(service, 1000);
    } while (watch_due(service) == 0);
    worker_turn(worker, 1000, 1000000);
    watch_after_turn(service, 1000);
}

/* Sends the bytes cut at `a` and `b`; what it says is the caller's to free. */
static void as_stream(const uint8_t *data, size_t size, size_t a, size_t b, struct peer *peer)
{
    struct evlog_opts log_opts = {.capacity_log2 = 4, .max_bytes = 1 << 20, .n_workers = 1};
    struct worker_opts opts = {.seed = 1,
                               .fragment_bytes = 2 << 20,
                               .response_bytes = 1 << 20,
                               .response_revs = 1000,
                               .segment_bytes = 1 << 20,
                               .write = watch_write};
    struct watch_service_opts watch_opts = {.now = now, .work = work, .seed = 1};
    struct worker *worker;
    struct watch_service *service;
    check(evlog_create(&log_opts, &opts.log) == BELFRY_OK);
    check(evlog_cut(opts.log, 10, EVLOG_CUT_START, 0) == BELFRY_OK);
    check(worker_create(&opts, &worker) == BELFRY_OK);
    check(watch_create(&watch_opts, &service) == BELFRY_OK);
    watch_set_worker(service, worker);
    watch_stand(service, WATCH_READY, "");
    worker_turn(worker, 1000, 100);
    begin(service, peer);
    send_part(peer, data, a);
    send_part(peer, data + a, b - a);
    send_part(peer, data + b, size - b);
    turns(service, worker);
    if (!peer->ended) {
        check(peer->taken == peer->came); /* everything was handled, or is a message that is not whole */
        peer->x.events->body_end(&peer->x, peer->x.user);
    }
    watch_destroy(service);
    check(peer->ended);
    worker_destroy(worker);
    evlog_destroy(opts.log);
}

#define BODY_MAX 8192

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4 || size > BODY_MAX)
        return 0;
    as_message(data, size);
    size_t a = (size_t)(data[0] | data[1] << 8), b = (size_t)(data[2] | data[3] << 8);
    data += 4;
    size -= 4;
    a %= size + 1;
    b %= size + 1;
    struct peer whole, cut;
    as_stream(data, size, 0, 0, &whole);
    as_stream(data, size, a < b ? a : b, a < b ? b : a, &cut);
    /* a stream that ends in the middle says what was handled before it or not, by when the turn came */
    check(memcmp(whole.status, cut.status, sizeof(whole.status)) == 0);
    if (whole.status[0] == '\0' || memcmp(whole.status, "belfry: draining", 16) == 0)
        check(belfry_bytes_equal(belfry_buf_bytes(&whole.body), belfry_buf_bytes(&cut.body)));
    belfry_buf_fini(&whole.body);
    belfry_buf_fini(&cut.body);
    return 0;
}
