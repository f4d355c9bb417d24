/* tests/storm/request.c */
#include "storm/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "storm/etcd.h"
#include "storm/feed.h"
#include "storm/house.h"
#include "storm/verdict.h"
#include "wire/rpc.pb-c.h"
#include "wire/write.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define WIDGETS      "/apis/demo.example.com/v1/widgets"
#define LARGE_KEY    8000
#define MESSAGE_MAX  (60 * 1024) /* within the window of a stream */

static void append(struct belfry_buf *to, const void *data, size_t len)
{
    verdict_must(belfry_buf_append(to, data, len) == BELFRY_OK, "a request");
}

static void add_field(struct request *request, const char *name, const char *value)
{
    if (request->n_fields == REQUEST_FIELDS)
        return;
    request->fields[request->n_fields].name = name;
    snprintf(request->fields[request->n_fields].value, sizeof(request->fields[0].value), "%s", value);
    request->n_fields++;
}

/* ---- bodies ---- */

enum message_kind { MESSAGE_PLAIN, MESSAGE_WILD, MESSAGE_PACKED }; /* WILD: its length may be a lie */

static void append_message(struct belfry_buf *to, struct choices *choices, const void *message, size_t len,
                           enum message_kind kind)
{
    bool lies = kind == MESSAGE_WILD && choose_rarely(choices, 24);
    uint32_t said = lies ? choose(choices, 1 << 24) : (uint32_t)len;
    const uint8_t prefix[] = {kind == MESSAGE_PACKED, (uint8_t)(said >> 24), (uint8_t)(said >> 16),
                              (uint8_t)(said >> 8), (uint8_t)said};
    append(to, prefix, sizeof(prefix));
    append(to, message, len);
}

static void append_gzip(struct belfry_buf *to, struct choices *choices, const void *message, size_t len)
{
    static uint8_t packed[MESSAGE_MAX + 1024];
    z_stream z = {
        .next_in = (Bytef *)(uintptr_t)message, .avail_in = (uInt)len, .next_out = packed, .avail_out = sizeof(packed)};
    verdict_must(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib");
    deflate(&z, Z_FINISH);
    size_t n = z.total_out;
    deflateEnd(&z);
    if (choose_rarely(choices, 8) && n > 0)
        packed[choose(choices, (uint32_t)n)] ^= 0x55;
    append_message(to, choices, packed, n, MESSAGE_PACKED);
}

static void write_create(struct belfry_buf *to, struct choices *choices)
{
    static char large[LARGE_KEY];
    char key[64];
    struct belfry_wire_create create = {.watch_id = choose(choices, 4) == 0 ? choose(choices, 6) : 0,
                                        .progress_notify = choose(choices, 2) == 1,
                                        .prev_kv = choose(choices, 2) == 1,
                                        .fragment = choose(choices, 2) == 1,
                                        .no_put = choose_rarely(choices, 6),
                                        .no_delete = choose_rarely(choices, 6)};
    static const struct belfry_bytes ends[] = {{NULL, 0}, {"\0", 1}, {"/z", 2}, {"/b", 2}, {"/a0", 3}};
    feed_key(choose(choices, FEED_KEYS), key, sizeof(key));
    create.key = choose(choices, 3) == 0 ? belfry_bytes_of("\0", 1) : belfry_bytes_str(key);
    create.range_end = ends[choose(choices, COUNT(ends))];
    if (choose_rarely(choices, 5)) { /* watches that fill their pool */
        memset(large, 'a' + (int)choose(choices, 20), sizeof(large));
        create.key = belfry_bytes_of(large, 1 + choose(choices, sizeof(large)));
    }
    if (choose(choices, 2) == 1)
        create.start_revision = 1 + (int64_t)choose(choices, (uint32_t)feed_head() + 4);
    verdict_must(belfry_write_watch_create(to, &create) == BELFRY_OK, "a create");
}

void request_watch_message(struct belfry_buf *to, struct choices *choices, bool is_wild)
{
    struct belfry_buf message;
    belfry_buf_init(&message);
    switch (choose(choices, is_wild ? 10 : 8)) {
    default:
        write_create(&message, choices);
        break;
    case 6:
        verdict_must(belfry_write_watch_cancel(&message, choose(choices, 6)) == BELFRY_OK, "a cancel");
        break;
    case 7:
        verdict_must(belfry_write_watch_progress(&message) == BELFRY_OK, "a progress");
        break;
    case 8: /* nothing */
        break;
    case 9: /* no protobuf */
        for (uint32_t n = choose(choices, 40); n > 0; n--)
            append(&message, &(uint8_t){choices_byte(choices)}, 1);
        break;
    }
    struct belfry_bytes bytes = belfry_buf_bytes(&message);
    if (is_wild && choose_rarely(choices, 10))
        append_gzip(to, choices, bytes.data, bytes.len);
    else
        append_message(to, choices, bytes.data, bytes.len, is_wild ? MESSAGE_WILD : MESSAGE_PLAIN);
    belfry_buf_fini(&message);
}

/* The question of a tier below, or a Range. */
static void append_range(struct belfry_buf *to, struct choices *choices)
{
    uint8_t packed[256];
    char key[64];
    Etcdserverpb__RangeRequest range = ETCDSERVERPB__RANGE_REQUEST__INIT;
    feed_key(choose(choices, FEED_KEYS), key, sizeof(key));
    range.key = (ProtobufCBinaryData){strlen(key), (uint8_t *)key};
    range.revision = choose(choices, 2) == 0 ? INT64_MAX : (int64_t)choose(choices, 100);
    append_message(to, choices, packed, etcdserverpb__range_request__pack(&range, packed), MESSAGE_PLAIN);
}

static void append_any(struct belfry_buf *to, struct choices *choices)
{
    static uint8_t message[MESSAGE_MAX];
    size_t len = choose_rarely(choices, 5) ? choose(choices, MESSAGE_MAX) : choose(choices, 60);
    memset(message, (int)choose(choices, 3), len);
    if (choose_rarely(choices, 8))
        append_gzip(to, choices, message, len);
    else
        append_message(to, choices, message, len, MESSAGE_PLAIN);
}

/* ---- fields ---- */

static void add_identity(struct request *request, struct choices *choices, bool is_wild)
{
    static const char *const tokens[] = {ETCD_ROOT, ETCD_PART, "made-up", "", "a.b.c"};
    char text[128];
    uint32_t which = is_wild ? choose(choices, 8) : choose(choices, 3);
    if (which < COUNT(tokens) && request->is_grpc) {
        add_field(request, choose(choices, 2) == 0 ? "token" : "authorization", tokens[which]);
    } else if (which < COUNT(tokens)) {
        snprintf(text, sizeof(text), "Bearer %s", tokens[which]);
        add_field(request, "authorization", text);
    } else if (which == 5) {
        snprintf(text, sizeof(text), "made-up-%u", choose(choices, 1000));
        add_field(request, "token", text);
    }
    if (is_wild && choose_rarely(choices, 8))
        add_field(request, "belfry-user", choose(choices, 2) == 0 ? "\"alice\"" : "bob");
}

static void add_grpc_fields(struct request *request, struct choices *choices, bool is_wild)
{
    static const char *const timeouts[] = {"1S", "100m", "0n", "99999999H", "soon"};
    static const char *const vias[] = {"storm", "other", "a b c d e f g h i j", "\"", ""};
    static const char *const codings[] = {"gzip", "identity", "br"};
    add_field(request, "te", "trailers");
    add_field(request, "content-type", is_wild && choose_rarely(choices, 6) ? "text/plain" : "application/grpc");
    if (choose_rarely(choices, 6))
        add_field(request, "grpc-timeout", timeouts[choose(choices, is_wild ? COUNT(timeouts) : 2)]);
    if (choose_rarely(choices, 6))
        add_field(request, "grpc-encoding", codings[choose(choices, is_wild ? COUNT(codings) : 2)]);
    if (is_wild && choose_rarely(choices, 4))
        add_field(request, "belfry-via", vias[choose(choices, COUNT(vias))]);
    if (choose_rarely(choices, 5))
        add_field(request, "belfry-rights", choose(choices, 2) == 0 ? "1000" : "never");
}

static void add_http_fields(struct request *request, struct choices *choices, bool is_wild)
{
    static const char *const accepts[] = {"application/json",
                                          "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
                                          "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
                                          "application/yaml",
                                          "*/*;q=0",
                                          ";;,"};
    if (choose(choices, 2) == 1)
        add_field(request, "accept", accepts[choose(choices, is_wild ? COUNT(accepts) : 3)]);
    if (choose(choices, 2) == 1)
        add_field(request, "accept-encoding", choose(choices, 3) == 0 ? "identity" : "gzip");
    if (choose_rarely(choices, 8))
        add_field(request, "if-none-match", "\"0\"");
}

/* What the front of a tier before Kubernetes refuses, keeps to itself or passes on. */
static void add_odd_fields(struct request *request, struct choices *choices)
{
    static const struct {
        const char *name, *value;
    } odd[] = {{"impersonate-user", "root"}, {"impersonate-group", "all"},    {"upgrade", "websocket"},
               {"upgrade", "SPDY/3.1"},      {"connection", "authorization"}, {"connection", "upgrade"},
               {"expect", "100-continue"},   {"x-remote-user", "root"},       {"belfry-via", "storm"},
               {"range", "bytes=0-5"},       {"content-encoding", "gzip"}};
    for (uint32_t n = choose(choices, 3); n > 0; n--) {
        uint32_t i = choose(choices, COUNT(odd));
        add_field(request, odd[i].name, odd[i].value);
    }
}

/* ---- paths ---- */

/* What the API server answers; the first is a stream. */
static void choose_relayed(struct request *request, struct choices *choices, bool is_wild)
{
    static const char *const paths[] = {"/api/v1/configmaps?watch=1", "/api/v1/namespaces/ns/configmaps/x",
                                        "/apis/demo.example.com/v1/namespaces/ns/widgets/w1",
                                        "/apis/demo.example.com/v1/widgets?limit=2", "/openapi/v3/apis/0",
                                        "/openapi/v3/apis/1", "/api/v1/namespaces/ns/pods/p/log?follow=true",
                                        "/apis/authentication.k8s.io/v1/tokenreviews",
                                        /* from here on it should not be passed on */
                                        "/api/v1/namespaces/ns/pods/p/exec?command=sh", "/../%2e%2e//api/v1/\x01"};
    static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "TRACE"};
    static const char body[4000] = {'b'};
    snprintf(request->path, sizeof(request->path), "%s", paths[choose(choices, is_wild ? COUNT(paths) : 8)]);
    request->method = choose(choices, 2) == 0 ? "GET" : methods[choose(choices, is_wild ? COUNT(methods) : 6)];
    request->has_body = strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0;
    for (uint32_t n = request->has_body ? choose(choices, 15) : 0; n > 0; n--)
        append(&request->body, body, sizeof(body));
    add_http_fields(request, choices, is_wild);
}

static void choose_query(struct choices *choices, char *to, size_t room, bool is_wild)
{
    static const char *const words[] = {
        "watch=1", "watch=true", "limit=1", "limit=3", "allowWatchBookmarks=true", "resourceVersion=0",
        "labelSelector=app%3Dweb", "labelSelector=app+in+(web,db),!x", "fieldSelector=spec.node%3Dn1",
        "timeoutSeconds=1", "pretty=1", "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        "labelSelector=app+in+(,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,)", /* a selector of 1 KB */
        /* from here on most are wrong, or wrong together */
        "limit=-1", "resourceVersionMatch=Exact", "labelSelector=%zz", "fieldSelector=metadata.name%3Dw1",
        "timeoutSeconds=x", "continue=abc", "includeObject=Object", "verbose"};
    if (choose(choices, 3) == 0)
        strcat(to, "?watch=1&allowWatchBookmarks=true");
    size_t used = strlen(to);
    for (uint32_t n = choose(choices, is_wild ? 5 : 3); n > 0 && used + 80 < room; n--, used = strlen(to))
        snprintf(to + used, room - used, "%c%s", strchr(to, '?') == NULL ? '?' : '&',
                 words[choose(choices, is_wild ? COUNT(words) : 13)]);
    if (is_wild && choose(choices, 3) == 0)
        snprintf(to + used, room - used, "%cresourceVersion=%u", strchr(to, '?') == NULL ? '?' : '&',
                 choose(choices, (uint32_t)feed_head() + 3));
}

/* Server-Sent Events. */
static void choose_events(struct request *request, struct choices *choices, bool is_wild)
{
    static const char *const ranges[] = {"prefix=/a/", "prefix=", "key=/b/k1", "prefix=/b/", "from=/a/k3&to=/b/k2",
                                         "prefix=/registry/&key=/a/k1&prefix=/a/k", "from=/a/",
                                         /* from here on they are wrong */
                                         "prefix=%zz", "key=", "from=b&to=a", "to=x", "perfix=/a/"};
    static const char *const words[] = {"snapshot=1", "snapshot=1",      "value=json",      "value=base64",
                                        "value=none", "last-event-id=0", /* from here on they are wrong */
                                        "snapshot=2", "value=xml",       "last-event-id=x", "ticket=abc"};
    char id[64];
    size_t used = (size_t)snprintf(request->path, sizeof(request->path), "/v1/events?%s",
                                   ranges[choose(choices, is_wild ? COUNT(ranges) : 7)]);
    for (uint32_t n = choose(choices, is_wild ? 20 : 3); n > 0 && used + 60 < sizeof(request->path); n--)
        used += (size_t)snprintf(request->path + used, sizeof(request->path) - used, "&%s",
                                 choose(choices, 2) == 0 ? ranges[choose(choices, is_wild ? COUNT(ranges) : 7)]
                                                         : words[choose(choices, is_wild ? COUNT(words) : 6)]);
    snprintf(id, sizeof(id), "%u%s", choose(choices, (uint32_t)feed_head() + 3),
             choose(choices, 2) == 0     ? "-00000007"
             : choose_rarely(choices, 3) ? "-00000008"
                                         : "");
    if (choose(choices, 3) == 0)
        add_field(request, "last-event-id", is_wild && choose_rarely(choices, 4) ? "-1" : id);
    if (choose_rarely(choices, 4))
        add_field(request, "origin", "https://evil.example");
}

static void choose_http(struct request *request, struct choices *choices, bool is_wild)
{
    static const char *const paths[] = {WIDGETS,
                                        "/apis/demo.example.com/v1/namespaces/ns/widgets",
                                        "/apis/demo.example.com/v1/namespaces/ns/widgets/w1",
                                        "/apis/demo.example.com/v1/gadgets",
                                        "/apis/demo.example.com/v2/namespaces/ns/gadgets",
                                        "/api",
                                        "/apis",
                                        "/apis/demo.example.com/v1",
                                        "/openapi/v3",
                                        "/openapi/v3/apis/demo.example.com/v1",
                                        "/health",
                                        "/version",
                                        "/readyz",
                                        "/livez",
                                        "/metrics",
                                        "/debug/watchers",
                                        "/debug/numbers",
                                        "/debug/tree",
                                        "/debug/upstream",
                                        "/",
                                        "*",
                                        "/apis/../%2e%2e/\x01"};
    static const char *const methods[] = {"POST", "HEAD", "DELETE", "CONNECT", "get", "OPTIONS"};
    uint32_t path = choose(choices, is_wild ? 2 : 5) != 0 ? choose(choices, 3) : choose(choices, COUNT(paths));
    snprintf(request->path, sizeof(request->path), "%s", paths[path]);
    bool is_events = choose_rarely(choices, 3);
    if (is_events)
        choose_events(request, choices, is_wild);
    else if (choose(choices, 4) != 0)
        choose_query(choices, request->path, sizeof(request->path), is_wild);
    request->method = is_wild && choose_rarely(choices, 6) ? methods[choose(choices, COUNT(methods))] : "GET";
    add_http_fields(request, choices, is_wild);
}

static void choose_grpc(struct request *request, struct choices *choices, bool is_wild)
{
    static const char *const paths[] = {"/etcdserverpb.KV/Range",
                                        "/etcdserverpb.KV/Put",
                                        "/etcdserverpb.KV/Txn",
                                        "/etcdserverpb.Lease/LeaseKeepAlive",
                                        "/etcdserverpb.Auth/Authenticate",
                                        "/etcdserverpb.Auth/AuthEnable",
                                        "/etcdserverpb.Cluster/MemberList",
                                        "/etcdserverpb.Maintenance/Snapshot",
                                        "/v3electionpb.Election/Observe",
                                        "/v3lockpb.Lock/Lock",
                                        "/grpc.health.v1.Health/Check",
                                        "/grpc.health.v1.Health/Watch",
                                        "/belfry.Tier/About",
                                        "/unknown.Service/Method",
                                        "/etcdserverpb.Watch/Nothing"};
    request->is_grpc = request->has_body = true;
    request->is_watch = choose(choices, 3) == 0;
    request->method = is_wild && choose_rarely(choices, 10) ? "GET" : "POST";
    snprintf(request->path, sizeof(request->path), "%s",
             request->is_watch ? "/etcdserverpb.Watch/Watch" : paths[choose(choices, COUNT(paths))]);
    add_grpc_fields(request, choices, is_wild);
    if (request->is_watch)
        request_watch_message(&request->body, choices, is_wild);
    else if (choose(choices, 3) == 0)
        append_range(&request->body, choices);
    else
        append_any(&request->body, choices);
}

void request_choose(struct request *request, struct choices *choices, unsigned kind)
{
    static const char *const names[] = {"localhost", "127.0.0.1:1", "[::1]", "", "evil.example"};
    bool is_wild = (kind & REQUEST_WILD) != 0;
    *request = (struct request){0};
    belfry_buf_init(&request->body);
    request->authority = names[is_wild ? choose(choices, COUNT(names)) : 0];
    if (house_is_kube() && choose(choices, 2) == 0)
        choose_relayed(request, choices, is_wild);
    else if ((kind & REQUEST_HTTP) != 0 || house_is_kube() || choose(choices, 2) == 0)
        choose_http(request, choices, is_wild);
    else
        choose_grpc(request, choices, is_wild);
    add_identity(request, choices, is_wild);
    if (house_is_kube() && (is_wild || choose_rarely(choices, 4)))
        add_odd_fields(request, choices);
}

void request_fini(struct request *request)
{
    belfry_buf_fini(&request->body);
}
