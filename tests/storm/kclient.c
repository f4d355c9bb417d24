/* tests/storm/kclient.c */
#include "storm/kclient.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "storm/apiserver.h"
#include "storm/feed.h"
#include "storm/house.h"
#include "storm/objects.h"
#include "storm/verdict.h"
#include "support/h2_nv.h"

#define CALL_MS   100
#define STAYS_MS  5000 /* with a stream, at least; with what it goes from in the middle, at most */
#define BODY_MAX  100000
#define DOCUMENTS 3
#define WIDGETS   "/apis/demo.example.com/v1/widgets"

static const char *const methods[KCLIENT_CALLS] = {"GET", "PUT", "GET", "GET", "GET", "GET"};

static struct kclient_call *call_find(struct kclient *client, int32_t id)
{
    for (size_t i = 0; i < KCLIENT_CALLS; i++)
        if (id != 0 && client->calls[i].id == id)
            return &client->calls[i];
    return NULL;
}

static enum kclient_what call_what(const struct kclient *client, const struct kclient_call *call)
{
    return (enum kclient_what)(call - client->calls);
}

/* ---- judging ---- */

/* A refusal of the tier, or of the API server in the middle of its echo. */
static bool call_is_status(const struct kclient_call *call)
{
    struct belfry_bytes in = belfry_buf_bytes(&call->in);
    return call->status >= 400 && (in.len == 0 || in.data[0] == '{');
}

static void judge_echo(const struct kclient *client, const struct kclient_call *call, const char *who)
{
    char head[ECHO_HEAD];
    echo_head(head, who, methods[call_what(client, call)], call->path, belfry_buf_bytes(&call->body));
    echo_judge(client->h2.peer, head, belfry_buf_bytes(&call->in), call->is_ended ? ECHO_WHOLE : ECHO_PART);
}

/* A document is the same for all who may read it: its echo names its version. */
static void judge_document(const struct kclient *client, const struct kclient_call *call)
{
    char who[24] = "";
    struct belfry_bytes in = belfry_buf_bytes(&call->in);
    const char *space = in.len == 0 ? NULL : memchr(in.data, ' ', in.len < sizeof(who) ? in.len : sizeof(who) - 1);
    if (space == NULL) {
        if (call->is_ended)
            verdict_fail("%s: a document without a version: %s", client->h2.peer, call->path);
        return;
    }
    memcpy(who, in.data, (size_t)(space - (const char *)in.data));
    judge_echo(client, call, who);
    uint64_t version = strtoull(who + 1, NULL, 10);
    if (version < call->expects || version > apiserver_version())
        verdict_fail("%s: version %llu of a document, which was %llu before it was asked for", client->h2.peer,
                     (unsigned long long)version, (unsigned long long)call->expects);
}

static void judge_stream_line(struct kclient *client, struct kclient_call *call, struct belfry_bytes line)
{
    char head[ECHO_HEAD], due[ECHO_HEAD + 24];
    echo_head(head, client->token, "GET", call->path, (struct belfry_bytes){0});
    snprintf(due, sizeof(due), "%llu %s", (unsigned long long)call->expects++, head);
    if (!belfry_bytes_equal(line, belfry_bytes_str(due)))
        verdict_fail("%s: a line of a stream is not its own, or not the next: %.*s instead of %s", client->h2.peer,
                     (int)line.len, line.data, due);
}

/* ---- judging objects ---- */

/* Does this client lack the right to read objects, and has it done so for long? */
static bool kclient_is_forbidden(const struct kclient *client, uint64_t at_ms)
{
    uint64_t lost_ms = strcmp(client->token, APISERVER_PART) == 0 ? apiserver_lost_ms() : BELFRY_NEVER;
    return lost_ms != BELFRY_NEVER && at_ms > lost_ms + KCLIENT_RIGHT_MS;
}

/* What is written from now on must not come, if the right is lost for so long. */
static void kclient_look_at_right(struct kclient *client)
{
    if (client->lost_ms != apiserver_lost_ms())
        client->forbidden_rev = 0;
    client->lost_ms = apiserver_lost_ms();
    if (client->forbidden_rev == 0 && kclient_is_forbidden(client, belfry_clock_ms()))
        client->forbidden_rev = feed_head() + 1;
}

static void judge_watch_line(struct kclient *client, struct belfry_bytes line)
{
    struct belfry_bytes type = objects_text(line, "\"type\":\"");
    if (belfry_bytes_equal(type, belfry_bytes_str("ERROR"))) {
        client->is_listed = false;
        return;
    }
    int64_t rev = objects_revision(client->h2.peer, line);
    if (client->forbidden_rev != 0 && rev >= client->forbidden_rev && client->lost_ms == apiserver_lost_ms())
        verdict_fail("%s: version %lld came, which was written more than %d ms after the right was lost",
                     client->h2.peer, (long long)rev, KCLIENT_RIGHT_MS);
    if (belfry_bytes_equal(type, belfry_bytes_str("BOOKMARK"))) {
        reading_move(&client->reading, rev + 1, "a bookmark at");
    } else {
        reading_take_object(&client->reading, rev, objects_text(line, "\"name\":\""),
                            belfry_bytes_equal(type, belfry_bytes_str("DELETED")));
        reading_move(&client->reading, rev + 1, "a change of");
    }
    client->rev = rev;
}

static void judge_list(struct kclient *client, struct kclient_call *call)
{
    if (kclient_is_forbidden(client, call->begun_ms))
        verdict_fail("%s: a list more than %d ms after the right was lost", client->h2.peer, KCLIENT_RIGHT_MS);
    if (!call->is_ended)
        return;
    int64_t rev = objects_list_revision(client->h2.peer, belfry_buf_bytes(&call->in));
    if (rev > feed_head())
        verdict_fail("%s: a list of version %lld, which was never written", client->h2.peer, (long long)rev);
    if (client->is_listed)
        return; /* a watch goes on from another one */
    client->rev = rev;
    client->is_listed = true;
}

/* ---- judging ---- */

/* Lines are judged as they come, and leave. */
static void judge_lines(struct kclient *client, struct kclient_call *call)
{
    for (;;) {
        struct belfry_bytes in = belfry_buf_bytes(&call->in);
        const char *end = in.len == 0 ? NULL : memchr(in.data, '\n', in.len);
        if (end == NULL)
            return;
        struct belfry_bytes line = belfry_bytes_of(in.data, (size_t)(end - in.data) + 1);
        if (call_what(client, call) == KCLIENT_STREAM)
            judge_stream_line(client, call, line);
        else
            judge_watch_line(client, line);
        belfry_buf_take(&call->in, line.len);
        call->answered++;
    }
}

static bool call_has_lines(const struct kclient *client, const struct kclient_call *call)
{
    enum kclient_what what = call_what(client, call);
    return call->status == 200 && (what == KCLIENT_STREAM || what == KCLIENT_WATCH);
}

static void call_judge(struct kclient *client, struct kclient_call *call)
{
    enum kclient_what what = call_what(client, call);
    if (what == KCLIENT_WATCH && call->status != 200)
        client->is_listed = false;
    if (call->status == 0 || call_is_status(call))
        return;
    if (call_has_lines(client, call)) {
        if (call->is_ended && belfry_buf_len(&call->in) > 0)
            verdict_fail("%s: a stream ends inside a line", client->h2.peer);
    } else if (what == KCLIENT_LIST && call->status == 200) {
        judge_list(client, call);
    } else if (what == KCLIENT_DOCUMENT && call->status == 200) {
        judge_document(client, call);
    } else {
        judge_echo(client, call, client->token);
    }
}

/* ---- what is received ---- */

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *user)
{
    struct kclient *client = user;
    struct kclient_call *call = call_find(client, id);
    (void)session, (void)flags;
    if (call == NULL)
        return 0;
    verdict_must(belfry_buf_append(&call->in, data, len) == BELFRY_OK, "input");
    if (call_has_lines(client, call))
        judge_lines(client, call);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
    struct kclient_call *call = call_find(user, frame->hd.stream_id);
    (void)session, (void)flags;
    char text[8] = "";
    if (call == NULL || !belfry_bytes_equal(belfry_bytes_of(name, name_len), belfry_bytes_str(":status")))
        return 0;
    memcpy(text, value, value_len < sizeof(text) ? value_len : sizeof(text) - 1);
    call->status = atoi(text);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct kclient_call *call = call_find(user, frame->hd.stream_id);
    bool is_part = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    (void)session;
    if (call != NULL && is_part && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
        call->is_ended = true;
    return 0;
}

static void call_end(struct kclient *client, struct kclient_call *call)
{
    bool is_fine = call->status == 200 && call->is_ended;
    call_judge(client, call);
    if (call->status >= 400)
        snprintf(client->why, sizeof(client->why), "%.*s", (int)belfry_buf_len(&call->in),
                 belfry_buf_bytes(&call->in).data);
    call->answered += is_fine && !call_has_lines(client, call);
    call->failed += !is_fine;
    call->id = 0;
    call->next_ms = belfry_clock_ms() + CALL_MS;
    belfry_buf_fini(&call->in);
    belfry_buf_fini(&call->body);
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    struct kclient_call *call = call_find(user, id);
    (void)session, (void)code;
    if (call != NULL)
        call_end(user, call);
    return 0;
}

/* ---- what is sent ---- */

static ssize_t on_read_body(nghttp2_session *session, int32_t id, uint8_t *to, size_t cap, uint32_t *flags,
                            nghttp2_data_source *source, void *user)
{
    struct kclient_call *call = source->ptr;
    struct belfry_bytes body = belfry_buf_bytes(&call->body);
    size_t left = body.len - call->sent, n = left < cap ? left : cap;
    (void)session, (void)id, (void)user;
    memcpy(to, body.data + call->sent, n);
    call->sent += n;
    if (n == left)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static void write_path(struct kclient *client, struct kclient_call *call)
{
    unsigned long long number = ++client->number;
    switch (call_what(client, call)) {
    case KCLIENT_GET:
        snprintf(call->path, sizeof(call->path), "/api/v1/namespaces/ns/configmaps/r-%llu", number);
        break;
    case KCLIENT_WRITE:
        snprintf(call->path, sizeof(call->path), APISERVER_WRITE "%llu", number);
        break;
    case KCLIENT_STREAM:
        snprintf(call->path, sizeof(call->path), "/api/v1/configmaps?watch=1&resourceVersion=%llu", number);
        break;
    case KCLIENT_DOCUMENT:
        snprintf(call->path, sizeof(call->path), "/openapi/v3/apis/%u", choose(client->choices, DOCUMENTS));
        break;
    case KCLIENT_LIST:
        snprintf(call->path, sizeof(call->path), WIDGETS "?resourceVersion=0");
        break;
    case KCLIENT_WATCH:
        snprintf(call->path, sizeof(call->path), WIDGETS "?watch=1&allowWatchBookmarks=true&resourceVersion=%lld",
                 (long long)client->rev);
        client->reading.next_rev = client->rev + 1;
        break;
    case KCLIENT_CALLS:
        break;
    }
}

static void write_body(struct kclient *client, struct kclient_call *call)
{
    size_t len = 1 + choose(client->choices, choose_rarely(client->choices, 4) ? BODY_MAX : 500);
    uint8_t *room;
    verdict_must(belfry_buf_reserve(&call->body, len, &room) == BELFRY_OK, "a body");
    memset(room, 'a' + (int)(client->number % 26), len);
    belfry_buf_grown(&call->body, len);
}

static void kclient_request(struct kclient *client, struct kclient_call *call)
{
    char bearer[96];
    enum kclient_what what = call_what(client, call);
    uint64_t now_ms = belfry_clock_ms();
    call->status = 0;
    call->is_ended = false;
    call->sent = 0;
    call->begun_ms = now_ms;
    call->expects = what == KCLIENT_DOCUMENT ? apiserver_version() : 0;
    write_path(client, call);
    if (what == KCLIENT_WRITE)
        write_body(client, call);
    bool is_brief = !client->is_patient && choose_rarely(client->choices, 4); /* it goes in the middle */
    uint64_t stays_ms = choose(client->choices, STAYS_MS);
    call->leave_ms = is_brief                 ? now_ms + stays_ms
                     : what == KCLIENT_STREAM ? now_ms + STAYS_MS + stays_ms
                                              : BELFRY_NEVER;
    snprintf(bearer, sizeof(bearer), "Bearer %s", client->token);
    nghttp2_nv head[] = {h2_nv(":method", methods[what]), h2_nv(":scheme", "http"), h2_nv(":path", call->path),
                         h2_nv(":authority", "localhost"), h2_nv("authorization", bearer)};
    nghttp2_data_provider body = {.source = {.ptr = call}, .read_callback = on_read_body};
    int32_t id = nghttp2_submit_request(client->h2.session, NULL, head, sizeof(head) / sizeof(head[0]),
                                        what == KCLIENT_WRITE ? &body : NULL, NULL);
    call->id = id > 0 ? id : 0;
}

/* ---- connections ---- */

static void kclient_listen(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
}

static void kclient_disconnect(struct kclient *client)
{
    h2_line_close(&client->h2);
    for (size_t i = 0; i < KCLIENT_CALLS; i++)
        if (client->calls[i].id != 0)
            call_end(client, &client->calls[i]);
}

static void kclient_ask_more(struct kclient *client)
{
    uint64_t now_ms = belfry_clock_ms();
    for (size_t i = 0; i < KCLIENT_CALLS; i++) {
        struct kclient_call *call = &client->calls[i];
        bool is_wanted = i != KCLIENT_WATCH || client->is_listed;
        if (call->id == 0 && now_ms >= call->next_ms && is_wanted)
            kclient_request(client, call);
    }
}

static void kclient_give_up(struct kclient *client)
{
    uint64_t now_ms = belfry_clock_ms();
    for (size_t i = 0; i < KCLIENT_CALLS; i++) {
        struct kclient_call *call = &client->calls[i];
        if (call->id == 0 || now_ms < call->leave_ms)
            continue;
        call->leave_ms = BELFRY_NEVER;
        nghttp2_submit_rst_stream(client->h2.session, 0, call->id, NGHTTP2_CANCEL);
    }
}

static bool kclient_is_idle(const struct kclient *client)
{
    for (size_t i = 0; i < KCLIENT_CALLS; i++)
        if (client->calls[i].id != 0)
            return false;
    return true;
}

void kclient_turn(struct kclient *client)
{
    if (client->h2.session == NULL) {
        if (belfry_clock_ms() >= client->h2.connect_ms)
            h2_line_open(&client->h2, kclient_listen, client);
        return;
    }
    kclient_look_at_right(client);
    bool may_ask = nghttp2_session_check_request_allowed(client->h2.session) != 0;
    if (may_ask)
        kclient_ask_more(client);
    kclient_give_up(client);
    h2_line_exchange(&client->h2);
    if (client->h2.line.is_over || (!may_ask && kclient_is_idle(client)))
        kclient_disconnect(client);
}

/* Some have small windows, or read slowly. That is good order, too. */
void kclient_init(struct kclient *client, size_t door, unsigned number, const char *token, struct choices *choices)
{
    static const uint32_t windows[] = {65535, 65535, 30000, 3000};
    static const size_t reads[] = {SIZE_MAX, SIZE_MAX, 20000, 4000};
    *client = (struct kclient){.choices = choices, .token = token};
    uint32_t window = windows[choose(choices, 4)];
    h2_line_init(&client->h2, door, number, window, reads[choose(choices, 4)]);
    client->reading = (struct reading){.who = client->h2.peer, .keys = FEED_KEYS_WIDGETS};
    client->lost_ms = BELFRY_NEVER;
}

void kclient_fini(struct kclient *client)
{
    if (client->h2.session != NULL)
        kclient_disconnect(client);
}

void kclient_ask(struct kclient *client)
{
    client->is_patient = true;
    for (size_t i = 0; i < KCLIENT_CALLS; i++)
        client->calls[i].before = client->calls[i].answered;
}

bool kclient_is_served(const struct kclient *client)
{
    const struct kclient_call *watch = &client->calls[KCLIENT_WATCH];
    for (size_t i = 0; i < KCLIENT_WATCH; i++)
        if (client->calls[i].answered == client->calls[i].before)
            return false;
    return watch->id != 0 && watch->status == 200 && reading_is_whole(&client->reading, INT64_MAX);
}

void kclient_tell(const struct kclient *client)
{
    for (size_t i = 0; i < KCLIENT_CALLS; i++) {
        const struct kclient_call *call = &client->calls[i];
        verdict_note("%s, door %zu: %s %s: answered %llu, since then %llu, failed %llu; under way: %s, status %d",
                     client->h2.peer, client->h2.door, methods[i], call->path, (unsigned long long)call->answered,
                     (unsigned long long)(call->answered - call->before), (unsigned long long)call->failed,
                     call->id != 0 ? "yes" : "no", call->status);
    }
    verdict_note("%s: the last refusal: %s", client->h2.peer, client->why);
}
