/* src/serve/json/gateway_test.c: a client that speaks JSON, and on the other side a method that the test plays. */
#include "serve/json/gateway.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/grpc_frame.h"
#include "serve/json/gateway_paths.h"
#include "server/grpc_answer.h"
#include "support/fakeexchange.h"
#include "support/fakeshares.h"
#include "support/refuse.h"

/* What the method has seen. */
struct served {
    struct exchange *x;
    char path[64], fields[256];
    struct belfry_buf body;
    size_t untaken;
    bool takes, ended, gone, is_writable;
};

struct bed {
    uv_loop_t loop;
    struct gateway *gateway;
    struct fakeexchange client;
    struct served served;
    bool fails;          /* the method fails at once */
    const char *timeout; /* a field of the request, if there is one */
};

static void on_body(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    struct served *served = user;
    assert_int_equal(belfry_buf_append(&served->body, bytes.data, bytes.len), BELFRY_OK);
    if (served->takes)
        exchange_taken(x, bytes.len);
    else
        served->untaken += bytes.len;
}

static void on_end(struct exchange *x, void *user)
{
    (void)x;
    ((struct served *)user)->ended = true;
}

static void on_writable(struct exchange *x, void *user)
{
    (void)x;
    ((struct served *)user)->is_writable = true;
}

static void on_gone(struct exchange *x, void *user)
{
    struct served *served = user;
    assert_ptr_equal(x, served->x);
    served->gone = true;
    served->x = NULL;
}

static void begin_method(struct exchange *x, const struct exchange_head *head, void *user)
{
    static const struct exchange_events events = {
        .body = on_body, .body_end = on_end, .writable = on_writable, .gone = on_gone};
    struct bed *bed = user;
    uint64_t timeout_ms;
    if (grpc_refuse_head(x, head, &timeout_ms))
        return;
    if (bed->fails) {
        grpc_fail(x, GRPC_HEADERS_NOT_SENT, 14, "not today: 100%");
        return;
    }
    bed->served.x = x;
    memcpy(bed->served.path, head->path.data, head->path.len);
    for (size_t i = 0; i < head->n_fields; i++) {
        strncat(bed->served.fields, head->fields[i].name.data, head->fields[i].name.len);
        strcat(bed->served.fields, "=");
        strncat(bed->served.fields, head->fields[i].value.data, head->fields[i].value.len);
        strcat(bed->served.fields, ";");
    }
    exchange_holds(x, 77);
    exchange_handle(x, &events, &bed->served);
}

static void bed_open(struct bed *bed)
{
    *bed = (struct bed){.served.takes = true};
    assert_int_equal(uv_loop_init(&bed->loop), 0);
    assert_int_equal(gateway_create(&bed->loop, &bed->gateway), BELFRY_OK);
    gateway_set_methods(bed->gateway, begin_method, bed);
    fakeexchange_init(&bed->client, EXCHANGE_ROOM);
}

static void bed_close(struct bed *bed)
{
    belfry_buf_fini(&bed->served.body);
    gateway_destroy(bed->gateway);
    uv_run(&bed->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&bed->loop), 0);
    fakeexchange_fini(&bed->client);
}

static void ask(struct bed *bed, const char *method, const char *path)
{
    const char *const fields[] = {"content-type: text/plain",
                                  "authorization: tok.1",
                                  "grpc-metadata-hasleader: true",
                                  "belfry-user: \"root\"",
                                  "cookie: x",
                                  bed->timeout,
                                  NULL};
    struct fakeexchange_head head;
    fakeexchange_head(&head, method, path, fields);
    gateway_begin(bed->gateway, &bed->client.x, &head.head);
}

static void say(struct bed *bed, const char *text)
{
    fakeexchange_send(&bed->client, text, strlen(text));
}

static void answer(struct bed *bed, const void *message, size_t len)
{
    uint8_t prefix[BELFRY_GRPC_PREFIX_BYTES];
    belfry_grpc_frame_prefix(prefix, len);
    exchange_write(bed->served.x, prefix, sizeof(prefix));
    exchange_write(bed->served.x, message, len);
}

static void assert_body(struct bed *bed, int status, const char *body)
{
    assert_int_equal(bed->client.status, status);
    assert_true(belfry_bytes_equal(belfry_buf_bytes(&bed->client.body), belfry_bytes_str(body)));
}

static const uint8_t created[] = {0x0a, 2, 0x18, 5, 0x18, 1}; /* of a watch: a header at revision 5, created */

static void a_method_with_one_answer(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    ask(&bed, "POST", "/v3/kv/range");
    assert_string_equal(bed.served.path, "/etcdserverpb.KV/Range");
    assert_string_equal(bed.served.fields,
                        "content-type=application/grpc;te=trailers;authorization=tok.1;hasleader=true;");
    say(&bed, " {\"key\":\"Z");
    assert_int_equal(belfry_buf_len(&bed.served.body), 0);
    say(&bed, "m9v\"} and what follows is not looked at");
    assert_true(bed.served.ended);
    assert_int_equal(bed.client.taken, bed.client.came);
    fakeexchange_half_close(&bed.client);
    grpc_begin(bed.served.x, belfry_bytes_str("application/grpc"));
    static const uint8_t response[] = {0x0a, 2, 0x18, 5, 0x20, 1};
    answer(&bed, response, sizeof(response));
    grpc_fail(bed.served.x, GRPC_HEADERS_SENT, 0, "");
    assert_int_equal(bed.client.state, FAKEEXCHANGE_ENDED);
    assert_body(&bed, 200, "{\"header\":{\"revision\":\"5\"},\"count\":\"1\"}");
    assert_string_equal(fakeexchange_field(&bed.client, "content-type"), "application/json");
    bed_close(&bed);
}

static void nothing_is_an_empty_request(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    ask(&bed, "POST", "/v3beta/auth/status?x=1");
    fakeexchange_half_close(&bed.client);
    assert_int_equal(belfry_buf_len(&bed.served.body), BELFRY_GRPC_PREFIX_BYTES);
    assert_true(bed.served.ended);
    grpc_fail(bed.served.x, GRPC_HEADERS_NOT_SENT, 9, "etcdserver: no");
    assert_body(&bed, 400, "{\"error\":\"etcdserver: no\",\"message\":\"etcdserver: no\",\"code\":9,\"grpc_code\":9}");
    bed_close(&bed);
}

static void a_method_that_fails_at_once(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    bed.fails = true;
    ask(&bed, "POST", "/v3/watch");
    assert_body(&bed, 503,
                "{\"error\":{\"message\":\"not today: 100%\",\"code\":14,\"grpc_code\":14,\"http_code\":503,"
                "\"http_status\":\"Service Unavailable\"}}\n");
    bed_close(&bed);
}

static void a_time_that_is_none_is_the_clients_mistake(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    bed.timeout = "grpc-timeout: soon";
    ask(&bed, "POST", "/v3/kv/range");
    assert_body(
        &bed, 400,
        "{\"error\":\"malformed grpc-timeout: \\\"soon\\\"\",\"message\":\"malformed grpc-timeout: \\\"soon\\\"\","
        "\"code\":3,\"grpc_code\":3}");
    bed_close(&bed);
}

static void a_stream_is_a_line_for_each_answer(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    ask(&bed, "POST", "/v3/watch");
    say(&bed, "{\"create_request\":{\"key\":\"YQ==\"}}\n{\"progress_request\":{}}{\"cancel");
    assert_false(bed.served.ended);
    grpc_begin(bed.served.x, belfry_bytes_str("application/grpc"));
    answer(&bed, created, sizeof(created));
    answer(&bed, created, sizeof(created));
    assert_body(&bed, 200,
                "{\"result\":{\"header\":{\"revision\":\"5\"},\"created\":true}}\n"
                "{\"result\":{\"header\":{\"revision\":\"5\"},\"created\":true}}\n");
    say(&bed, "_request\":{\"watch_id\":\"1\"}}");
    fakeexchange_half_close(&bed.client);
    assert_true(bed.served.ended);
    belfry_buf_clear(&bed.client.body);
    grpc_fail(bed.served.x, GRPC_HEADERS_SENT, 14, "away");
    assert_body(&bed, 200,
                "{\"error\":{\"message\":\"away\",\"code\":14,\"grpc_code\":14,\"http_code\":503,"
                "\"http_status\":\"Service Unavailable\"}}\n");
    assert_int_equal(bed.client.state, FAKEEXCHANGE_ENDED);
    bed_close(&bed);
}

static void a_line_is_one_write_however_its_message_comes(void **state)
{
    (void)state;
    struct bed bed;
    uint8_t both[2 * (BELFRY_GRPC_PREFIX_BYTES + sizeof(created))];
    for (size_t i = 0; i < 2; i++) {
        uint8_t *at = both + i * (sizeof(both) / 2);
        belfry_grpc_frame_prefix(at, sizeof(created));
        memcpy(at + BELFRY_GRPC_PREFIX_BYTES, created, sizeof(created));
    }
    for (size_t cut = 0; cut < sizeof(both); cut++) {
        bed_open(&bed);
        ask(&bed, "POST", "/v3/watch");
        grpc_begin(bed.served.x, belfry_bytes_str("application/grpc"));
        exchange_write(bed.served.x, both, cut);
        assert_int_equal(bed.client.writes, cut < sizeof(both) / 2 ? 0 : 1);
        exchange_write(bed.served.x, both + cut, sizeof(both) - cut);
        assert_int_equal(bed.client.writes, 2);
        assert_body(&bed, 200,
                    "{\"result\":{\"header\":{\"revision\":\"5\"},\"created\":true}}\n"
                    "{\"result\":{\"header\":{\"revision\":\"5\"},\"created\":true}}\n");
        fakeexchange_gone(&bed.client);
        bed_close(&bed);
    }
}

static void of_a_long_line_no_more_is_kept_than_the_bound(void **state)
{
    (void)state;
    struct bed bed;
    static char text[GATEWAY_LINE_BYTES];
    uint8_t head[BELFRY_GRPC_PREFIX_BYTES], fields[12];
    size_t at = 0, n = 2 * sizeof(text); /* of the value; lengths are varints of three bytes */
    memset(text, 'v', sizeof(text));
    const uint8_t tags[] = {0x5a, 0x12, 0x2a}; /* events, kv, value */
    const size_t lens[] = {n + 8, n + 4, n};
    for (size_t i = 0; i < 3; i++) {
        fields[at++] = tags[i];
        fields[at++] = (uint8_t)(lens[i] | 0x80);
        fields[at++] = (uint8_t)(lens[i] >> 7 | 0x80);
        fields[at++] = (uint8_t)(lens[i] >> 14);
    }
    belfry_grpc_frame_prefix(head, at + n);
    bed_open(&bed);
    ask(&bed, "POST", "/v3/watch");
    grpc_begin(bed.served.x, belfry_bytes_str("application/grpc"));
    exchange_write(bed.served.x, head, sizeof(head));
    exchange_write(bed.served.x, fields, at);
    exchange_write(bed.served.x, text, 9000);
    assert_int_equal(bed.client.writes, 0); /* 12,000 characters */
    exchange_write(bed.served.x, text, 6000);
    assert_int_equal(bed.client.writes, 1);
    exchange_write(bed.served.x, text, 3);
    assert_int_equal(bed.client.writes, 2); /* nothing of it is kept any more */
    for (size_t left = n - 15003; left > 0;) {
        size_t piece = left < sizeof(text) ? left : sizeof(text);
        exchange_write(bed.served.x, text, piece);
        left -= piece;
    }
    size_t before = bed.client.writes;
    answer(&bed, created, sizeof(created)); /* the next one is whole again */
    assert_int_equal(bed.client.writes, before + 1);
    fakeexchange_gone(&bed.client);
    bed_close(&bed);
}

static void what_is_kept_of_a_line_counts_to_its_client(void **state)
{
    (void)state;
    struct bed bed;
    struct fakeshares fake;
    struct shares_stats stats;
    fakeshares_init(&fake, SHARES_CALL_BYTES, 100, 100);
    bed_open(&bed);
    fakeshares_join(&fake, &bed.client.conn, "a");
    ask(&bed, "POST", "/v3/watch");
    grpc_begin(bed.served.x, belfry_bytes_str("application/grpc"));
    exchange_write(bed.served.x, "\0\0\0\0\6\x0a\2\x18", 8);
    assert_int_equal(bed.client.writes, 0);
    shares_stats(&fake.shares, SHARES_CALL_BYTES, &stats);
    assert_true(stats.used > 0);
    exchange_write(bed.served.x, "\5\x18\1", 3);
    assert_int_equal(bed.client.writes, 1);
    shares_stats(&fake.shares, SHARES_CALL_BYTES, &stats);
    assert_int_equal(stats.used, 0);
    shares_count(&bed.client.conn.share, SHARES_CALL_BYTES, 0, 100); /* no room: a line is sent as it comes */
    exchange_write(bed.served.x, "\0\0\0\0\6\x0a\2\x18", 8);
    assert_int_equal(bed.client.writes, 2);
    say(&bed, "x "); /* what is told of it cannot be a line inside of a line */
    assert_int_equal(bed.client.state, FAKEEXCHANGE_RESET);
    assert_true(bed.served.gone);
    shares_count(&bed.client.conn.share, SHARES_CALL_BYTES, 100, 0);
    shares_stats(&fake.shares, SHARES_CALL_BYTES, &stats);
    assert_int_equal(stats.used, 0);
    shares_leave(&bed.client.conn.share);
    shares_fini(&fake.shares);
    bed_close(&bed);
}

/* A line that comes in two pieces, from the gateway's creation to its end. */
static enum belfry_err line_in_two_pieces(void)
{
    struct bed bed = {.served.takes = true};
    uint8_t prefix[BELFRY_GRPC_PREFIX_BYTES];
    assert_int_equal(uv_loop_init(&bed.loop), 0);
    enum belfry_err err = gateway_create(&bed.loop, &bed.gateway);
    if (err == BELFRY_OK)
        gateway_set_methods(bed.gateway, begin_method, &bed);
    fakeexchange_init(&bed.client, EXCHANGE_ROOM);
    if (err == BELFRY_OK)
        ask(&bed, "POST", "/v3/watch");
    if (bed.served.x != NULL) {
        belfry_grpc_frame_prefix(prefix, sizeof(created));
        exchange_write(bed.served.x, prefix, sizeof(prefix));
        exchange_write(bed.served.x, created, sizeof(created));
    }
    if (err == BELFRY_OK && (bed.client.writes != 1 || bed.client.lost))
        err = BELFRY_ERR_NOMEM;
    if (bed.client.state == FAKEEXCHANGE_OPEN && bed.served.x != NULL)
        fakeexchange_gone(&bed.client);
    bed_close(&bed); /* who serves a call that broke is told by then */
    assert_ptr_equal(bed.served.x, NULL);
    return err;
}

static void a_line_without_memory_ends_its_call(void **state)
{
    (void)state;
    assert_true(refuse_sweep(line_in_two_pieces) > 3);
}

static void what_is_no_request_is_refused_and_the_method_told(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    ask(&bed, "POST", "/v3/kv/range");
    say(&bed, "{\"key\":1}");
    assert_true(bed.served.gone);
    assert_int_equal(bed.client.status, 400);
    struct gateway_stats stats;
    gateway_stats(bed.gateway, &stats);
    assert_int_equal(stats.refused, 1);
    bed_close(&bed);

    bed_open(&bed);
    ask(&bed, "POST", "/v3/watch");
    say(&bed, "{}");
    grpc_begin(bed.served.x, belfry_bytes_str("application/grpc"));
    answer(&bed, created, sizeof(created));
    say(&bed, "x ");
    assert_true(bed.served.gone);
    assert_int_equal(bed.client.state, FAKEEXCHANGE_ENDED);
    bed_close(&bed);
}

static void paths_and_methods_that_there_are_not(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    ask(&bed, "POST", "/v3/kv/nothing");
    assert_body(&bed, 404, "{\"error\":\"Not Found\",\"message\":\"Not Found\",\"code\":5,\"grpc_code\":5}");
    bed_close(&bed);
    bed_open(&bed);
    ask(&bed, "GET", "/v3/kv/range");
    assert_int_equal(bed.client.status, 501);
    bed_close(&bed);
    assert_true(gateway_is(belfry_bytes_str("/v3/x")) && gateway_is(belfry_bytes_str("/v3beta/kv/range")));
    assert_false(gateway_is(belfry_bytes_str("/v3alpha/kv/range")) || gateway_is(belfry_bytes_str("/v3")) ||
                 gateway_is(belfry_bytes_str("/v3.0/kv/range")));
}

static void a_client_that_goes_is_gone_for_the_method(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    ask(&bed, "POST", "/v3/watch");
    fakeexchange_gone(&bed.client);
    assert_true(bed.served.gone);
    bed_close(&bed);
}

static void an_answer_that_cannot_be_read_ends_both(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    ask(&bed, "POST", "/v3/watch");
    answer(&bed, "\x0b\x0b", 2);
    assert_false(bed.served.gone); /* not from inside its own call */
    assert_int_equal(exchange_room(bed.served.x), 0);
    answer(&bed, created, sizeof(created));
    say(&bed, "x ");
    assert_int_equal(belfry_buf_len(&bed.client.body), 0);
    uv_run(&bed.loop, UV_RUN_NOWAIT);
    assert_true(bed.served.gone);
    assert_int_equal(bed.client.state, FAKEEXCHANGE_RESET);
    bed_close(&bed);
}

/* Before the loop has told anybody, either side may end. */
static void a_broken_call_may_end_by_itself(void **state)
{
    (void)state;
    for (int is_client = 0; is_client <= 1; is_client++) {
        struct bed bed;
        bed_open(&bed);
        ask(&bed, "POST", "/v3/watch");
        answer(&bed, "\x0b\x0b", 2);
        if (is_client) {
            fakeexchange_gone(&bed.client);
            assert_true(bed.served.gone);
        } else {
            grpc_fail(bed.served.x, GRPC_HEADERS_SENT, 14, "away");
            assert_int_equal(bed.client.state, FAKEEXCHANGE_RESET);
        }
        uv_run(&bed.loop, UV_RUN_NOWAIT);
        bed_close(&bed);
    }
}

static void a_cut_answer_is_not_a_whole_one(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    ask(&bed, "POST", "/v3/kv/range");
    say(&bed, "{}");
    exchange_write(bed.served.x, "\0\0\0\0\6\x0a\2", 7);
    grpc_fail(bed.served.x, GRPC_HEADERS_SENT, 0, "");
    assert_int_equal(bed.client.state, FAKEEXCHANGE_RESET);
    bed_close(&bed);
}

static void the_client_may_send_more_when_the_method_has_taken_it(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed);
    bed.served.takes = false;
    ask(&bed, "POST", "/v3/watch");
    say(&bed, "{}{}");
    assert_int_equal(bed.client.taken, 0);
    exchange_taken(bed.served.x, bed.served.untaken);
    assert_int_equal(bed.client.taken, 4);
    fakeexchange_make_room(&bed.client, 5);
    assert_true(bed.served.is_writable);
    assert_int_equal(exchange_room(bed.served.x) < EXCHANGE_ROOM_LOW, exchange_room(&bed.client.x) < EXCHANGE_ROOM_LOW);
    fakeexchange_gone(&bed.client);
    bed_close(&bed);
}

static void every_path_has_its_messages(void **state)
{
    (void)state;
    size_t n;
    const struct gateway_path *all = gateway_paths_all(&n);
    assert_true(n > 40);
    for (size_t i = 0; i < n; i++) {
        assert_true(all[i].path[0] == '/' && all[i].method[0] == '/');
        assert_int_equal(all[i].request->magic, PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC);
        assert_int_equal(all[i].response->magic, PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_method_with_one_answer),
        cmocka_unit_test(nothing_is_an_empty_request),
        cmocka_unit_test(a_method_that_fails_at_once),
        cmocka_unit_test(a_time_that_is_none_is_the_clients_mistake),
        cmocka_unit_test(a_stream_is_a_line_for_each_answer),
        cmocka_unit_test(a_line_is_one_write_however_its_message_comes),
        cmocka_unit_test(a_line_without_memory_ends_its_call),
        cmocka_unit_test(of_a_long_line_no_more_is_kept_than_the_bound),
        cmocka_unit_test(what_is_kept_of_a_line_counts_to_its_client),
        cmocka_unit_test(what_is_no_request_is_refused_and_the_method_told),
        cmocka_unit_test(paths_and_methods_that_there_are_not),
        cmocka_unit_test(a_client_that_goes_is_gone_for_the_method),
        cmocka_unit_test(an_answer_that_cannot_be_read_ends_both),
        cmocka_unit_test(a_broken_call_may_end_by_itself),
        cmocka_unit_test(a_cut_answer_is_not_a_whole_one),
        cmocka_unit_test(the_client_may_send_more_when_the_method_has_taken_it),
        cmocka_unit_test(every_path_has_its_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
