/* src/serve/etcd/health.c
 *
 * The messages are a few bytes each, so they are written by hand: HealthCheckRequest is {service=1 string},
 * HealthCheckResponse {status=1 enum}.
 */
#include "serve/etcd/health.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "net/grpc_frame.h"
#include "server/grpc_answer.h"
#include "wire/scan.h"

#define PATH "/grpc.health.v1.Health/"

enum serving { SERVING = 1, NOT_SERVING = 2, SERVICE_UNKNOWN = 3 }; /* on the wire */

struct health {
    struct belfry_list calls; /* all that are not answered */
    bool ready;
    char reason[160];
    char server[32], cluster[32];
};

enum call_state { READING, WATCHING };

struct call {
    struct belfry_list link;
    struct health *health;
    struct exchange *x;
    enum call_state state; /* moved by watch() alone */
    bool is_watch;
    bool known;        /* WATCHING: the service that was asked for */
    enum serving told; /* WATCHING: what was said last */
    struct belfry_grpc_frame frame;
};

/* ---- calls ---- */

static void drop(struct call *call)
{
    belfry_list_remove(&call->link);
    belfry_grpc_frame_fini(&call->frame);
    free(call);
}

static void fail(struct call *call, int code, const char *text)
{
    grpc_fail(call->x, call->state == WATCHING ? GRPC_HEADERS_SENT : GRPC_HEADERS_NOT_SENT, code, text);
    drop(call);
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

/* Says how things stand, if it is news and there is room. */
static void tell(struct call *call)
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

static void watch(struct call *call, bool known)
{
    call->state = WATCHING;
    call->known = known;
    grpc_begin(call->x, belfry_bytes_str("application/grpc"));
    tell(call);
}

static void check(struct call *call, bool known)
{
    uint8_t message[RESPONSE_BYTES];
    if (!known) {
        fail(call, 5, "unknown service");
        return;
    }
    write_response(message, serving(call->health));
    grpc_reply(call->x, belfry_bytes_str("application/grpc"), belfry_bytes_of(message, sizeof(message)));
    drop(call);
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

static void on_message(struct call *call, struct belfry_bytes message)
{
    struct belfry_bytes service;
    if (!read_service(message, &service))
        fail(call, 13, "grpc: error unmarshalling request: proto: malformed HealthCheckRequest");
    else if (call->is_watch)
        watch(call, service.len == 0);
    else
        check(call, service.len == 0);
}

static void fail_frame(struct call *call, enum belfry_err err)
{
    if (err == BELFRY_ERR_TOO_LARGE)
        fail(call, 8, "grpc: received message larger than max");
    else if (err == BELFRY_ERR_PROTOCOL)
        fail(call, 13, "grpc: received unexpected payload format");
    else
        fail(call, 14, "belfry: memory limit reached; try again");
}

static void on_body(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    struct call *call = user;
    struct belfry_blob *message = NULL;
    bool compressed = false;
    exchange_taken(x, bytes.len);
    if (call->state == WATCHING) /* one request is all there is */
        return;
    enum belfry_err err = belfry_grpc_frame_feed(&call->frame, &bytes, HEALTH_REQUEST_BYTES, &message, &compressed);
    if (err != BELFRY_OK)
        fail_frame(call, err);
    else if (message != NULL && compressed)
        fail(call, 12, "belfry: health requests are not read compressed");
    else if (message != NULL)
        on_message(call, belfry_blob_bytes(message));
    belfry_blob_unref(message);
}

static void on_body_end(struct exchange *x, void *user)
{
    struct call *call = user;
    (void)x;
    if (call->state == READING)
        fail(call, 13, "unexpected EOF");
}

static void on_writable(struct exchange *x, void *user)
{
    struct call *call = user;
    (void)x;
    if (call->state == WATCHING)
        tell(call);
}

static void on_gone(struct exchange *x, void *user)
{
    (void)x;
    drop(user);
}

static const struct exchange_events call_events = {
    .body = on_body, .body_end = on_body_end, .writable = on_writable, .gone = on_gone};

/* ---- beginning ---- */

bool health_is(struct belfry_bytes path)
{
    return belfry_bytes_begins(path, belfry_bytes_str(PATH));
}

void health_begin(struct health *health, struct exchange *x, const struct exchange_head *head)
{
    bool is_watch = belfry_bytes_equal(head->path, belfry_bytes_str(PATH "Watch"));
    uint64_t timeout_ms; /* Check is answered at once, and who gives up a Watch resets it */
    if (grpc_refuse_head(x, head, &timeout_ms))
        return;
    if (!is_watch && !belfry_bytes_equal(head->path, belfry_bytes_str(PATH "Check"))) {
        grpc_fail(x, GRPC_HEADERS_NOT_SENT, 12, "unknown method for service grpc.health.v1.Health");
        return;
    }
    struct call *call = calloc(1, sizeof(*call));
    if (call == NULL) {
        grpc_fail(x, GRPC_HEADERS_NOT_SENT, 14, "belfry: memory limit reached; try again");
        return;
    }
    *call = (struct call){.health = health, .x = x, .is_watch = is_watch};
    belfry_grpc_frame_init(&call->frame);
    belfry_list_append(&health->calls, &call->link);
    exchange_handle(x, &call_events, call);
}

/* ---- HTTP ---- */

static void answer(struct exchange *x, int status, const char *type, const char *body)
{
    struct exchange_field fields[] = {{belfry_bytes_str("content-type"), belfry_bytes_str(type)},
                                      {belfry_bytes_str("allow"), belfry_bytes_str("GET")}};
    exchange_answer(x, status, fields, status == 405 ? 2 : 1, belfry_bytes_str(body));
}

static bool refuse_method(struct exchange *x, const struct exchange_head *head)
{
    if (belfry_bytes_equal(head->method, belfry_bytes_str("GET")))
        return false;
    answer(x, 405, "text/plain; charset=utf-8", "Method Not Allowed\n");
    return true;
}

/* `text` inside the quotes of JSON; `to` has room for six times its length and a zero byte. */
static void escape(const char *text, char *to)
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
    char reason[6 * sizeof(health->reason) + 1], body[sizeof(reason) + 64];
    if (refuse_method(x, head))
        return;
    escape(health->ready ? "" : health->reason, reason);
    snprintf(body, sizeof(body), "{\"health\":\"%s\",\"reason\":\"%s\"}", health->ready ? "true" : "false", reason);
    answer(x, health->ready ? 200 : 503, "application/json", body);
}

/* Kubernetes 1.33's API is what is served. */
static const char kube_version[] =
    ",\"major\":\"1\",\"minor\":\"33\",\"gitVersion\":\"v1.33.0+belfry-" BELFRY_VERSION "\",\"gitCommit\":\"\","
    "\"gitTreeState\":\"clean\",\"buildDate\":\"1970-01-01T00:00:00Z\",\"goVersion\":\"\",\"compiler\":\"\","
    "\"platform\":\"linux/amd64\"";

void health_version(struct health *health, struct exchange *x, const struct exchange_head *head,
                    enum health_version which)
{
    char server[6 * sizeof(health->server) + 1], cluster[6 * sizeof(health->cluster) + 1], body[1024];
    if (refuse_method(x, head))
        return;
    escape(health->server, server);
    escape(health->cluster[0] == '\0' ? "not_decided" : health->cluster, cluster); /* etcd's word for unknown */
    snprintf(body, sizeof(body), "{\"etcdserver\":\"%s\",\"etcdcluster\":\"%s\"%s}", server, cluster,
             which == HEALTH_VERSION_KUBE ? kube_version : "");
    answer(x, 200, "application/json", body);
}

/* ---- how the tier stands ---- */

void health_stand(struct health *health, bool ready, const char *reason)
{
    health->ready = ready;
    snprintf(health->reason, sizeof(health->reason), "%s", reason);
    belfry_list_each (node, &health->calls) {
        struct call *call = belfry_container(node, struct call, link);
        if (call->state == WATCHING)
            tell(call);
    }
}

void health_set_versions(struct health *health, const char *server, const char *cluster)
{
    snprintf(health->server, sizeof(health->server), "%s", server);
    snprintf(health->cluster, sizeof(health->cluster), "%s", cluster);
}

enum belfry_err health_create(struct health **out)
{
    struct health *health = calloc(1, sizeof(*health));
    if (health == NULL)
        return BELFRY_ERR_NOMEM;
    belfry_list_init(&health->calls);
    health_stand(health, false, "starting");
    *out = health;
    return BELFRY_OK;
}

void health_destroy(struct health *health)
{
    if (health == NULL)
        return;
    while (!belfry_list_empty(&health->calls))
        fail(belfry_container(health->calls.next, struct call, link), 14, "belfry: shutting down");
    free(health);
}
