/* src/serve/etcd/health.c
 *
 * The messages are a few bytes each, so they are written by hand: HealthCheckRequest is {service=1 string},
 * HealthCheckResponse {status=1 enum}.
 */
#include "serve/etcd/health.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/owner.h"
#include "net/grpc_frame.h"
#include "server/grpc_answer.h"
#include "server/pace.h"
#include "wire/scan.h"

#define PATH      "/grpc.health.v1.Health/"
#define TURN_ENDS 256 /* late calls that one call of health_end_late() ends */

enum serving { SERVING = 1, NOT_SERVING = 2, SERVICE_UNKNOWN = 3 }; /* on the wire */

struct health {
    uint64_t message_ms;
    struct belfry_list reading; /* calls whose message is not whole, in the order in which they began */
    struct belfry_list calls;   /* the others that are not answered */
    bool ready;
    char reason[160];
    char server[32], cluster[32];
    BELFRY_OWNER;
};

enum call_state { READING, WATCHING };

struct health_call {
    struct belfry_list link;
    struct health *health;
    struct exchange *x;
    enum call_state state; /* moved by health_call_watch() alone */
    bool is_watch;
    bool known;        /* WATCHING: the service is known */
    enum serving told; /* WATCHING: the state that was sent last */
    uint64_t since_ms; /* READING: when the head came */
    struct belfry_grpc_frame frame;
};

/* ---- calls ---- */

static void health_call_free(struct health_call *call)
{
    belfry_list_remove(&call->link);
    belfry_grpc_frame_fini(&call->frame);
    free(call);
}

static void health_call_fail(struct health_call *call, int code, const char *text)
{
    grpc_fail(call->x, call->state == WATCHING ? GRPC_HEADERS_SENT : GRPC_HEADERS_NOT_SENT, code, text);
    health_call_free(call);
}

static enum serving serving(const struct health *health)
{
    return health->ready ? SERVING : NOT_SERVING;
}

#define RESPONSE_BYTES 2

static void write_response(uint8_t to[RESPONSE_BYTES], enum serving status)
{
    to[0] = 1 << 3; /* field 1, a varint */
    to[1] = (uint8_t)status;
}

/* Sends the state, if it has changed and there is room. */
static void health_call_tell(struct health_call *call)
{
    uint8_t message[BELFRY_GRPC_PREFIX_BYTES + RESPONSE_BYTES];
    enum serving status = call->known ? serving(call->health) : SERVICE_UNKNOWN;
    if (status == call->told || exchange_room(call->x) < sizeof(message))
        return;
    call->told = status;
    belfry_grpc_frame_prefix(message, RESPONSE_BYTES);
    write_response(message + BELFRY_GRPC_PREFIX_BYTES, status);
    exchange_write(call->x, message, sizeof(message));
}

static void health_call_watch(struct health_call *call, bool known)
{
    call->state = WATCHING;
    belfry_list_remove(&call->link);
    belfry_list_append(&call->health->calls, &call->link);
    call->known = known;
    grpc_begin(call->x, belfry_bytes_str("application/grpc"));
    health_call_tell(call);
}

static void health_call_check(struct health_call *call, bool known)
{
    uint8_t message[RESPONSE_BYTES];
    if (!known) {
        health_call_fail(call, 5, "unknown service");
        return;
    }
    write_response(message, serving(call->health));
    grpc_reply(call->x, belfry_bytes_str("application/grpc"), belfry_bytes_of(message, sizeof(message)));
    health_call_free(call);
}

/* The last appearance of the service's name counts. False: malformed. */
static bool read_service(struct belfry_bytes message, struct belfry_bytes *out)
{
    size_t at = 0;
    enum belfry_err err;
    *out = (struct belfry_bytes){0};
    do
        err = belfry_scan_field(message, 1, &at, out);
    while (err == BELFRY_OK);
    return err == BELFRY_ERR_AGAIN;
}

static void health_call_take_message(struct health_call *call, struct belfry_bytes message)
{
    struct belfry_bytes service;
    if (!read_service(message, &service))
        health_call_fail(call, 13, "grpc: error unmarshalling request: proto: malformed HealthCheckRequest");
    else if (call->is_watch)
        health_call_watch(call, service.len == 0);
    else
        health_call_check(call, service.len == 0);
}

static void fail_frame(struct health_call *call, enum belfry_err err)
{
    if (err == BELFRY_ERR_TOO_LARGE)
        health_call_fail(call, 8, "grpc: received message larger than max");
    else if (err == BELFRY_ERR_PROTOCOL)
        health_call_fail(call, 13, "grpc: received unexpected payload format");
    else
        health_call_fail(call, 14, "belfry: memory limit reached; try again");
}

static void on_health_body(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    struct health_call *call = user;
    struct belfry_blob *message = NULL;
    bool compressed = false;
    exchange_taken(x, bytes.len);
    if (call->state == WATCHING) /* there is only one request */
        return;
    enum belfry_err err = belfry_grpc_frame_feed(&call->frame, &bytes, HEALTH_REQUEST_BYTES, &message, &compressed);
    if (err != BELFRY_OK)
        fail_frame(call, err);
    else if (message != NULL && compressed)
        health_call_fail(call, 12, "belfry: health requests are not read compressed");
    else if (message != NULL)
        health_call_take_message(call, belfry_blob_bytes(message));
    belfry_blob_unref(message);
}

static void on_health_body_end(struct exchange *x, void *user)
{
    struct health_call *call = user;
    (void)x;
    if (call->state == READING)
        health_call_fail(call, 13, "unexpected EOF");
}

static void on_health_writable(struct exchange *x, void *user)
{
    struct health_call *call = user;
    (void)x;
    if (call->state == WATCHING)
        health_call_tell(call);
}

static void on_health_gone(struct exchange *x, void *user)
{
    (void)x;
    health_call_free(user);
}

static const struct exchange_events call_events = {
    .body = on_health_body, .body_end = on_health_body_end, .writable = on_health_writable, .gone = on_health_gone};

/* ---- beginning ---- */

bool health_is(struct belfry_bytes path)
{
    return belfry_bytes_begins(path, belfry_bytes_str(PATH));
}

void health_begin(struct health *health, struct exchange *x, const struct exchange_head *head, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(health);
    bool is_watch = belfry_bytes_equal(head->path, belfry_bytes_str(PATH "Watch"));
    uint64_t timeout_ms; /* unused: Check is answered immediately, and a client ends a Watch by a reset */
    if (grpc_refuse_head(x, head, &timeout_ms))
        return;
    if (!is_watch && !belfry_bytes_equal(head->path, belfry_bytes_str(PATH "Check"))) {
        grpc_fail(x, GRPC_HEADERS_NOT_SENT, 12, "unknown method for service grpc.health.v1.Health");
        return;
    }
    struct health_call *call = calloc(1, sizeof(*call));
    if (call == NULL) {
        grpc_fail(x, GRPC_HEADERS_NOT_SENT, 14, "belfry: memory limit reached; try again");
        return;
    }
    *call = (struct health_call){.health = health, .x = x, .is_watch = is_watch, .since_ms = now_ms};
    belfry_grpc_frame_init(&call->frame);
    belfry_list_append(&health->reading, &call->link);
    exchange_handle(x, &call_events, call);
}

static struct health_call *first_reading(const struct health *health)
{
    return belfry_list_empty(&health->reading) ? NULL
                                               : belfry_container(health->reading.next, struct health_call, link);
}

size_t health_end_late(struct health *health, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(health);
    size_t n = 0;
    for (; n < TURN_ENDS && health_due(health) <= now_ms; n++)
        health_call_fail(first_reading(health), 14, "belfry: the request was not complete in time");
    return n;
}

uint64_t health_due(const struct health *health)
{
    const struct health_call *call = first_reading(health);
    return call == NULL ? BELFRY_NEVER : call->since_ms + health->message_ms;
}

/* ---- HTTP ---- */

static void answer_http(struct exchange *x, int status, const char *type, const char *body)
{
    struct belfry_http_field fields[] = {{belfry_bytes_str("content-type"), belfry_bytes_str(type)},
                                         {belfry_bytes_str("allow"), belfry_bytes_str("GET")}};
    exchange_answer(x, status, fields, status == 405 ? 2 : 1, belfry_bytes_str(body));
}

static bool refuse_method(struct exchange *x, const struct exchange_head *head)
{
    if (belfry_bytes_equal(head->method, belfry_bytes_str("GET")))
        return false;
    answer_http(x, 405, "text/plain; charset=utf-8", "Method Not Allowed\n");
    return true;
}

/* `text` inside the quotes of JSON; `to` has room for six times its length and a zero byte. */
static void escape_json(const char *text, char *to)
{
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            *to++ = '\\';
        if ((unsigned char)*text < 0x20)
            to += sprintf(to, "\\u%04x", (unsigned char)*text);
        else
            *to++ = *text;
    }
    *to = '\0';
}

void health_http(struct health *health, struct exchange *x, const struct exchange_head *head)
{
    BELFRY_OWNER_CHECK(health);
    char reason[6 * sizeof(health->reason) + 1], body[sizeof(reason) + 64];
    if (refuse_method(x, head))
        return;
    escape_json(health->ready ? "" : health->reason, reason);
    snprintf(body, sizeof(body), "{\"health\":\"%s\",\"reason\":\"%s\"}", health->ready ? "true" : "false", reason);
    answer_http(x, health->ready ? 200 : 503, "application/json", body);
}

/* Kubernetes 1.33's API is what is served. */
static const char kube_version[] =
    ",\"major\":\"1\",\"minor\":\"33\",\"gitVersion\":\"v1.33.0+belfry-" BELFRY_VERSION "\",\"gitCommit\":\"\","
    "\"gitTreeState\":\"clean\",\"buildDate\":\"1970-01-01T00:00:00Z\",\"goVersion\":\"\",\"compiler\":\"\","
    "\"platform\":\"linux/amd64\"";

void health_version(struct health *health, struct exchange *x, const struct exchange_head *head,
                    enum health_version which)
{
    BELFRY_OWNER_CHECK(health);
    char server[6 * sizeof(health->server) + 1], cluster[6 * sizeof(health->cluster) + 1], body[1024];
    if (refuse_method(x, head))
        return;
    escape_json(health->server, server);
    escape_json(health->cluster[0] == '\0' ? "not_decided" : health->cluster, cluster); /* etcd's word for unknown */
    snprintf(body, sizeof(body), "{\"etcdserver\":\"%s\",\"etcdcluster\":\"%s\"%s}", server, cluster,
             which == HEALTH_VERSION_KUBE ? kube_version : "");
    answer_http(x, 200, "application/json", body);
}

/* ---- standing ---- */

void health_stand(struct health *health, bool ready, const char *reason)
{
    BELFRY_OWNER_CHECK(health);
    health->ready = ready;
    snprintf(health->reason, sizeof(health->reason), "%s", reason);
    belfry_list_each (node, &health->calls)
        health_call_tell(belfry_container(node, struct health_call, link));
}

void health_set_versions(struct health *health, const char *server, const char *cluster)
{
    BELFRY_OWNER_CHECK(health);
    snprintf(health->server, sizeof(health->server), "%s", server);
    snprintf(health->cluster, sizeof(health->cluster), "%s", cluster);
}

void health_set_message_time(struct health *health, uint64_t message_ms)
{
    health->message_ms = message_ms != 0 ? message_ms : PACE_MS;
}

enum belfry_err health_create(uint64_t message_ms, struct health **out)
{
    struct health *health = calloc(1, sizeof(*health));
    if (health == NULL)
        return BELFRY_ERR_NOMEM;
    health_set_message_time(health, message_ms);
    belfry_list_init(&health->reading);
    belfry_list_init(&health->calls);
    health_stand(health, false, "starting");
    BELFRY_OWNER_INIT(health);
    *out = health;
    return BELFRY_OK;
}

void health_destroy(struct health *health)
{
    if (health == NULL)
        return;
    BELFRY_OWNER_CHECK(health);
    belfry_list_move_all(&health->calls, &health->reading);
    while (!belfry_list_empty(&health->calls))
        health_call_fail(belfry_container(health->calls.next, struct health_call, link), 14, "belfry: shutting down");
    free(health);
}
