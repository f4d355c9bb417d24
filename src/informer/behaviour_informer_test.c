/* src/informer/behaviour_informer_test.c: client-go's shared informer beside ours: each test is a row of the table in
 * docs/client-go.md, the server a script. At the end: stopped at any point, and out of memory at any point. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/rng.h"
#include "support/kubebed.h"

#define SCHEDULES 400 /* of stopping, each at another point */

/* A handler of its own: what it was told, as letters, and where it stands. */
struct listener {
    struct known known;
    char told[128]; /* A U R S E */
    size_t n;
    struct belfry_handler *handler;
    enum belfry_next next; /* what it answers, once */
};

static enum belfry_next on_told(struct belfry_informer *informer, const struct belfry_news *news, void *user)
{
    struct listener *l = user;
    const char *wrong = known_judge(&l->known, informer, news);
    if (bed.wrong == NULL)
        bed.wrong = wrong;
    static const char letters[] = {[BELFRY_NEWS_ADDED] = 'A',  [BELFRY_NEWS_UPDATED] = 'U', [BELFRY_NEWS_REMOVED] = 'R',
                                   [BELFRY_NEWS_SYNCED] = 'S', [BELFRY_NEWS_LINK] = 'L',    [BELFRY_NEWS_END] = 'E'};
    if (news->kind != BELFRY_NEWS_LINK && l->n < sizeof(l->told) - 1)
        l->told[l->n++] = letters[news->kind];
    enum belfry_next next = news->kind == BELFRY_NEWS_LINK ? BELFRY_MORE : l->next;
    if (news->kind != BELFRY_NEWS_LINK)
        l->next = BELFRY_MORE;
    return next;
}

/* Static, because a session that a failed test leaves open still reports its end to them. */
static struct listener late, second, third;

static void listen_too(struct listener *l)
{
    *l = (struct listener){.next = BELFRY_MORE};
    assert_int_equal(belfry_informer_add(bed.informer, NULL, on_told, l, &l->handler), BELFRY_OK);
}

/* The session ends before what its handlers write to. */
static void end_session(void)
{
    close_session();
    known_free(&late.known);
    known_free(&second.known);
    known_free(&third.known);
}

static const struct belfry_object *stored(const char *key)
{
    return belfry_informer_get(bed.informer, (struct belfry_bytes){key, strlen(key)});
}

static void a_key_is_namespace_and_name_or_name_alone(void **state)
{
    (void)state;
    start_informer(PAIRS("watch-list", "false"));
    scriptpeer_answer(next_request(), "200 OK", JSON,
                      list_of("10", two(pod("a", "5"), "{\"metadata\":{\"name\":\"n1\",\"resourceVersion\":\"6\"}}")));
    drive_until(belfry_informer_synced(bed.informer));
    assert_non_null(stored("x/a"));
    assert_non_null(stored("n1"));
    assert_null(stored("a"));
    const struct belfry_object *first = belfry_informer_next(bed.informer, (struct belfry_bytes){"x/", 2}, NULL);
    assert_ptr_equal(first, stored("x/a"));
    assert_null(belfry_informer_next(bed.informer, (struct belfry_bytes){"x/", 2}, first));
    assert_int_equal(belfry_object_rev(first), 5);
}

/* The tombstone of client-go: told with .missed, and the last state that was known. */
static void what_a_new_list_does_not_have_is_removed_as_it_was_last_known(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = listed_and_watching("10", two(pod_of("a", "5", "u5"), pod("b", "6")));
    scriptpeer_chunk(conn, event("ERROR", status(410, "Expired")));
    scriptpeer_end(conn);
    scriptpeer_answer(next_request(), "200 OK", JSON, list_of("20", pod("b", "6")));
    const struct note *gone = assert_note(BELFRY_NEWS_REMOVED, "x/a", "5");
    assert_int_equal(gone->missed, 1);
    assert_string_equal(gone->uid, "u5");
    assert_note(BELFRY_NEWS_SYNCED, "", NULL);
    assert_null(stored("x/a"));
}

/* known.h looks into the store at each news; this is that it is asked. */
static void the_store_is_moved_before_anybody_is_told(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = listed_and_watching("10", pod("a", "5"));
    listen_too(&late);
    drive_until(late.n == 2);
    scriptpeer_chunk(conn, modified("a", "11"));
    scriptpeer_chunk(conn, deleted("a", "12"));
    assert_note(BELFRY_NEWS_UPDATED, "x/a", "11");
    assert_note(BELFRY_NEWS_REMOVED, "x/a", NULL);
    drive_until(late.n == 4);
    assert_string_equal(late.told, "ASUR");
    end_session();
}

/* The store decides, not the type of the event. */
static void what_is_there_is_updated_and_what_is_not_is_added(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = listed_and_watching("10", pod("a", "5"));
    scriptpeer_chunk(conn, added("a", "11"));
    scriptpeer_chunk(conn, modified("b", "12"));
    scriptpeer_chunk(conn, deleted("c", "13"));
    scriptpeer_chunk(conn, added("c", "14"));
    assert_string_equal(assert_note(BELFRY_NEWS_UPDATED, "x/a", "11")->old_version, "5");
    assert_int_equal(assert_note(BELFRY_NEWS_ADDED, "x/b", "12")->initial, 0);
    assert_note(BELFRY_NEWS_ADDED, "x/c", "14"); /* and nothing of the delete of what was not there */
}

static void deleted_and_made_again_unseen_is_an_update_with_another_uid(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = listed_and_watching("10", pod_of("a", "5", "first"));
    scriptpeer_chunk(conn, event("ERROR", status(410, "Expired")));
    scriptpeer_end(conn);
    scriptpeer_answer(next_request(), "200 OK", JSON, list_of("20", pod_of("a", "15", "second")));
    const struct note *note = assert_note(BELFRY_NEWS_UPDATED, "x/a", "15");
    assert_string_equal(note->old_uid, "first");
    assert_string_equal(note->uid, "second");
}

/* client-go tells an update for every object of a new list. */
static void what_did_not_change_is_not_told_again(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = listed_and_watching("10", two(pod("a", "5"), pod("b", "6")));
    scriptpeer_chunk(conn, event("ERROR", status(410, "Expired")));
    scriptpeer_end(conn);
    scriptpeer_answer(next_request(), "200 OK", JSON, list_of("20", two(pod("a", "5"), pod("b", "6"))));
    assert_note(BELFRY_NEWS_SYNCED, "", NULL);
    assert_int_equal(belfry_informer_get_stats(bed.informer)->changes, 2);
}

/* A server's label is only its word: belfryd 0.1.0 showed some changes of a transaction under the version before. */
static void another_state_under_the_same_uid_and_version_is_told(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = listed_and_watching("10", pod("a", "5"));
    const char *other = text("{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\",\"namespace\":\"x\","
                             "\"uid\":\"1\",\"resourceVersion\":\"5\"},\"spec\":{\"nodeName\":\"another\"}}");
    scriptpeer_chunk(conn, event("MODIFIED", other));
    assert_note(BELFRY_NEWS_UPDATED, "x/a", "5");
    assert_int_equal(belfry_informer_get_stats(bed.informer)->changes, 2);
    const struct belfry_object *held = belfry_informer_next(bed.informer, belfry_bytes_str("x/a"), NULL);
    assert_true(belfry_bytes_equal(belfry_object_value(held), belfry_bytes_str(other)));
}

static void synced_comes_when_the_whole_first_list_was_told(void **state)
{
    (void)state;
    start_informer(PAIRS("watch-list", "false", "chunk-size", "1"));
    scriptpeer_answer(next_request(), "200 OK", JSON, list_page("10", pod("a", "5"), "more"));
    assert_int_equal(assert_note(BELFRY_NEWS_ADDED, "x/a", "5")->initial, 1);
    struct scriptpeer_conn *conn = next_request();
    assert_false(belfry_informer_synced(bed.informer));
    scriptpeer_answer(conn, "200 OK", JSON, list_of("10", pod("b", "6")));
    assert_int_equal(assert_note(BELFRY_NEWS_ADDED, "x/b", "6")->initial, 1);
    assert_note(BELFRY_NEWS_SYNCED, "", NULL);
    assert_true(belfry_informer_synced(bed.informer));
}

static void a_handler_is_synced_when_it_was_told_everything(void **state)
{
    (void)state;
    listed_and_watching("10", two(pod("a", "5"), pod("b", "6")));
    listen_too(&late);
    assert_false(belfry_handler_synced(late.handler));
    assert_int_equal(late.n, 0); /* nothing is told from inside the call */
    drive_until(late.n == 3);
    assert_string_equal(late.told, "AAS");
    assert_true(belfry_handler_synced(late.handler));
    no_note_for(20); /* the first handler is told nothing of that */
    end_session();
}

static void a_resync_tells_everything_again_without_asking_the_server(void **state)
{
    (void)state;
    start_informer(PAIRS("watch-list", "false", "resync", "1s"));
    struct scriptpeer_conn *conn = list_and_watch("10", two(pod("a", "5"), pod("b", "6")));
    scriptpeer_begin(conn, "200 OK", JSON);
    uint64_t requests = bed.peer.n_requests;
    const struct note *note = assert_note(BELFRY_NEWS_UPDATED, "x/a", "5");
    assert_int_equal(note->resync, 1);
    assert_string_equal(note->old_version, "5");
    assert_int_equal(assert_note(BELFRY_NEWS_UPDATED, "x/b", "6")->resync, 1);
    assert_int_equal(bed.peer.n_requests, requests);
    assert_int_equal(belfry_informer_get_stats(bed.informer)->lists, 1);
}

static void an_index_finds_objects_by_value_and_follows_them(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = listed_and_watching("10", two(pod("a", "5"), pod("b", "6")));
    assert_int_equal(belfry_informer_index_path(bed.informer, "node", ".spec.nodeName"), BELFRY_OK);
    assert_int_equal(belfry_informer_index_path(bed.informer, "namespace", ".metadata.namespace"), BELFRY_OK);
    assert_int_equal(belfry_informer_index_path(bed.informer, "node", ".spec.nodeName"), BELFRY_ERR_INVALID);
    struct belfry_bytes old = {"node-5", 6}, now = {"node-11", 7}, ns = {"x", 1};
    assert_ptr_equal(belfry_informer_by(bed.informer, "node", old, NULL), stored("x/a"));
    scriptpeer_chunk(conn, modified("a", "11"));
    assert_note(BELFRY_NEWS_UPDATED, "x/a", "11");
    assert_null(belfry_informer_by(bed.informer, "node", old, NULL));
    assert_ptr_equal(belfry_informer_by(bed.informer, "node", now, NULL), stored("x/a"));
    assert_null(belfry_informer_by(bed.informer, "node", now, stored("x/a")));
    const struct belfry_object *first = belfry_informer_by(bed.informer, "namespace", ns, NULL);
    assert_ptr_equal(first, stored("x/a"));
    assert_ptr_equal(belfry_informer_by(bed.informer, "namespace", ns, first), stored("x/b"));
    assert_null(belfry_informer_by(bed.informer, "no such index", ns, NULL));
}

static void several_handlers_are_told_everything_in_order_on_one_watch(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = listed_and_watching("10", pod("a", "5"));
    listen_too(&second);
    listen_too(&third);
    drive_until(second.n == 2 && third.n == 2);
    scriptpeer_chunk(conn, added("b", "11"));
    scriptpeer_chunk(conn, modified("b", "12"));
    scriptpeer_chunk(conn, deleted("b", "13"));
    drive_until(third.n == 5 && second.n == 5);
    assert_string_equal(second.told, "ASAUR");
    assert_string_equal(third.told, "ASAUR");
    assert_note(BELFRY_NEWS_ADDED, "x/b", "11");
    assert_int_equal(belfry_informer_get_stats(bed.informer)->watches, 1);
    end_session();
}

static void a_handler_that_goes_leaves_the_others(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = listed_and_watching("10", pod("a", "5"));
    listen_too(&second);
    listen_too(&third);
    drive_until(second.n == 2 && third.n == 2);
    second.next = BELFRY_STOP;
    scriptpeer_chunk(conn, added("b", "11"));
    drive_until(third.n == 3);
    belfry_handler_remove(third.handler);
    scriptpeer_chunk(conn, added("c", "12"));
    assert_note(BELFRY_NEWS_ADDED, "x/b", "11");
    assert_note(BELFRY_NEWS_ADDED, "x/c", "12");
    drive_for(20);
    assert_string_equal(second.told, "ASA");
    assert_string_equal(third.told, "ASA");
    end_session();
}

/* client-go queues without bound for a slow handler; ours holds the informer, and the server. */
static void a_handler_that_must_wait_pauses_the_informer(void **state)
{
    (void)state;
    struct scriptpeer_conn *conn = listed_and_watching("10", pod("a", "5"));
    bed.next = BELFRY_PAUSE;
    scriptpeer_chunk(conn, modified("a", "11"));
    scriptpeer_chunk(conn, modified("a", "12"));
    scriptpeer_chunk(conn, added("b", "13"));
    assert_note(BELFRY_NEWS_UPDATED, "x/a", "11");
    no_note_for(150);
    assert_int_equal(belfry_object_rev(stored("x/a")), 11);
    assert_int_equal(belfry_informer_count(bed.informer), 1);
    belfry_informer_resume(bed.informer);
    assert_note(BELFRY_NEWS_UPDATED, "x/a", "12");
    assert_note(BELFRY_NEWS_ADDED, "x/b", "13");
}

static const char *wide_pod(const char *name)
{
    char wide[3000] = "";
    memset(wide, 'x', sizeof(wide) - 1);
    return text("{\"metadata\":{\"name\":\"%s\",\"resourceVersion\":\"1\"},\"data\":\"%s\"}", name, wide);
}

static void a_store_over_its_bound_ends_the_informer(void **state)
{
    (void)state;
    start_informer(PAIRS("watch-list", "false", "max-bytes", "4KiB"));
    scriptpeer_answer(next_request(), "200 OK", JSON, list_page("10", wide_pod("a"), "more"));
    assert_note(BELFRY_NEWS_ADDED, "a", "1");
    scriptpeer_answer(next_request(), "200 OK", JSON, list_of("10", wide_pod("b")));
    const struct note *end = next_note();
    if (end->kind != BELFRY_NEWS_END) /* what went over it may have been told before */
        end = next_note();
    assert_int_equal(end->kind, BELFRY_NEWS_END);
    assert_int_equal(end->err, BELFRY_ERR_LIMIT);
}

/* ---- stopped at any point ---- */

/* Answers every request: the state, an event, an end, sometimes a failure. Versions only grow, as on a server. */
static void serve_some(struct belfry_rng *rng)
{
    static uint64_t version = 100;
    struct scriptpeer_conn *conn = scriptpeer_asked(&bed.peer);
    if (conn == NULL)
        return;
    switch (belfry_rng_below(rng, 8)) {
    case 0:
        scriptpeer_cut(conn);
        return;
    case 1:
        scriptpeer_answer(conn, "410 Gone", JSON, status(410, "Expired"));
        return;
    case 2:
        scriptpeer_answer(conn, "503 Service Unavailable", "Retry-After: 0\r\n", "");
        return;
    default:
        break;
    }
    version += 10;
    if (!is_watch(conn)) {
        scriptpeer_answer(conn, "200 OK", JSON,
                          list_of(number(version), two(pod("a", number(version)), pod("b", "6"))));
        return;
    }
    scriptpeer_begin(conn, "200 OK", JSON);
    scriptpeer_chunk(conn, added("a", number(version + 1)));
    scriptpeer_chunk(conn, initial_end(number(version + 2)));
    scriptpeer_chunk(conn, modified("a", number(version + 3)));
    if (belfry_rng_below(rng, 2) == 0) {
        scriptpeer_chunk(conn, event("ERROR", status(410, "Expired")));
        scriptpeer_end(conn);
    }
}

static void close_something(struct belfry_rng *rng)
{
    size_t before = bed.n_notes;
    switch (belfry_rng_below(rng, 3)) {
    case 0:
        belfry_informer_close(bed.informer);
        bed.informer = NULL;
        for (int i = 0; i < 3; i++)
            turn();
        assert_int_equal(bed.n_notes, before); /* no callback comes after it, not even an end */
        return;
    case 1:
        belfry_kube_close(bed.kube);
        bed.kube = NULL;
        break;
    default:
        close_session();
        break;
    }
    assert_int_equal(bed.notes[bed.n_notes - 1].kind, BELFRY_NEWS_END);
    assert_int_equal(bed.notes[bed.n_notes - 1].err, BELFRY_ERR_CANCELED);
    assert_int_equal(bed.n_notes, before + 1);
}

static void stopped_at_any_point_it_leaks_nothing_and_is_silent(void **state)
{
    (void)state;
    close_session();
    for (uint64_t seed = 1; seed <= SCHEDULES; seed++) {
        struct belfry_rng rng = {seed};
        bed.n_notes = bed.n_taken = 0;
        bed.known = (struct known){0};
        size_t held = refuse_held();
        assert_int_equal(open_kube(NO_PAIRS), BELFRY_OK);
        start_informer(belfry_rng_below(&rng, 2) == 0 ? PAIRS("watch-list", "false") : NO_PAIRS);
        for (uint64_t turns = belfry_rng_below(&rng, 25); turns > 0 && bed.informer != NULL; turns--) {
            bed.next = belfry_rng_below(&rng, 10) == 0 ? BELFRY_PAUSE : BELFRY_MORE;
            turn_for(1);
            serve_some(&rng);
        }
        close_something(&rng);
        close_all();
        if (refuse_held() != held)
            fail_msg("schedule %d: %zd blocks leaked", (int)seed, (ssize_t)(refuse_held() - held));
    }
}

static enum belfry_next close_in_callback(struct belfry_informer *informer, const struct belfry_news *news, void *user)
{
    size_t *left = user;
    if (news->kind == BELFRY_NEWS_LINK || (*left)-- > 0)
        return BELFRY_MORE;
    belfry_informer_close(informer);
    *left = SIZE_MAX; /* one more call would make it smaller */
    return BELFRY_MORE;
}

static void closed_inside_any_of_its_callbacks_it_is_silent(void **state)
{
    (void)state;
    for (size_t nth = 0; nth < 5; nth++) { /* ADDED, ADDED, SYNCED, UPDATED, REMOVED */
        static size_t left;
        left = nth;
        struct belfry_opts *opts = NULL;
        assert_int_equal(belfry_opts_set(&opts, "watch-list", "false"), BELFRY_OK);
        assert_int_equal(belfry_informer_resource(bed.kube, PODS, opts, close_in_callback, &left, NULL), BELFRY_OK);
        belfry_opts_free(opts);
        scriptpeer_answer(next_request(), "200 OK", JSON, list_of("10", two(pod("a", "5"), pod("b", "6"))));
        if (nth > 2) {
            struct scriptpeer_conn *conn = next_request();
            scriptpeer_begin(conn, "200 OK", JSON);
            scriptpeer_chunk(conn, modified("a", "11"));
            scriptpeer_chunk(conn, deleted("a", "12"));
            scriptpeer_chunk(conn, added("c", "13"));
        }
        drive_until(left == SIZE_MAX);
        drive_for(30);
        assert_true(left == SIZE_MAX);
    }
}

/* ---- out of memory at any point ---- */

static bool over(void)
{
    for (size_t i = 0; i < bed.n_notes; i++)
        if (bed.notes[i].kind == BELFRY_NEWS_END || bed.notes[i].kind == BELFRY_NEWS_REMOVED)
            return true;
    return false;
}

/* Lists, watches, receives a change and a removal, closes. Does not wait for retries. */
static enum belfry_err life(void)
{
    bed.n_notes = bed.n_taken = 0;
    enum belfry_err err = open_kube(NO_PAIRS);
    struct belfry_opts *opts = NULL;
    if (err == BELFRY_OK)
        err = (enum belfry_err)belfry_opts_set(&opts, "watch-list", "false");
    if (err == BELFRY_OK)
        err = (enum belfry_err)belfry_informer_resource(bed.kube, PODS, opts, on_news, NULL, &bed.informer);
    belfry_opts_free(opts);
    uint64_t until = belfry_clock_ms() + 30;
    while (err == BELFRY_OK && !over() && belfry_clock_ms() < until) {
        turn_for(1);
        struct scriptpeer_conn *conn = scriptpeer_asked(&bed.peer);
        if (conn != NULL && is_watch(conn)) {
            scriptpeer_begin(conn, "200 OK", JSON);
            scriptpeer_chunk(conn, modified("a", "11"));
            scriptpeer_chunk(conn, deleted("a", "12"));
        } else if (conn != NULL) {
            scriptpeer_answer(conn, "200 OK", JSON, list_of("10", two(pod("a", "5"), pod("b", "6"))));
        }
    }
    return end_life(err);
}

static void no_memory_is_an_end_or_another_try(void **state)
{
    (void)state;
    close_session();
    assert_true(refuse_sweep(life) >= 10);
}

#define row(name) cmocka_unit_test_setup_teardown(name, setup_bed, teardown_bed)

int main(void)
{
    const struct CMUnitTest tests[] = {
        row(a_key_is_namespace_and_name_or_name_alone),
        row(what_a_new_list_does_not_have_is_removed_as_it_was_last_known),
        row(the_store_is_moved_before_anybody_is_told),
        row(what_is_there_is_updated_and_what_is_not_is_added),
        row(deleted_and_made_again_unseen_is_an_update_with_another_uid),
        row(what_did_not_change_is_not_told_again),
        row(another_state_under_the_same_uid_and_version_is_told),
        row(synced_comes_when_the_whole_first_list_was_told),
        row(a_handler_is_synced_when_it_was_told_everything),
        row(a_resync_tells_everything_again_without_asking_the_server),
        row(an_index_finds_objects_by_value_and_follows_them),
        row(several_handlers_are_told_everything_in_order_on_one_watch),
        row(a_handler_that_goes_leaves_the_others),
        row(a_handler_that_must_wait_pauses_the_informer),
        row(a_store_over_its_bound_ends_the_informer),
        row(stopped_at_any_point_it_leaks_nothing_and_is_silent),
        row(closed_inside_any_of_its_callbacks_it_is_silent),
        row(no_memory_is_an_end_or_another_try),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
