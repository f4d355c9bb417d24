/* src/informer/behaviour_reflector_test.c: an informer on a resource compared with client-go's Reflector: each test is
 * a row of the table in docs/client-go.md, against a scripted server. Waits are real, so rows that need several are in
 * reflector_test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/kubebed.h"

#define WAIT_LEAST 700  /* ms: the shortest wait is 800; the clocks of the test and of the library are not one */
#define WAIT_MOST  2600 /* twice 800, and a slow machine */

static void assert_watch(const struct scriptpeer_conn *conn, const char *version)
{
    assert_true(is_watch(conn));
    assert_query(conn, "sendInitialEvents", NULL);
    assert_query(conn, "resourceVersion", version);
}

/* `limit` NULL: all in one page. */
static void assert_list(const struct scriptpeer_conn *conn, const char *version, const char *limit)
{
    if (is_watch(conn))
        fail_msg("a watch, not a list: %.300s", conn->head);
    assert_query(conn, "resourceVersion", version);
    assert_query(conn, "limit", limit);
}

static void assert_synced(void)
{
    assert_note(BELFRY_NEWS_SYNCED, "", NULL);
    assert_true(belfry_informer_synced(bed.informer));
}

static const struct belfry_informer_stats *stats(void)
{
    return belfry_informer_get_stats(bed.informer);
}

/* ---- list and watch ---- */

static void the_first_list_takes_any_version_in_pages_of_500(void **state)
{
    (void)state;
    start_informer(PAIRS("watch-list", "false"));
    struct scriptpeer_conn *conn = next_request_after(0, AT_ONCE);
    assert_list(conn, "0", "500");
    scriptpeer_answer(conn, "200 OK", JSON, list_page("10", pod("a", "5"), "more"));
    conn = next_request_after(0, AT_ONCE);
    assert_query(conn, "continue", "more");
    assert_query(conn, "limit", "500");
    scriptpeer_answer(conn, "200 OK", JSON, list_of("10", pod("b", "6")));
    assert_watch(next_request_after(0, AT_ONCE), "10");
    assert_note(BELFRY_NEWS_ADDED, "x/a", "5");
    assert_note(BELFRY_NEWS_ADDED, "x/b", "6");
    assert_synced();
}

static void a_watch_has_bookmarks_and_a_timeout_of_five_to_ten_minutes(void **state)
{
    (void)state;
    start_informer(PAIRS("watch-list", "false"));
    struct scriptpeer_conn *conn = list_and_watch("10", pod("a", "5"));
    char timeout[16];
    assert_query(conn, "allowWatchBookmarks", "true");
    assert_true(scriptpeer_query(conn, "timeoutSeconds", timeout, sizeof(timeout)));
    assert_in_range(strtoul(timeout, NULL, 10), 300, 600);
}

static void selectors_go_with_every_list_and_watch(void **state)
{
    (void)state;
    start_informer(PAIRS("watch-list", "false", "selector", "app=web", "field-selector", "spec.nodeName=n1"));
    struct scriptpeer_conn *conn = next_request();
    assert_query(conn, "labelSelector", "app=web");
    assert_query(conn, "fieldSelector", "spec.nodeName=n1");
    scriptpeer_answer(conn, "200 OK", JSON, list_of("10", ""));
    conn = next_request();
    assert_query(conn, "labelSelector", "app=web");
    assert_query(conn, "fieldSelector", "spec.nodeName=n1");
}

static void refused_while_opening_a_watch_it_waits_and_watches_from_the_same_version(void **state)
{
    (void)state;
    start_informer(PAIRS("watch-list", "false"));
    struct scriptpeer_conn *conn = next_request();
    scriptpeer_refuse(&bed.peer);
    scriptpeer_answer(conn, "200 OK", JSON "Connection: close\r\n", list_of("10", pod("a", "5")));
    scriptpeer_hang_up(conn);
    drive_until(bed.n_notes == 2); /* ADDED, SYNCED */
    drive_for(300);
    assert_true(scriptpeer_accept(&bed.peer));
    assert_watch(next_request_after(0, WAIT_MOST), "10");
    assert_int_equal(stats()->lists, 1);
    assert_true(stats()->retries >= 1);
    assert_true(bed.n_links >= 1);
}

static void too_many_requests_while_opening_a_watch_waits_and_watches_from_the_same_version(void **state)
{
    (void)state;
    start_informer(PAIRS("watch-list", "false"));
    struct scriptpeer_conn *conn = list_and_watch("10", pod("a", "5"));
    scriptpeer_answer(conn, "429 Too Many Requests", JSON, status(429, "TooManyRequests"));
    assert_watch(next_request_after(WAIT_LEAST, WAIT_MOST), "10");
    assert_int_equal(stats()->lists, 1);
}

static void another_failure_while_opening_a_watch_waits_and_lists(void **state)
{
    (void)state;
    start_informer(PAIRS("watch-list", "false"));
    struct scriptpeer_conn *conn = list_and_watch("10", pod("a", "5"));
    scriptpeer_answer(conn, "500 Internal Server Error", JSON, status(500, "InternalError"));
    assert_list(next_request_after(WAIT_LEAST, WAIT_MOST), "10", NULL);
}

static void a_watch_that_ended_with_events_goes_on_at_once_from_the_last_version(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = listed_and_watching("10", pod("a", "5"));
    scriptpeer_chunk(conn, modified("a", "11"));
    scriptpeer_end(conn);
    assert_watch(next_request_after(0, AT_ONCE), "11");
    assert_string_equal(assert_note(BELFRY_NEWS_UPDATED, "x/a", "11")->old_version, "5");
    assert_int_equal(stats()->watches, 2);
    assert_int_equal(stats()->relists, 0);
}

static void a_watch_that_broke_off_after_events_goes_on_at_once(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = listed_and_watching("10", pod("a", "5"));
    scriptpeer_chunk(conn, modified("a", "11"));
    scriptpeer_chunk(conn, "{\"type\":\"MODIFIED\",");
    drive_until(bed.n_notes == 3);
    scriptpeer_cut(conn);
    assert_watch(next_request_after(0, AT_ONCE), "11");
}

static void a_watch_that_lasted_a_second_goes_on_at_once(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = listed_and_watching("10", pod("a", "5"));
    drive_for(1150);
    scriptpeer_end(conn);
    assert_watch(next_request_after(0, AT_ONCE), "10");
}

static void a_very_short_watch_without_events_waits_and_lists(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = listed_and_watching("10", pod("a", "5"));
    scriptpeer_end(conn);
    conn = next_request_after(WAIT_LEAST, WAIT_MOST);
    assert_list(conn, "10", NULL);
    scriptpeer_answer(conn, "200 OK", JSON, list_of("12", two(pod("a", "5"), pod("b", "12"))));
    assert_note(BELFRY_NEWS_ADDED, "x/b", "12"); /* and not a word of "a", which did not change */
    assert_synced();
    assert_int_equal(stats()->relists, 1);
}

static void an_expired_version_is_listed_at_itself_and_then_at_the_newest(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = listed_and_watching("10", two(pod("a", "5"), pod("b", "6")));
    scriptpeer_chunk(conn, modified("a", "11"));
    scriptpeer_chunk(conn, event("ERROR", status(410, "Expired")));
    scriptpeer_end(conn);
    conn = next_request_after(0, WAIT_MOST);
    assert_list(conn, "11", NULL);
    scriptpeer_answer(conn, "410 Gone", JSON, status(410, "Expired"));
    conn = next_request_after(0, AT_ONCE);
    assert_list(conn, NULL, "500");
    scriptpeer_answer(conn, "200 OK", JSON, list_of("20", pod("a", "15")));
    assert_watch(next_request(), "20");
    assert_note(BELFRY_NEWS_UPDATED, "x/a", "11");
    assert_string_equal(assert_note(BELFRY_NEWS_UPDATED, "x/a", "15")->old_version, "11");
    assert_int_equal(assert_note(BELFRY_NEWS_REMOVED, "x/b", "6")->missed, 1);
    assert_synced();
    assert_int_equal(stats()->relists, 1);
}

static void expired_while_opening_a_watch_lists_at_the_last_version(void **state)
{
    (void)state;
    start_informer(PAIRS("watch-list", "false"));
    scriptpeer_answer(list_and_watch("10", pod("a", "5")), "410 Gone", JSON, status(410, "Expired"));
    assert_list(next_request_after(0, WAIT_MOST), "10", NULL);
}

static void a_version_that_is_too_large_is_listed_at_the_newest(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = listed_and_watching("10", pod("a", "5"));
    scriptpeer_chunk(conn, event("ERROR", status(410, "Expired")));
    scriptpeer_end(conn);
    scriptpeer_answer(next_request(), "504 Gateway Timeout", JSON, too_large());
    assert_list(next_request_after(0, AT_ONCE), NULL, "500");
}

static void too_many_requests_in_the_stream_waits_and_watches_again(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = listed_and_watching("10", pod("a", "5"));
    scriptpeer_chunk(conn, modified("a", "11"));
    scriptpeer_chunk(conn, event("ERROR", status(429, "TooManyRequests")));
    scriptpeer_end(conn);
    drive_until(bed.n_notes == 3);
    assert_watch(next_request_after(WAIT_LEAST, WAIT_MOST), "11");
}

static void any_other_error_in_the_stream_waits_and_lists(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = listed_and_watching("10", pod("a", "5"));
    scriptpeer_chunk(conn, event("ERROR", status(500, "InternalError")));
    scriptpeer_end(conn);
    assert_list(next_request_after(0, WAIT_MOST), "10", NULL);
    assert_non_null(strstr(bed.links, "it says InternalError"));
}

static void what_cannot_be_decoded_waits_and_lists(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = listed_and_watching("10", pod("a", "5"));
    scriptpeer_chunk(conn, "this is no JSON\n");
    assert_list(next_request_after(0, WAIT_MOST), "10", NULL);
}

static void every_event_moves_the_version_and_a_bookmark_nothing_else(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = listed_and_watching("10", pod("a", "5"));
    scriptpeer_chunk(conn, added("b", "11"));
    scriptpeer_chunk(conn, deleted("a", "12"));
    assert_note(BELFRY_NEWS_ADDED, "x/b", "11");
    assert_int_equal(assert_note(BELFRY_NEWS_REMOVED, "x/a", NULL)->missed, 0);
    scriptpeer_chunk(conn, bookmark("17"));
    scriptpeer_end(conn);
    assert_watch(next_request_after(0, AT_ONCE), "17");
    no_note_for(50);
    assert_int_equal(belfry_informer_count(bed.informer), 1);
}

static void an_object_that_cannot_be_read_is_left_out_and_counted(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = listed_and_watching("10", pod("a", "5"));
    scriptpeer_chunk(conn, event("ADDED", "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":"
                                          "\"11\"}}"));
    scriptpeer_chunk(conn, added("b", "12"));
    assert_note(BELFRY_NEWS_ADDED, "x/b", "12");
    assert_int_equal(stats()->undecoded, 1);
    assert_int_equal(stats()->watches, 1);
}

static void an_unauthorized_list_is_tried_again_and_told(void **state)
{
    (void)state;
    start_informer(PAIRS("watch-list", "false"));
    scriptpeer_answer(next_request(), "401 Unauthorized", JSON, status(401, "Unauthorized"));
    struct scriptpeer_conn *conn = next_request_after(WAIT_LEAST, WAIT_MOST);
    assert_list(conn, "0", "500");
    assert_non_null(strstr(bed.links, "401"));
    scriptpeer_answer(conn, "200 OK", JSON, list_of("10", ""));
    assert_synced();
}

/* ---- watch-list ---- */

static void the_state_is_streamed_and_the_stream_goes_on(void **state)
{
    (void)state;
    start_informer(NO_PAIRS);
    struct scriptpeer_conn *conn = next_request_after(0, AT_ONCE);
    assert_true(is_watch_list(conn));
    assert_query(conn, "resourceVersionMatch", "NotOlderThan");
    assert_query(conn, "allowWatchBookmarks", "true");
    assert_query(conn, "resourceVersion", NULL);
    scriptpeer_begin(conn, "200 OK", JSON);
    scriptpeer_chunk(conn, added("a", "5"));
    scriptpeer_chunk(conn, bookmark("9")); /* not the one that ends the state */
    drive_for(50);
    assert_false(belfry_informer_synced(bed.informer));
    scriptpeer_chunk(conn, added("b", "3"));
    scriptpeer_chunk(conn, initial_end("10"));
    assert_int_equal(assert_note(BELFRY_NEWS_ADDED, "x/a", "5")->initial, 1);
    assert_int_equal(assert_note(BELFRY_NEWS_ADDED, "x/b", "3")->initial, 1);
    assert_synced();
    scriptpeer_chunk(conn, added("c", "11"));
    assert_int_equal(assert_note(BELFRY_NEWS_ADDED, "x/c", "11")->initial, 0);
    scriptpeer_end(conn);
    assert_watch(next_request_after(0, AT_ONCE), "11");
    assert_int_equal(stats()->lists, 1);
    assert_int_equal(stats()->relists, 0);
}

/* client-go keeps the state apart until it is complete; ours tells it as it comes and takes back what was not in it. */
static void a_stream_that_ends_before_the_state_is_complete_begins_again(void **state)
{
    (void)state;
    start_informer(NO_PAIRS);
    struct scriptpeer_conn *conn = next_request();
    scriptpeer_begin(conn, "200 OK", JSON);
    scriptpeer_chunk(conn, added("a", "50"));
    scriptpeer_end(conn);
    conn = next_request_after(0, WAIT_MOST);
    assert_true(is_watch_list(conn));
    assert_query(conn, "resourceVersion", NULL); /* and not 50: ADDED is not in order */
    scriptpeer_begin(conn, "200 OK", JSON);
    scriptpeer_chunk(conn, added("b", "51"));
    scriptpeer_chunk(conn, initial_end("60"));
    drive_until(bed.n_notes > 0 && bed.notes[bed.n_notes - 1].kind == BELFRY_NEWS_SYNCED);
    assert_int_equal(belfry_informer_count(bed.informer), 1);
    assert_non_null(belfry_informer_get(bed.informer, (struct belfry_bytes){"x/b", 3}));
}

static void an_expired_stream_is_asked_for_at_the_last_version_and_then_at_the_newest(void **state)
{
    (void)state;
    start_informer(NO_PAIRS);
    struct scriptpeer_conn *conn = next_request();
    scriptpeer_begin(conn, "200 OK", JSON);
    scriptpeer_chunk(conn, added("a", "5"));
    scriptpeer_chunk(conn, added("b", "6"));
    scriptpeer_chunk(conn, initial_end("10"));
    scriptpeer_chunk(conn, event("ERROR", status(410, "Expired")));
    scriptpeer_end(conn);
    conn = next_request_after(0, WAIT_MOST);
    assert_true(is_watch_list(conn));
    assert_query(conn, "resourceVersion", "10");
    scriptpeer_begin(conn, "200 OK", JSON);
    scriptpeer_chunk(conn, event("ERROR", too_large()));
    scriptpeer_end(conn);
    conn = next_request_after(0, WAIT_MOST);
    assert_true(is_watch_list(conn));
    assert_query(conn, "resourceVersion", NULL);
    scriptpeer_begin(conn, "200 OK", JSON);
    scriptpeer_chunk(conn, added("a", "5"));
    scriptpeer_chunk(conn, initial_end("20"));
    assert_note(BELFRY_NEWS_ADDED, "x/a", "5");
    assert_note(BELFRY_NEWS_ADDED, "x/b", "6");
    assert_synced();
    assert_int_equal(assert_note(BELFRY_NEWS_REMOVED, "x/b", "6")->missed, 1);
    assert_synced();
}

static void too_many_requests_waits_and_asks_for_the_stream_again(void **state)
{
    (void)state;
    start_informer(NO_PAIRS);
    scriptpeer_answer(next_request(), "429 Too Many Requests", JSON, status(429, "TooManyRequests"));
    assert_true(is_watch_list(next_request_after(WAIT_LEAST, WAIT_MOST)));
}

static void a_server_that_does_not_offer_it_is_listed_at_once_and_not_asked_again(void **state)
{
    (void)state;
    start_informer(NO_PAIRS);
    scriptpeer_answer(next_request(), "422 Unprocessable Entity", JSON, status(422, "Invalid"));
    struct scriptpeer_conn *conn = next_request_after(0, AT_ONCE);
    assert_list(conn, "0", "500");
    assert_non_null(strstr(bed.links, "the server does not send the state with a watch: it is listed"));
    assert_null(strstr(bed.links, "422"));
    scriptpeer_answer(conn, "200 OK", JSON, list_of("10", pod("a", "5")));
    conn = next_request();
    assert_watch(conn, "10");
    scriptpeer_begin(conn, "200 OK", JSON);
    scriptpeer_chunk(conn, event("ERROR", status(410, "Expired")));
    scriptpeer_end(conn);
    assert_list(next_request_after(0, WAIT_MOST), "10", NULL);
    assert_note(BELFRY_NEWS_ADDED, "x/a", "5");
    assert_synced();
}

static void a_state_that_could_not_be_served_is_listed_at_once_and_asked_for_again_later(void **state)
{
    (void)state;
    start_informer(NO_PAIRS);
    scriptpeer_answer(next_request(), "500 Internal Server Error", JSON, status(500, "InternalError"));
    struct scriptpeer_conn *conn = next_request_after(0, AT_ONCE);
    assert_list(conn, "0", "500");
    scriptpeer_answer(conn, "200 OK", JSON, list_of("10", pod("a", "5")));
    conn = next_request();
    scriptpeer_begin(conn, "200 OK", JSON);
    scriptpeer_chunk(conn, event("ERROR", status(410, "Expired")));
    scriptpeer_end(conn);
    assert_true(is_watch_list(next_request_after(0, WAIT_MOST)));
}

#define row(name) cmocka_unit_test_setup_teardown(name, setup_bed, teardown_bed)

int main(void)
{
    const struct CMUnitTest tests[] = {
        row(the_first_list_takes_any_version_in_pages_of_500),
        row(a_watch_has_bookmarks_and_a_timeout_of_five_to_ten_minutes),
        row(selectors_go_with_every_list_and_watch),
        row(refused_while_opening_a_watch_it_waits_and_watches_from_the_same_version),
        row(too_many_requests_while_opening_a_watch_waits_and_watches_from_the_same_version),
        row(another_failure_while_opening_a_watch_waits_and_lists),
        row(a_watch_that_ended_with_events_goes_on_at_once_from_the_last_version),
        row(a_watch_that_broke_off_after_events_goes_on_at_once),
        row(a_watch_that_lasted_a_second_goes_on_at_once),
        row(a_very_short_watch_without_events_waits_and_lists),
        row(an_expired_version_is_listed_at_itself_and_then_at_the_newest),
        row(expired_while_opening_a_watch_lists_at_the_last_version),
        row(a_version_that_is_too_large_is_listed_at_the_newest),
        row(too_many_requests_in_the_stream_waits_and_watches_again),
        row(any_other_error_in_the_stream_waits_and_lists),
        row(what_cannot_be_decoded_waits_and_lists),
        row(every_event_moves_the_version_and_a_bookmark_nothing_else),
        row(an_object_that_cannot_be_read_is_left_out_and_counted),
        row(an_unauthorized_list_is_tried_again_and_told),
        row(the_state_is_streamed_and_the_stream_goes_on),
        row(a_stream_that_ends_before_the_state_is_complete_begins_again),
        row(an_expired_stream_is_asked_for_at_the_last_version_and_then_at_the_newest),
        row(too_many_requests_waits_and_asks_for_the_stream_again),
        row(a_server_that_does_not_offer_it_is_listed_at_once_and_not_asked_again),
        row(a_state_that_could_not_be_served_is_listed_at_once_and_asked_for_again_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
