/* tests/storm/client.c */
#include "storm/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "storm/etcd.h"
#include "storm/feed.h"
#include "storm/house.h"
#include "storm/messages.h"
#include "storm/verdict.h"
#include "support/h2_nv.h"
#include "wire/rpc.pb-c.h"
#include "wire/write.h"

#define CALL_MS 100
#define WATCH   "/etcdserverpb.Watch/Watch"
#define RANGE   "/etcdserverpb.KV/Range"
#define LIST    "/apis/demo.example.com/v1/widgets"

/* ---- what is received ---- */

/* The end of the stream follows; then the watch resumes. */
static void client_take_canceled(struct client *client, const struct belfry_wire_watch *head)
{
    client->refusals++;
    snprintf(client->why, sizeof(client->why), "%.*s", (int)head->cancel_reason.len, head->cancel_reason.data);
    nghttp2_submit_rst_stream(client->h2.session, 0, client->watch_id, NGHTTP2_CANCEL);
    if (head->compact_revision == 0)
        return;
    if (head->compact_revision > feed_head() + 1)
        verdict_fail("%s: compacted at %lld, which was never written", client->h2.peer,
                     (long long)head->compact_revision);
    client->compactions++;
    if (head->compact_revision > client->watch.next_rev)
        client->watch.next_rev = head->compact_revision;
}

static void client_take(struct client *client, struct belfry_bytes message)
{
    struct belfry_wire_watch head;
    reading_take(&client->watch, message, &head);
    if (head.canceled)
        client_take_canceled(client, &head);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *user)
{
    struct client *client = user;
    struct belfry_bytes message;
    (void)session, (void)flags;
    if (id != client->watch_id)
        return 0;
    verdict_must(belfry_buf_append(&client->watch_in, data, len) == BELFRY_OK, "input");
    while (messages_first(&client->watch_in, &message)) {
        client_take(client, message);
        messages_drop(&client->watch_in, message);
    }
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
    struct client *client = user;
    struct belfry_bytes field = belfry_bytes_of(name, name_len);
    (void)session, (void)flags;
    struct belfry_bytes said = belfry_bytes_of(value, value_len);
    if (frame->hd.stream_id == client->calls[CLIENT_GET].id &&
        belfry_bytes_equal(field, belfry_bytes_str("grpc-status")))
        client->calls[CLIENT_GET].is_fine = belfry_bytes_equal(said, belfry_bytes_str("0"));
    if (frame->hd.stream_id == client->calls[CLIENT_LIST].id && belfry_bytes_equal(field, belfry_bytes_str(":status")))
        client->calls[CLIENT_LIST].is_fine = belfry_bytes_equal(said, belfry_bytes_str("200"));
    if (belfry_bytes_equal(field, belfry_bytes_str("grpc-message")) && value_len > 0)
        snprintf(client->why, sizeof(client->why), "%.*s", (int)value_len, (const char *)value);
    return 0;
}

static void call_end(struct client_call *call, bool is_fine)
{
    call->answered += is_fine;
    call->failed += !is_fine;
    call->id = 0;
    call->next_ms = belfry_clock_ms() + CALL_MS;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    struct client *client = user;
    (void)session;
    for (size_t i = 0; i < CLIENT_CALLS; i++)
        if (id == client->calls[i].id)
            call_end(&client->calls[i], client->calls[i].is_fine && code == NGHTTP2_NO_ERROR);
    if (id == client->watch_id) {
        client->watch_id = 0;
        client->h2.connect_ms = belfry_clock_ms() + H2_LINE_AGAIN_MS;
    }
    return 0;
}

/* ---- what is sent ---- */

static ssize_t on_read_watch(nghttp2_session *session, int32_t id, uint8_t *to, size_t cap, uint32_t *flags,
                             nghttp2_data_source *source, void *user)
{
    struct client *client = source->ptr;
    struct belfry_bytes left = belfry_buf_bytes(&client->request);
    size_t n = left.len < cap ? left.len : cap;
    (void)session, (void)id, (void)flags, (void)user;
    if (n == 0)
        return NGHTTP2_ERR_DEFERRED; /* the stream stays open */
    memcpy(to, left.data, n);
    belfry_buf_take(&client->request, n);
    return (ssize_t)n;
}

static ssize_t on_read_get(nghttp2_session *session, int32_t id, uint8_t *to, size_t cap, uint32_t *flags,
                           nghttp2_data_source *source, void *user)
{
    static const uint8_t range[] = {0, 0, 0, 0, 7, 10, 5, '/', 'a', '/', 'k', '0'};
    (void)session, (void)id, (void)source, (void)user;
    verdict_must(cap >= sizeof(range), "a frame");
    memcpy(to, range, sizeof(range));
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    return sizeof(range);
}

static int32_t client_request(struct client *client, const char *path, nghttp2_data_source_read_callback read)
{
    nghttp2_nv head[] = {h2_nv(":method", "POST"), h2_nv(":scheme", "http"),
                         h2_nv(":path", path),     h2_nv(":authority", "localhost"),
                         h2_nv("te", "trailers"),  h2_nv("content-type", "application/grpc"),
                         h2_nv("token", ETCD_ROOT)};
    nghttp2_data_provider body = {.source = {.ptr = client}, .read_callback = read};
    int32_t id = nghttp2_submit_request(client->h2.session, NULL, head, sizeof(head) / sizeof(head[0]), &body, NULL);
    return id > 0 ? id : 0;
}

static int32_t client_list(struct client *client)
{
    nghttp2_nv head[] = {h2_nv(":method", "GET"), h2_nv(":scheme", "http"), h2_nv(":path", LIST),
                         h2_nv(":authority", "localhost"), h2_nv("authorization", "Bearer " ETCD_ROOT)};
    int32_t id = nghttp2_submit_request(client->h2.session, NULL, head, sizeof(head) / sizeof(head[0]), NULL, NULL);
    return id > 0 ? id : 0;
}

static void client_watch(struct client *client)
{
    struct belfry_wire_create create = {.key = belfry_bytes_str(FEED_PREFIX),
                                        .range_end = belfry_bytes_str(FEED_END),
                                        .start_revision = client->watch.next_rev,
                                        .progress_notify = true};
    struct belfry_buf message;
    belfry_buf_init(&message);
    belfry_buf_clear(&client->watch_in);
    belfry_buf_clear(&client->request);
    verdict_must(belfry_write_watch_create(&message, &create) == BELFRY_OK, "a request");
    messages_append(&client->request, belfry_buf_bytes(&message));
    belfry_buf_fini(&message);
    client->watch.is_created = false;
    client->watch_id = client_request(client, WATCH, on_read_watch);
}

/* ---- connections ---- */

static void client_listen(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
}

static void client_disconnect(struct client *client)
{
    h2_line_close(&client->h2);
    client->watch_id = 0;
    for (size_t i = 0; i < CLIENT_CALLS; i++)
        if (client->calls[i].id != 0)
            call_end(&client->calls[i], false);
}

static void client_ask_more(struct client *client)
{
    uint64_t now = belfry_clock_ms();
    if (client->watch_id == 0 && now >= client->h2.connect_ms)
        client_watch(client);
    for (size_t i = 0; i < CLIENT_CALLS; i++) {
        struct client_call *call = &client->calls[i];
        if (call->id != 0 || now < call->next_ms || (i == CLIENT_LIST && !house_door_has_kube(client->h2.door)))
            continue;
        call->is_fine = false;
        call->id = i == CLIENT_GET ? client_request(client, RANGE, on_read_get) : client_list(client);
    }
}

void client_turn(struct client *client)
{
    if (client->h2.session == NULL) {
        if (belfry_clock_ms() >= client->h2.connect_ms)
            h2_line_open(&client->h2, client_listen, client);
        return;
    }
    bool may_ask = nghttp2_session_check_request_allowed(client->h2.session) != 0;
    if (may_ask)
        client_ask_more(client);
    h2_line_exchange(&client->h2);
    bool is_idle = client->watch_id == 0 && client->calls[CLIENT_GET].id == 0 && client->calls[CLIENT_LIST].id == 0;
    if (client->h2.line.is_over || (!may_ask && is_idle))
        client_disconnect(client);
}

/* Some have small windows, or read slowly. That is good order, too. */
void client_init(struct client *client, size_t door, unsigned number, struct choices *choices)
{
    static const uint32_t windows[] = {65535, 65535, 3000, 200};
    static const size_t reads[] = {SIZE_MAX, SIZE_MAX, 2000, 400};
    *client = (struct client){0};
    uint32_t window = windows[choose(choices, 4)];
    h2_line_init(&client->h2, door, number, window, reads[choose(choices, 4)]);
    client->watch.who = client->h2.peer;
}

void client_fini(struct client *client)
{
    if (client->h2.session != NULL)
        client_disconnect(client);
    belfry_buf_fini(&client->watch_in);
    belfry_buf_fini(&client->request);
}

void client_ask(struct client *client)
{
    for (size_t i = 0; i < CLIENT_CALLS; i++)
        client->calls[i].before = client->calls[i].answered;
}

bool client_is_served(const struct client *client)
{
    const struct client_call *get = &client->calls[CLIENT_GET], *list = &client->calls[CLIENT_LIST];
    return client->watch.is_created && reading_is_whole(&client->watch, INT64_MAX) && get->answered > get->before &&
           (list->answered > list->before || !house_door_has_kube(client->h2.door));
}

void client_tell(const struct client *client)
{
    const struct client_call *get = &client->calls[CLIENT_GET], *list = &client->calls[CLIENT_LIST];
    verdict_note(
        "%s at door %zu: %s, stream %d, %s, resumes from %lld of %lld, %llu connects, %llu events, %llu refusals; "
        "%llu gets, %llu failed; %llu lists, %llu failed; last \"%s\"",
        client->h2.peer, client->h2.door, client->h2.session != NULL ? "connected" : "not connected",
        (int)client->watch_id, client->watch.is_created ? "created" : "not created", (long long)client->watch.next_rev,
        (long long)feed_head(), (unsigned long long)client->h2.connects, (unsigned long long)client->watch.events,
        (unsigned long long)client->refusals, (unsigned long long)get->answered, (unsigned long long)get->failed,
        (unsigned long long)list->answered, (unsigned long long)list->failed, client->why);
}
