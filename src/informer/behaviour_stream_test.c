/* src/informer/behaviour_stream_test.c: client-go's StreamWatcher beside ours: each test is a row of the table in
 * docs/client-go.md, the server a script. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/kubebed.h"

#define LARGE (5 << 20) /* bytes of an object that is over a max-message of 4 MiB */

/* A watch whose head has been answered. */
static struct scriptpeer_conn *watching(void)
{
    start_watch(NO_PAIRS);
    struct scriptpeer_conn *conn = next_request();
    scriptpeer_begin(conn, "200 OK", JSON);
    return conn;
}

static void events_come_in_order_each_with_its_type(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = watching();
    scriptpeer_chunk(conn, added("a", "5"));
    scriptpeer_chunk(conn, modified("a", "6"));
    scriptpeer_chunk(conn, bookmark("7"));
    scriptpeer_chunk(conn, deleted("a", "8"));
    assert_note(BELFRY_KUBE_ADDED, "x/a", "5");
    assert_note(BELFRY_KUBE_MODIFIED, "x/a", "6");
    assert_int_equal(assert_note(BELFRY_KUBE_BOOKMARK, "", "7")->initial_end, 0);
    assert_note(BELFRY_KUBE_DELETED, "x/a", "8");
    scriptpeer_chunk(conn, initial_end("9"));
    assert_int_equal(assert_note(BELFRY_KUBE_BOOKMARK, "", "9")->initial_end, 1);
    assert_int_equal(belfry_kube_get_stats(bed.kube)->events, 5);
}

static void an_object_is_given_byte_for_byte(void **state)
{
    (void)state;
    static const char object[] =
        "{\"kind\":\"Pod\", \"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\",\"namespace\":\"x\","
        "\"resourceVersion\":\"5\"},\"spec\":{\"n\":12345678901234567890.10,\"t\":\"\\u00e9\\n}\"}}";
    scriptpeer_chunk(watching(), event("ADDED", object));
    assert_string_equal(assert_note(BELFRY_KUBE_ADDED, "x/a", "5")->value, object);
}

static void chunks_mean_nothing(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = watching();
    const char *at = added("a", "5");
    for (; *at != '\0'; at++) {
        char byte[2] = {*at, '\0'};
        scriptpeer_chunk(conn, byte);
        turn();
    }
    scriptpeer_chunk(conn, text("%s\n\n  %s", modified("a", "6"), modified("a", "7")));
    scriptpeer_chunk(conn, "{\"type\":\n  \"ADDED\",\n\"object\":");
    scriptpeer_chunk(conn, pod("b", "8"));
    scriptpeer_chunk(conn, "\n}");
    scriptpeer_end(conn);
    assert_note(BELFRY_KUBE_ADDED, "x/a", "5");
    assert_note(BELFRY_KUBE_MODIFIED, "x/a", "6");
    assert_note(BELFRY_KUBE_MODIFIED, "x/a", "7");
    assert_note(BELFRY_KUBE_ADDED, "x/b", "8");
    assert_end(BELFRY_OK, 0);
}

static void an_event_is_given_as_soon_as_it_is_there(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = watching();
    const char *line = added("a", "5");
    scriptpeer_chunk(conn, text("%.*s", (int)strlen(line) - 1, line)); /* without its newline */
    assert_note(BELFRY_KUBE_ADDED, "x/a", "5");
}

static void the_end_of_a_body_is_a_quiet_end(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = watching();
    scriptpeer_chunk(conn, added("a", "5"));
    scriptpeer_end(conn);
    assert_note(BELFRY_KUBE_ADDED, "x/a", "5");
    assert_end(BELFRY_OK, 0);
    assert_null(bed.request);
}

/* client-go ends as quietly; here the end says that it was none. No event is made up for it. */
static void an_unexpected_end_is_no_event_and_told_apart(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = watching();
    scriptpeer_chunk(conn, added("a", "5"));
    scriptpeer_chunk(conn, "{\"type\":\"ADDED\",\"obj");
    scriptpeer_hang_up(conn);
    assert_note(BELFRY_KUBE_ADDED, "x/a", "5");
    assert_end(BELFRY_ERR_UNAVAILABLE, 0);
    assert_int_equal(belfry_kube_get_stats(bed.kube)->losses, 1);
}

static void a_connection_lost_between_two_events_is_told_apart(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = watching();
    scriptpeer_chunk(conn, added("a", "5"));
    assert_note(BELFRY_KUBE_ADDED, "x/a", "5");
    scriptpeer_cut(conn);
    assert_end(BELFRY_ERR_UNAVAILABLE, 0);
    no_request_for(100); /* a stream that was begun is not begun again by itself */
}

static void a_body_that_ends_inside_an_event_is_told_apart(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = watching();
    scriptpeer_chunk(conn, "{\"type\":\"ADDED\",\"obj");
    scriptpeer_end(conn);
    const struct note *end = next_note();
    assert_int_equal(end->kind, BELFRY_KUBE_END);
    assert_int_not_equal(end->err, BELFRY_OK);
}

static void what_cannot_be_decoded_is_one_error_and_the_end(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "no json\n",
        "[1,2]\n",
        "{\"type\":\"TOUCHED\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{}}}\n",
        "{\"type\":\"ADDED\",\"object\":{\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"}}}\n",
        "{\"type\":\"ADDED\",\"object\":7}\n",
        "{\"type\":\"ADDED\"}\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct scriptpeer_conn *conn = watching();
        scriptpeer_chunk(conn, added("a", "5"));
        scriptpeer_chunk(conn, texts[i]);
        scriptpeer_chunk(conn, added("b", "6")); /* nobody looks at it any more */
        assert_note(BELFRY_KUBE_ADDED, "x/a", "5");
        const struct note *error = assert_note(BELFRY_KUBE_ERROR, "", NULL);
        assert_int_equal(error->code, 500);
        assert_string_equal(error->reason, "ClientWatchDecoding");
        assert_int_equal(error->err, BELFRY_ERR_PROTOCOL);
        assert_int_equal(next_note()->err, BELFRY_ERR_PROTOCOL);
        assert_int_equal(belfry_kube_get_stats(bed.kube)->decode_errors, i + 1);
    }
}

static void an_error_of_the_server_is_given_and_ends_the_stream(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = watching();
    scriptpeer_chunk(conn, event("ERROR", status(410, "Expired"))); /* and leaves it open */
    const struct note *error = assert_note(BELFRY_KUBE_ERROR, "", NULL);
    assert_int_equal(error->code, 410);
    assert_string_equal(error->reason, "Expired");
    assert_non_null(strstr(error->why, "it says Expired"));
    assert_end(BELFRY_ERR_COMPACTED, 410);
    assert_int_equal(belfry_kube_get_stats(bed.kube)->decode_errors, 0);
}

static void an_event_over_the_bound_ends_the_stream(void **state)
{
    (void)state;
    static char filler[65536];
    memset(filler, 'x', sizeof(filler));
    open_kube_again(PAIRS("max-message", "4MiB"));
    struct scriptpeer_conn *conn = watching();
    char head[64];
    snprintf(head, sizeof(head), "%x\r\n{\"type\":\"ADDED\",\"object\":{\"x\":\"", LARGE + 1000);
    assert_int_equal(scriptpeer_send(conn, head, strlen(head)), strlen(head));
    for (size_t sent = 0; sent < LARGE && bed.n_notes == 0; turn())
        sent += scriptpeer_send(conn, filler, sizeof(filler));
    assert_int_equal(assert_note(BELFRY_KUBE_ERROR, "", NULL)->err, BELFRY_ERR_TOO_LARGE);
    const struct note *end = next_note();
    assert_int_equal(end->kind, BELFRY_KUBE_END);
    assert_int_equal(end->err, BELFRY_ERR_TOO_LARGE);
}

static void stopped_in_a_callback_it_closes_and_is_silent(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = watching();
    bed.next = BELFRY_STOP;
    scriptpeer_chunk(conn, text("%s%s", added("a", "5"), added("b", "6")));
    assert_note(BELFRY_KUBE_ADDED, "x/a", "5");
    no_note_for(50);
    drive_until(conn->state == SCRIPTPEER_GONE);
}

static void canceled_at_any_point_it_is_silent(void **state)
{
    (void)state;
    start_watch(NO_PAIRS);
    belfry_kube_cancel(bed.request); /* before it was sent */
    no_note_for(50);
    start_watch(NO_PAIRS);
    struct scriptpeer_conn *conn = next_request();
    belfry_kube_cancel(bed.request); /* before the answer */
    drive_until(conn->state == SCRIPTPEER_GONE);
    conn = watching();
    scriptpeer_chunk(conn, "{\"type\":");
    drive_for(20);
    belfry_kube_cancel(bed.request); /* inside an event */
    drive_until(conn->state == SCRIPTPEER_GONE);
    start_watch(NO_PAIRS);
    scriptpeer_hang_up(next_request());
    drive_for(100);
    belfry_kube_cancel(bed.request); /* while it waits to be sent again */
    no_note_for(50);
    belfry_kube_cancel(NULL);
}

static void closing_the_client_ends_its_requests(void **state)
{
    (void)state;
    watching();
    belfry_kube_close(bed.kube);
    bed.kube = NULL;
    assert_end(BELFRY_ERR_CANCELED, 0);
    no_note_for(20);
}

/* client-go's reader is blocked by its unbuffered channel; ours by a pause. */
static void who_pauses_is_given_nothing_and_loses_nothing(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = watching();
    bed.next = BELFRY_PAUSE;
    scriptpeer_chunk(conn, text("%s%s", added("a", "5"), added("b", "6")));
    scriptpeer_chunk(conn, added("c", "7"));
    scriptpeer_end(conn);
    assert_note(BELFRY_KUBE_ADDED, "x/a", "5");
    no_note_for(100);
    belfry_kube_resume(bed.request);
    assert_note(BELFRY_KUBE_ADDED, "x/b", "6");
    assert_note(BELFRY_KUBE_ADDED, "x/c", "7");
    assert_end(BELFRY_OK, 0);
}

#define row(name) cmocka_unit_test_setup_teardown(name, setup_bed, teardown_bed)

int main(void)
{
    const struct CMUnitTest tests[] = {
        row(events_come_in_order_each_with_its_type),
        row(an_object_is_given_byte_for_byte),
        row(chunks_mean_nothing),
        row(an_event_is_given_as_soon_as_it_is_there),
        row(the_end_of_a_body_is_a_quiet_end),
        row(an_unexpected_end_is_no_event_and_told_apart),
        row(a_connection_lost_between_two_events_is_told_apart),
        row(a_body_that_ends_inside_an_event_is_told_apart),
        row(what_cannot_be_decoded_is_one_error_and_the_end),
        row(an_error_of_the_server_is_given_and_ends_the_stream),
        row(an_event_over_the_bound_ends_the_stream),
        row(stopped_in_a_callback_it_closes_and_is_silent),
        row(canceled_at_any_point_it_is_silent),
        row(closing_the_client_ends_its_requests),
        row(who_pauses_is_given_nothing_and_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
