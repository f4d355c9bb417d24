/* tests/storm/etcd.c */
#include "storm/etcd.h"

#include <string.h>

#include "base/clock.h"
#include "storm/feed.h"
#include "storm/messages.h"
#include "storm/origin.h"
#include "storm/verdict.h"
#include "wire/rpc.pb-c.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ANSWER_MAX   (200 * 1024)
#define ETCD_TTL_S   30
#define NO_USER      "etcdserver: user name is empty"
#define BAD_TOKEN    "etcdserver: invalid auth token"
#define DENIED       "etcdserver: permission denied"
#define FUTURE       "etcdserver: mvcc: required revision is a future revision"
#define AUTH_OFF     "etcdserver: authentication is not enabled"
#define AUTH_FAILED  "etcdserver: authentication failed, invalid user ID or password"

static struct {
    struct choices *choices;
    bool auth;
    bool is_orderly;
    int64_t last_lease;
} etcd;

/* ---- answers ---- */

static void call_respond(struct origin_call *call)
{
    static const struct origin_field head[] = {{"content-type", "application/grpc"}};
    origin_respond(call, "200", head, COUNT(head));
}

static void call_end(struct origin_call *call, const char *status, const char *message)
{
    const struct origin_field trailers[] = {{"grpc-status", status}, {"grpc-message", message}};
    call_respond(call);
    origin_end(call, trailers, COUNT(trailers));
}

static void call_message(struct origin_call *call, const void *message, size_t len)
{
    const uint8_t prefix[] = {0, (uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len};
    call_respond(call);
    origin_write(call, prefix, sizeof(prefix));
    origin_write(call, message, len);
}

/* Of every response. */
static Etcdserverpb__ResponseHeader response_header(void)
{
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    header.cluster_id = 7;
    header.member_id = 8;
    header.raft_term = 9;
    header.revision = feed_head();
    return header;
}

/* A message with nothing but a header, and perhaps more. */
static void call_answer_header(struct origin_call *call, size_t more)
{
    static uint8_t packed[ANSWER_MAX + 64];
    Etcdserverpb__ResponseHeader header = response_header();
    Etcdserverpb__RangeResponse response = ETCDSERVERPB__RANGE_RESPONSE__INIT;
    response.header = &header;
    size_t len = etcdserverpb__range_response__pack(&response, packed);
    if (more > 4) { /* a field that no reader knows, as long as it is wanted */
        packed[len++] = 15 << 3 | 2;
        for (size_t n = more; len < sizeof(packed); n >>= 7) {
            packed[len++] = (uint8_t)((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
            if (n <= 0x7f)
                break;
        }
        memset(packed + len, 'u', more);
        len += more;
    }
    call_message(call, packed, len);
    call_end(call, "0", "");
}

static void call_log_in(struct origin_call *call)
{
    struct belfry_bytes body = belfry_buf_bytes(&call->body);
    Etcdserverpb__AuthenticateResponse response;
    static char jwt[] = "e30.eyJyZXZpc2lvbiI6MTd9.c2ln"; /* with the revision 17 of the auth store */
    uint8_t packed[256];
    etcdserverpb__authenticate_response__init(&response);
    response.token = jwt;
    if (!etcd.auth)
        call_end(call, "9", AUTH_OFF);
    else if (body.len <= 5) /* without a name: is auth on? */
        call_end(call, "3", AUTH_FAILED);
    else {
        call_message(call, packed, etcdserverpb__authenticate_response__pack(&response, packed));
        call_end(call, "0", "");
    }
}

/* Why it is refused; NULL: it is not. */
static const char *call_refusal(const struct origin_call *call, const char **status)
{
    struct belfry_bytes body = belfry_buf_bytes(&call->body);
    bool is_made = strchr(call->token, '.') != NULL, is_part = strcmp(call->token, ETCD_PART) == 0;
    if (!etcd.auth || is_made || strcmp(call->token, ETCD_ROOT) == 0)
        return NULL;
    *status = call->token[0] == '\0' ? "3" : is_part ? "7" : "16";
    if (!is_part)
        return call->token[0] == '\0' ? NO_USER : BAD_TOKEN;
    return body.len > 0 && memmem(body.data, body.len, "/b", 2) != NULL ? DENIED : NULL;
}

static bool call_is_read(const struct origin_call *call)
{
    return strcmp(call->path, "/etcdserverpb.KV/Range") == 0;
}

/* A call that is passed on: whatever the run likes. */
static void call_answer_any(struct origin_call *call)
{
    switch (call_is_read(call) ? 0 : choose(etcd.choices, 8)) {
    case 0:
    case 1:
    case 2:
        call_answer_header(call, 0);
        break;
    case 3:
        call_answer_header(call, choose(etcd.choices, ANSWER_MAX));
        break;
    case 4:
        call_end(call, "5", "etcdserver: requested lease not found");
        break;
    case 5:
        call_end(call, "14", "etcdserver: leader changed");
        break;
    case 6:
        origin_reset(call, choose(etcd.choices, 14));
        break;
    case 7: /* it never is */
        break;
    }
}

/* ---- in good order ---- */

static void call_grant(struct origin_call *call)
{
    Etcdserverpb__ResponseHeader header = response_header();
    Etcdserverpb__LeaseGrantResponse response;
    uint8_t packed[128];
    etcdserverpb__lease_grant_response__init(&response);
    response.header = &header;
    response.id = ++etcd.last_lease;
    response.ttl = ETCD_TTL_S;
    call_message(call, packed, etcdserverpb__lease_grant_response__pack(&response, packed));
    call_end(call, "0", "");
}

/* Each message is a question, and is answered immediately. */
static void call_keep_alive(struct origin_call *call)
{
    struct belfry_bytes message;
    uint8_t packed[128];
    for (; messages_first(&call->body, &message); messages_drop(&call->body, message)) {
        Etcdserverpb__LeaseKeepAliveRequest *request =
            etcdserverpb__lease_keep_alive_request__unpack(NULL, message.len, (const uint8_t *)message.data);
        Etcdserverpb__ResponseHeader header = response_header();
        Etcdserverpb__LeaseKeepAliveResponse response = ETCDSERVERPB__LEASE_KEEP_ALIVE_RESPONSE__INIT;
        verdict_must(request != NULL, "a keep-alive");
        response.header = &header;
        response.id = request->id;
        response.ttl = ETCD_TTL_S;
        etcdserverpb__lease_keep_alive_request__free_unpacked(request, NULL);
        call_message(call, packed, etcdserverpb__lease_keep_alive_response__pack(&response, packed));
    }
}

static bool call_is(const struct origin_call *call, const char *path)
{
    return strcmp(call->path, path) == 0;
}

/* How long values are that it asks for. Now and then they are many. */
static size_t call_value_len(const struct origin_call *call)
{
    struct belfry_bytes message;
    if (!call_is_read(call) || !messages_first(&call->body, &message))
        return 0;
    Etcdserverpb__RangeRequest *range =
        etcdserverpb__range_request__unpack(NULL, message.len, (const uint8_t *)message.data);
    bool has_values = range != NULL && !range->count_only;
    etcdserverpb__range_request__free_unpacked(range, NULL);
    return has_values ? 5 + choose(etcd.choices, choose_rarely(etcd.choices, 8) ? ANSWER_MAX - 5 : 2000) : 0;
}

static void call_answer_orderly(struct origin_call *call)
{
    if (call_is(call, "/etcdserverpb.Lease/LeaseGrant"))
        call_grant(call);
    else if (call_is(call, "/etcdserverpb.Lease/LeaseKeepAlive"))
        call_end(call, "0", ""); /* the client has ended it */
    else
        call_answer_header(call, call_value_len(call));
}

static void call_answer_later(struct origin_call *call)
{
    uint32_t most = choose_rarely(etcd.choices, 16) ? 800 : 10;
    call->due_ms = belfry_clock_ms() + choose(etcd.choices, most);
}

/* ---- what is asked ---- */

static void call_serve(struct origin_call *call)
{
    const char *status = "0", *why = NULL;
    if (strcmp(call->path, "/etcdserverpb.Auth/Authenticate") == 0)
        call_log_in(call);
    else if ((why = call_refusal(call, &status)) != NULL)
        call_end(call, status, why);
    else if (call->is_question)
        call_end(call, "11", FUTURE);
    else if (etcd.is_orderly)
        call_answer_later(call);
    else
        call_answer_any(call);
}

/* A stream of messages, such as LeaseKeepAlive. */
static void call_take_more(struct origin_call *call)
{
    if (etcd.is_orderly && call_is(call, "/etcdserverpb.Lease/LeaseKeepAlive"))
        call_keep_alive(call);
    else if (!etcd.is_orderly && choose(etcd.choices, 2) == 0)
        call_message(call, "\x08\x01", 2);
}

/* ---- the run's ---- */

void etcd_open(const char *path, struct choices *choices)
{
    static const struct origin_dialect dialect = {call_serve, call_take_more, call_answer_orderly};
    memset(&etcd, 0, sizeof(etcd));
    etcd.choices = choices;
    origin_open(&dialect, path, choices);
}

void etcd_set_orderly(void)
{
    etcd.is_orderly = true;
    origin_set_orderly();
}

void etcd_set_auth(bool on)
{
    etcd.auth = on;
}

bool etcd_has_auth(void)
{
    return etcd.auth;
}
