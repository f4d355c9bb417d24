/* src/informer/behaviour_request_test.c: client-go's Request.Watch and Request.Do beside ours: each test is a row of
 * the table in docs/client-go.md, the server a script. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/kubebed.h"

#define RETRY_NOW "Retry-After: 0\r\n"

static void the_first_try_is_not_held_back(void **state)
{
    (void)state;
    uint64_t began = belfry_clock_ms();
    for (int i = 0; i < 20; i++)
        start_watch(NO_PAIRS);
    for (int i = 0; i < 20; i++)
        assert_true(is_watch(next_request()));
    assert_true(belfry_clock_ms() - began < 1500); /* five a second after ten would be two seconds */
    assert_int_equal(belfry_kube_get_stats(bed.kube)->requests, 20);
}

static void a_request_says_what_it_wants(void **state)
{
    (void)state;
    char got[256];
    open_kube_again(PAIRS("token", "secret-1"));
    start_watch(PAIRS("selector", "app in (a,b)", "field-selector", "metadata.name=x", "resource-version", "7",
                      "watch-timeout", "30s"));
    struct scriptpeer_conn *conn = next_request();
    scriptpeer_path(conn, got, sizeof(got));
    assert_string_equal(got, "/api/v1/pods");
    assert_true(is_watch(conn));
    assert_query(conn, "labelSelector", "app in (a,b)");
    assert_query(conn, "fieldSelector", "metadata.name=x");
    assert_query(conn, "resourceVersion", "7");
    assert_query(conn, "timeoutSeconds", "30");
    assert_query(conn, "allowWatchBookmarks", "true");
    assert_query(conn, "sendInitialEvents", NULL);
    assert_true(scriptpeer_field(conn, "Authorization", got, sizeof(got)));
    assert_string_equal(got, "Bearer secret-1");
    assert_true(scriptpeer_field(conn, "Accept", got, sizeof(got)));
    assert_non_null(strstr(got, "application/json"));
    assert_true(scriptpeer_field(conn, "Host", got, sizeof(got)));
}

static void metadata_alone_is_asked_for_by_accept(void **state)
{
    (void)state;
    char got[256];
    start_watch(PAIRS("metadata-only", "true"));
    assert_true(scriptpeer_field(next_request(), "Accept", got, sizeof(got)));
    assert_non_null(strstr(got, "as=PartialObjectMetadata"));
}

static void only_200_is_success(void **state)
{
    (void)state;
    static const char *const statuses[] = {"201 Created", "202 Accepted", "206 Partial Content", "302 Found"};
    static const int codes[] = {201, 202, 206, 302};
    for (size_t i = 0; i < 4; i++) {
        start_watch(NO_PAIRS);
        scriptpeer_answer(next_request(), statuses[i], JSON, added("a", "5"));
        const struct note *note = next_note();
        assert_int_equal(note->kind, BELFRY_KUBE_END);
        assert_int_not_equal(note->err, BELFRY_OK);
        assert_int_equal(note->code, codes[i]);
    }
}

static void the_content_type_picks_the_decoder(void **state)
{
    (void)state;
    static const char *const known[] = {JSON, "Content-Type: application/json;stream=watch\r\n",
                                        "Content-Type: application/json; charset=utf-8\r\n", ""};
    for (size_t i = 0; i < 4; i++) {
        start_watch(NO_PAIRS);
        scriptpeer_answer(next_request(), "200 OK", known[i], added("a", "5"));
        assert_note(BELFRY_KUBE_ADDED, "x/a", "5");
        assert_end(BELFRY_OK, 0);
    }
}

static void a_content_type_that_is_not_known_fails(void **state)
{
    (void)state;
    static const char *const unknown[] = {"Content-Type: application/vnd.kubernetes.protobuf;stream=watch\r\n",
                                          "Content-Type: text/html\r\n", "Content-Type: json;;=\r\n"};
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        start_watch(NO_PAIRS);
        scriptpeer_answer(next_request(), "200 OK", unknown[i], added("a", "5"));
        assert_int_equal(next_note()->kind, BELFRY_KUBE_ERROR);
        const struct note *end = next_note();
        assert_int_equal(end->kind, BELFRY_KUBE_END);
        assert_int_equal(end->err, BELFRY_ERR_PROTOCOL);
    }
}

static void a_connection_that_ends_before_the_answer_is_tried_again_after_a_second(void **state)
{
    (void)state;
    start_watch(NO_PAIRS);
    scriptpeer_hang_up(next_request());
    struct scriptpeer_conn *conn = next_request_after(900, 2200);
    scriptpeer_answer(conn, "200 OK", JSON, added("a", "5"));
    assert_note(BELFRY_KUBE_ADDED, "x/a", "5");
    assert_end(BELFRY_OK, 0);
    assert_int_equal(belfry_kube_get_stats(bed.kube)->retries, 1);
}

static void a_get_whose_connection_is_reset_is_tried_again_after_a_second(void **state)
{
    (void)state;
    assert_int_equal(belfry_kube_get(bed.kube, belfry_resource("v1", "pods", "x"), "a", NULL, on_event, NULL, NULL),
                     BELFRY_OK);
    scriptpeer_cut(next_request());
    struct scriptpeer_conn *conn = next_request_after(900, 2200);
    char path[128];
    scriptpeer_path(conn, path, sizeof(path));
    assert_string_equal(path, "/api/v1/namespaces/x/pods/a");
    scriptpeer_answer(conn, "200 OK", JSON, pod("a", "5"));
    assert_note(BELFRY_KUBE_ITEM, "x/a", "5");
    assert_end(BELFRY_OK, 0);
}

static void retry_after_is_obeyed_with_429_and_5xx(void **state)
{
    (void)state;
    start_watch(NO_PAIRS);
    scriptpeer_answer(next_request(), "429 Too Many Requests", "Retry-After: 1\r\n" JSON,
                      status(429, "TooManyRequests"));
    scriptpeer_answer(next_request_after(950, 2200), "503 Service Unavailable", RETRY_NOW, "shutting down");
    scriptpeer_answer(next_request_after(0, AT_ONCE), "200 OK", JSON, added("a", "5"));
    assert_note(BELFRY_KUBE_ADDED, "x/a", "5");
    assert_end(BELFRY_OK, 0);
    assert_int_equal(belfry_kube_get_stats(bed.kube)->retries, 2);
}

static void a_request_is_sent_again_at_most_ten_times(void **state)
{
    (void)state;
    start_watch(NO_PAIRS);
    for (int i = 0; i < 11; i++)
        scriptpeer_answer(next_request(), "429 Too Many Requests", RETRY_NOW JSON, status(429, "TooManyRequests"));
    const struct note *end = assert_end(BELFRY_ERR_UNAVAILABLE, 429);
    assert_string_equal(end->reason, "TooManyRequests");
    assert_int_equal(end->retry_after_ms, 0);
    no_request_for(100);
    assert_int_equal(belfry_kube_get_stats(bed.kube)->retries, 10);
    assert_int_equal(belfry_kube_get_stats(bed.kube)->requests, 11);
}

static void without_a_number_in_retry_after_it_is_not_sent_again(void **state)
{
    (void)state;
    static const struct {
        const char *status, *fields;
        int code;
    } answers[] = {{"429 Too Many Requests", "", 429},
                   {"500 Internal Server Error", "", 500},
                   {"503 Service Unavailable", "", 503},
                   {"503 Service Unavailable", "Retry-After: Wed, 21 Oct 2026 07:28:00 GMT\r\n", 503},
                   {"503 Service Unavailable", "Retry-After: -1\r\n", 503}};
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        start_watch(NO_PAIRS);
        scriptpeer_answer(next_request(), answers[i].status, answers[i].fields, "no");
        assert_int_equal(assert_end(BELFRY_ERR_UNAVAILABLE, answers[i].code)->retry_after_ms, -1);
    }
    start_watch(NO_PAIRS); /* what the body says of it is told, and no more */
    scriptpeer_answer(next_request(), "500 Internal Server Error", JSON,
                      "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"code\":500,\"reason\":\"ServerTimeout\","
                      "\"details\":{\"retryAfterSeconds\":1}}");
    assert_int_equal(assert_end(BELFRY_ERR_UNAVAILABLE, 500)->retry_after_ms, 1000);
    no_request_for(100);
}

static void nothing_else_is_sent_again(void **state)
{
    (void)state;
    static const struct {
        const char *status, *reason;
        int code, err;
    } answers[] = {{"400 Bad Request", "BadRequest", 400, BELFRY_ERR_REFUSED},
                   {"401 Unauthorized", "Unauthorized", 401, BELFRY_ERR_AUTH},
                   {"403 Forbidden", "Forbidden", 403, BELFRY_ERR_DENIED},
                   {"404 Not Found", "NotFound", 404, BELFRY_ERR_NOT_FOUND},
                   {"406 Not Acceptable", "NotAcceptable", 406, BELFRY_ERR_REFUSED},
                   {"410 Gone", "Expired", 410, BELFRY_ERR_COMPACTED},
                   {"422 Unprocessable Entity", "Invalid", 422, BELFRY_ERR_REFUSED}};
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        start_watch(NO_PAIRS);
        scriptpeer_answer(next_request(), answers[i].status, RETRY_NOW JSON,
                          status(answers[i].code, answers[i].reason));
        assert_string_equal(assert_end(answers[i].err, answers[i].code)->reason, answers[i].reason);
    }
    start_watch(NO_PAIRS);
    scriptpeer_answer(next_request(), "504 Gateway Timeout", JSON, too_large());
    assert_end(BELFRY_ERR_FUTURE, 504);
    no_request_for(100);
    assert_int_equal(belfry_kube_get_stats(bed.kube)->retries, 0);
}

static void a_refused_connection_is_not_tried_again_here(void **state)
{
    (void)state;
    scriptpeer_refuse(&bed.peer);
    uint64_t began = belfry_clock_ms();
    start_watch(NO_PAIRS);
    assert_end(BELFRY_ERR_UNAVAILABLE, 0);
    assert_true(belfry_clock_ms() - began < 1000);
    assert_int_equal(belfry_kube_get_stats(bed.kube)->retries, 0);
}

static void the_rest_of_a_short_answer_is_read_and_the_connection_used_again(void **state)
{
    (void)state;
    char body[1500];
    memset(body, 'x', sizeof(body) - 1);
    body[sizeof(body) - 1] = '\0';
    start_watch(NO_PAIRS);
    scriptpeer_answer(next_request(), "503 Service Unavailable", RETRY_NOW, body);
    scriptpeer_answer(next_request(), "200 OK", JSON, added("a", "5"));
    assert_note(BELFRY_KUBE_ADDED, "x/a", "5");
    assert_int_equal(bed.peer.n_accepted, 1);
    assert_int_equal(belfry_kube_get_stats(bed.kube)->connects, 1);
}

static void an_answer_that_is_no_status_is_told_by_its_code_and_text(void **state)
{
    (void)state;
    start_watch(NO_PAIRS);
    scriptpeer_answer(next_request(), "404 Not Found", "Content-Type: text/plain\r\n", "404 page not found\n");
    const struct note *end = assert_end(BELFRY_ERR_NOT_FOUND, 404);
    assert_non_null(strstr(end->why, "page not found"));
    assert_string_equal(end->reason, "");
    start_watch(NO_PAIRS);
    scriptpeer_answer(next_request(), "403 Forbidden", JSON, status(403, "Forbidden"));
    assert_non_null(strstr(assert_end(BELFRY_ERR_DENIED, 403)->why, "it says Forbidden"));
}

static void a_request_that_is_not_answered_in_time_ends(void **state)
{
    (void)state;
    open_kube_again(PAIRS("command-timeout", "500ms"));
    start_list(NO_PAIRS);
    scriptpeer_begin(next_request(), "200 OK", JSON); /* and not a byte more */
    const struct note *end = next_note();
    assert_int_equal(end->kind, BELFRY_KUBE_END);
    assert_int_equal(end->err, BELFRY_ERR_TIMEOUT);
    no_request_for(100);
}

/* Time since `began`, with room for a slow machine. */
static void assert_took(uint64_t began, uint64_t least_ms, uint64_t most_ms)
{
    uint64_t took = belfry_clock_ms() - began;
    if (took < least_ms || took > most_ms)
        fail_msg("it took %d ms, not %d to %d", (int)took, (int)least_ms, (int)most_ms);
}

static void command_timeout_is_for_all_tries_together(void **state)
{
    (void)state;
    open_kube_again(PAIRS("command-timeout", "300ms"));
    uint64_t began = belfry_clock_ms();
    start_list(NO_PAIRS);
    next_request(); /* no answer: there is no time for another try */
    assert_end(BELFRY_ERR_TIMEOUT, 0);
    assert_took(began, 290, 1000);
    began = belfry_clock_ms();
    start_watch(NO_PAIRS);
    scriptpeer_hang_up(next_request()); /* the next try would come after a second */
    assert_end(BELFRY_ERR_UNAVAILABLE, 0);
    assert_took(began, 0, 900);
    no_request_for(100);
    assert_int_equal(belfry_kube_get_stats(bed.kube)->requests, 2);
}

static void a_server_that_is_busy_for_longer_than_command_timeout_is_told_at_once(void **state)
{
    (void)state;
    open_kube_again(PAIRS("command-timeout", "1500ms"));
    uint64_t began = belfry_clock_ms();
    start_list(NO_PAIRS);
    scriptpeer_answer(next_request(), "503 Service Unavailable", "Retry-After: 1\r\n", "busy");
    scriptpeer_answer(next_request(), "503 Service Unavailable", "Retry-After: 1\r\n", "busy");
    const struct note *end = assert_end(BELFRY_ERR_UNAVAILABLE, 503);
    assert_int_equal(end->retry_after_ms, 1000);
    assert_took(began, 950, 2200);
    no_request_for(100);
}

static void the_first_cause_is_told_beside_the_last(void **state)
{
    (void)state;
    open_kube_again(PAIRS("command-timeout", "500ms"));
    start_list(NO_PAIRS);
    scriptpeer_answer(next_request(), "503 Service Unavailable", RETRY_NOW, "etcd is down");
    next_request(); /* no answer */
    const struct note *end = assert_end(BELFRY_ERR_TIMEOUT, 0);
    assert_non_null(strstr(end->why, "no answer came in time"));
    assert_non_null(strstr(end->why, "the first of 2 tries failed with: 503 Service Unavailable: etcd is down"));
}

/* Its end may come hours later, and is about something else. */
static void the_end_of_a_watch_says_nothing_of_tries_before_it_began(void **state)
{
    (void)state;
    start_watch(NO_PAIRS);
    scriptpeer_answer(next_request(), "503 Service Unavailable", RETRY_NOW, "etcd is down");
    struct scriptpeer_conn *conn = next_request();
    scriptpeer_begin(conn, "200 OK", JSON);
    scriptpeer_chunk(conn, added("a", "1"));
    assert_note(BELFRY_KUBE_ADDED, "x/a", "1");
    scriptpeer_cut(conn);
    assert_null(strstr(assert_end(BELFRY_ERR_UNAVAILABLE, 0)->why, "etcd is down"));
}

/* The list that is asked for whole, after 410, is another request. */
static void a_list_that_begins_again_says_nothing_of_tries_before(void **state)
{
    (void)state;
    start_list(PAIRS("chunk-size", "1"));
    scriptpeer_answer(next_request(), "200 OK", JSON, list_page("10", pod("a", "1"), "next"));
    assert_note(BELFRY_KUBE_ITEM, "x/a", "1");
    scriptpeer_answer(next_request(), "503 Service Unavailable", RETRY_NOW, "etcd is down");
    scriptpeer_answer(next_request(), "410 Gone", JSON, status(410, "Expired"));
    assert_int_equal(next_note()->kind, BELFRY_KUBE_RESTART);
    scriptpeer_answer(next_request(), "403 Forbidden", "", "not you");
    assert_null(strstr(assert_end(BELFRY_ERR_DENIED, 403)->why, "etcd is down"));
}

static void command_timeout_of_0_is_refused(void **state)
{
    (void)state;
    struct belfry_opts *opts = NULL;
    struct belfry_resource pods = belfry_resource("v1", "pods", "x");
    assert_int_equal(set_all(&opts, PAIRS("command-timeout", "0s")), BELFRY_OK);
    assert_int_equal(belfry_kube_get(bed.kube, pods, "a", opts, on_event, NULL, NULL), BELFRY_ERR_INVALID);
    assert_int_equal(belfry_kube_watch(bed.kube, pods, opts, on_event, NULL, NULL), BELFRY_ERR_INVALID);
    belfry_opts_free(opts);
}

static void each_page_of_a_list_has_command_timeout(void **state)
{
    (void)state;
    open_kube_again(PAIRS("command-timeout", "700ms"));
    start_list(PAIRS("chunk-size", "1"));
    for (int i = 0; i < 4; i++) {
        struct scriptpeer_conn *conn = next_request();
        drive_for(250);
        scriptpeer_answer(conn, "200 OK", JSON, list_page("10", pod("a", "1"), i < 3 ? "next" : ""));
        assert_note(BELFRY_KUBE_ITEM, "x/a", "1");
    }
    assert_end(BELFRY_OK, 0);
}

static void a_get_that_trickles_is_over_in_command_timeout(void **state)
{
    (void)state;
    struct belfry_opts *opts = NULL;
    assert_int_equal(set_all(&opts, PAIRS("command-timeout", "500ms")), BELFRY_OK);
    uint64_t began = belfry_clock_ms();
    assert_int_equal(belfry_kube_get(bed.kube, belfry_resource("v1", "pods", "x"), "a", opts, on_event, NULL, NULL),
                     BELFRY_OK);
    belfry_opts_free(opts);
    struct scriptpeer_conn *conn = next_request();
    scriptpeer_begin(conn, "200 OK", JSON);
    for (int i = 0; i < 20 && bed.n_taken == bed.n_notes; i++) {
        scriptpeer_chunk(conn, " ");
        drive_for(100);
    }
    assert_end(BELFRY_ERR_TIMEOUT, 0);
    assert_took(began, 490, 1500);
}

static void a_list_is_asked_for_page_by_page(void **state)
{
    (void)state;
    start_list(PAIRS("chunk-size", "2"));
    struct scriptpeer_conn *conn = next_request();
    assert_query(conn, "limit", "2");
    assert_query(conn, "continue", NULL);
    scriptpeer_answer(conn, "200 OK", JSON, list_page("10", two(pod("a", "1"), pod("b", "2")), "next/1"));
    conn = next_request();
    assert_query(conn, "limit", "2");
    assert_query(conn, "continue", "next/1");
    scriptpeer_answer(conn, "200 OK", JSON, list_of("10", pod("c", "3")));
    assert_note(BELFRY_KUBE_ITEM, "x/a", "1");
    assert_note(BELFRY_KUBE_ITEM, "x/b", "2");
    assert_note(BELFRY_KUBE_ITEM, "x/c", "3");
    assert_string_equal(assert_end(BELFRY_OK, 0)->version, "10");
}

static void a_list_that_expires_between_two_pages_is_asked_for_once_whole(void **state)
{
    (void)state;
    start_list(PAIRS("chunk-size", "1"));
    scriptpeer_answer(next_request(), "200 OK", JSON, list_page("10", pod("a", "1"), "next/1"));
    scriptpeer_answer(next_request(), "410 Gone", JSON, status(410, "Expired"));
    struct scriptpeer_conn *conn = next_request();
    assert_query(conn, "limit", NULL);
    assert_query(conn, "continue", NULL);
    scriptpeer_answer(conn, "200 OK", JSON, list_of("12", two(pod("a", "1"), pod("b", "11"))));
    assert_note(BELFRY_KUBE_ITEM, "x/a", "1");
    assert_int_equal(next_note()->kind, BELFRY_KUBE_RESTART);
    assert_note(BELFRY_KUBE_ITEM, "x/a", "1");
    assert_note(BELFRY_KUBE_ITEM, "x/b", "11");
    assert_string_equal(assert_end(BELFRY_OK, 0)->version, "12");
}

static void items_of_a_list_get_the_kind_that_it_leaves_out(void **state)
{
    (void)state;
    start_list(NO_PAIRS);
    scriptpeer_answer(next_request(), "200 OK", JSON,
                      list_of("10", "{\"metadata\":{\"name\":\"a\",\"namespace\":\"x\",\"resourceVersion\":\"1\"}}"));
    const struct note *item = assert_note(BELFRY_KUBE_ITEM, "x/a", "1");
    assert_non_null(strstr(item->value, "\"kind\":\"Pod\""));
    assert_non_null(strstr(item->value, "\"apiVersion\":\"v1\""));
    assert_end(BELFRY_OK, 0);
}

#define row(name) cmocka_unit_test_setup_teardown(name, setup_bed, teardown_bed)

int main(void)
{
    const struct CMUnitTest tests[] = {
        row(the_first_try_is_not_held_back),
        row(a_request_says_what_it_wants),
        row(metadata_alone_is_asked_for_by_accept),
        row(only_200_is_success),
        row(the_content_type_picks_the_decoder),
        row(a_content_type_that_is_not_known_fails),
        row(a_connection_that_ends_before_the_answer_is_tried_again_after_a_second),
        row(a_get_whose_connection_is_reset_is_tried_again_after_a_second),
        row(retry_after_is_obeyed_with_429_and_5xx),
        row(a_request_is_sent_again_at_most_ten_times),
        row(without_a_number_in_retry_after_it_is_not_sent_again),
        row(nothing_else_is_sent_again),
        row(a_refused_connection_is_not_tried_again_here),
        row(the_rest_of_a_short_answer_is_read_and_the_connection_used_again),
        row(an_answer_that_is_no_status_is_told_by_its_code_and_text),
        row(a_request_that_is_not_answered_in_time_ends),
        row(command_timeout_is_for_all_tries_together),
        row(a_server_that_is_busy_for_longer_than_command_timeout_is_told_at_once),
        row(the_first_cause_is_told_beside_the_last),
        row(the_end_of_a_watch_says_nothing_of_tries_before_it_began),
        row(a_list_that_begins_again_says_nothing_of_tries_before),
        row(command_timeout_of_0_is_refused),
        row(each_page_of_a_list_has_command_timeout),
        row(a_get_that_trickles_is_over_in_command_timeout),
        row(a_list_is_asked_for_page_by_page),
        row(a_list_that_expires_between_two_pages_is_asked_for_once_whole),
        row(items_of_a_list_get_the_kind_that_it_leaves_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
