/* src/informer/reflector_test.c: client-go's Reflector row by row, on a clock that the test moves. */
#include "informer/reflector.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "support/refuse.h"

#define CHUNK 500

static struct belfry_reflector *r;
static uint64_t now;
static struct belfry_reflector_request request;

static void begin(bool watch_list)
{
    struct belfry_reflector_opts opts = {
        .watch_list = watch_list, .chunk = CHUNK, .watch_timeout_ms = 300000, .seed = 11};
    now = 5000000;
    assert_int_equal(belfry_reflector_create(&opts, &r), BELFRY_OK);
}

static int end(void **state)
{
    (void)state;
    belfry_reflector_destroy(r);
    r = NULL;
    return refuse_held() == 0 ? 0 : -1;
}

/* ---- expectations ---- */

static void assert_list(const char *version, uint32_t chunk)
{
    assert_int_equal(belfry_reflector_next(r, now, &request), BELFRY_OK);
    assert_false(request.watch);
    assert_true(request.fresh);
    assert_string_equal(request.version, version);
    assert_int_equal(request.chunk, chunk);
    assert_int_equal(belfry_reflector_state(r), BELFRY_REFLECTOR_LISTING);
    assert_int_equal(belfry_reflector_due(r), BELFRY_NEVER);
    assert_int_equal(belfry_reflector_next(r, now, &request), BELFRY_ERR_AGAIN);
}

static void assert_watch(const char *version)
{
    assert_int_equal(belfry_reflector_next(r, now, &request), BELFRY_OK);
    assert_true(request.watch && !request.initial && !request.fresh);
    assert_string_equal(request.version, version);
    assert_in_range(request.timeout_s, 300, 599);
    assert_int_equal(belfry_reflector_state(r), BELFRY_REFLECTOR_WATCHING);
    assert_int_equal(belfry_reflector_due(r), BELFRY_NEVER);
}

static void assert_watch_list(const char *version)
{
    assert_int_equal(belfry_reflector_next(r, now, &request), BELFRY_OK);
    assert_true(request.watch && request.initial && request.fresh);
    assert_string_equal(request.version, version);
    assert_in_range(request.timeout_s, 300, 599);
    assert_int_equal(belfry_reflector_state(r), BELFRY_REFLECTOR_INITIAL);
}

/* It rests between once and twice `ms`, and the clock is moved to its end. */
static void assert_backs_off(uint64_t ms)
{
    uint64_t due = belfry_reflector_due(r);
    assert_int_equal(belfry_reflector_state(r), BELFRY_REFLECTOR_RESTING);
    assert_in_range(due, now + ms, now + 2 * ms);
    now = due - 1;
    assert_int_equal(belfry_reflector_next(r, now, &request), BELFRY_ERR_AGAIN);
    now = due;
}

static void assert_goes_on_at_once(void)
{
    assert_int_equal(belfry_reflector_state(r), BELFRY_REFLECTOR_RESTING);
    assert_true(belfry_reflector_due(r) <= now);
}

/* ---- what happens ---- */

static void ends(struct belfry_failure failure)
{
    struct belfry_reflector_outcome outcome = {.failure = &failure};
    belfry_reflector_ended(r, &outcome, now);
}

static void ends_with_code(int code)
{
    ends((struct belfry_failure){.err = BELFRY_ERR_REFUSED, .code = code});
}

static void ends_expired(void)
{
    ends((struct belfry_failure){.err = BELFRY_ERR_COMPACTED, .code = 410, .reason = "Expired", .expired = true});
}

static void ends_too_large(void)
{
    ends((struct belfry_failure){.err = BELFRY_ERR_REFUSED, .code = 504, .reason = "Timeout", .too_large = true});
}

static void ends_well(void)
{
    ends((struct belfry_failure){.err = BELFRY_OK});
}

static void ends_refused(void)
{
    struct belfry_failure failure = {.err = BELFRY_ERR_UNAVAILABLE};
    belfry_reflector_ended(r, &(struct belfry_reflector_outcome){.failure = &failure, .refused = true}, now);
}

static void breaks_off(void)
{
    struct belfry_failure failure = {.err = BELFRY_ERR_UNAVAILABLE};
    belfry_reflector_ended(r, &(struct belfry_reflector_outcome){.failure = &failure, .broke_off = true}, now);
}

static void event(enum belfry_decoded_kind kind, const char *version)
{
    assert_false(belfry_reflector_event(r, kind, version, false, now));
}

static void initial_ends(const char *version)
{
    assert_true(belfry_reflector_event(r, BELFRY_DECODED_BOOKMARK, version, true, now));
    assert_int_equal(belfry_reflector_state(r), BELFRY_REFLECTOR_WATCHING);
}

/* Listed at 100, and a watch from there that has worked. */
static void begin_watching(void)
{
    begin(false);
    assert_list("0", CHUNK);
    assert_true(belfry_reflector_listed(r, "100", now));
    assert_watch("100");
    event(BELFRY_DECODED_MODIFIED, "101");
}

/* Listed at 100, and a watch from there that has only just begun. */
static void begin_new_watch(void)
{
    begin(false);
    assert_list("0", CHUNK);
    assert_true(belfry_reflector_listed(r, "100", now));
    assert_watch("100");
}

/* ---- lists ---- */

static void the_first_list_takes_any_version_in_pages_and_a_watch_goes_on_from_it(void **state)
{
    (void)state;
    begin(false);
    assert_goes_on_at_once();
    assert_list("0", CHUNK);
    assert_true(belfry_reflector_listed(r, "100", now));
    assert_goes_on_at_once();
    assert_watch("100");
}

static void a_relist_asks_for_the_last_version_in_one_piece(void **state)
{
    (void)state;
    begin_watching();
    ends_with_code(500);
    assert_backs_off(800);
    assert_list("101", 0);
}

static void an_expired_version_is_listed_at_the_newest_at_once(void **state)
{
    (void)state;
    begin_watching();
    ends_expired();
    assert_list("101", 0);
    ends_expired();
    assert_goes_on_at_once();
    assert_list("", CHUNK);
    assert_true(belfry_reflector_listed(r, "300", now));
    assert_watch("300"); /* and what was said of the old version is forgotten: */
    event(BELFRY_DECODED_DELETED, "301");
    ends_with_code(404);
    assert_backs_off(800);
    assert_list("301", 0);
}

static void a_version_that_is_too_large_is_listed_at_the_newest_at_once(void **state)
{
    (void)state;
    begin_watching();
    ends_expired();
    assert_list("101", 0);
    ends_too_large();
    assert_goes_on_at_once();
    assert_list("", CHUNK);
}

static void after_unavailable_the_newest_is_asked_for_until_a_list_succeeds(void **state)
{
    (void)state;
    begin_watching();
    ends_expired();
    assert_list("101", 0);
    ends_too_large();
    assert_list("", CHUNK);
    ends_with_code(503);
    assert_backs_off(800);
    assert_list("", CHUNK);
}

static void when_a_page_expires_the_list_comes_in_one_piece(void **state)
{
    (void)state;
    begin(false);
    assert_list("0", CHUNK);
    ends_expired();
    assert_goes_on_at_once();
    assert_list("", 0);
    ends_expired(); /* the last resort, too: no hot loop */
    assert_backs_off(800);
    assert_list("", 0);
    assert_true(belfry_reflector_listed(r, "7", now));
    assert_watch("7");
}

static void any_other_failure_of_a_list_backs_off(void **state)
{
    (void)state;
    begin(false);
    assert_list("0", CHUNK);
    ends_with_code(403);
    assert_backs_off(800);
    assert_list("0", CHUNK);
    ends_refused();
    assert_backs_off(1600);
    assert_list("0", CHUNK);
    breaks_off();
    assert_backs_off(3200);
    assert_list("0", CHUNK);
    ends_with_code(429);
    assert_backs_off(6400);
    assert_list("0", CHUNK);
}

/* Objects reported before may be newer than the state of a lagging server. */
static void after_a_part_of_the_state_only_the_newest_will_do(void **state)
{
    (void)state;
    begin(false);
    assert_list("0", CHUNK);
    belfry_reflector_item(r);
    breaks_off();
    assert_backs_off(800);
    assert_list("", CHUNK);
    assert_true(belfry_reflector_listed(r, "100", now));
    assert_watch("100");
    ends_with_code(500);
    assert_backs_off(1600);
    assert_list("100", 0); /* the store is of one version again */
    belfry_reflector_destroy(r);

    begin(true);
    assert_watch_list("");
    initial_ends("100");
    event(BELFRY_DECODED_MODIFIED, "101");
    ends_expired();
    assert_watch_list("101");
    event(BELFRY_DECODED_ADDED, "150");
    ends_with_code(400); /* it is not offered any more */
    assert_list("", CHUNK);
}

static void a_list_without_a_version_is_a_failure(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "0", "0123456789012345678901234567890123456789012345678901234567890123"};
    begin(false);
    uint64_t delay = 800;
    for (size_t i = 0; i < 3; i++, delay *= 2) {
        assert_list("0", CHUNK);
        assert_false(belfry_reflector_listed(r, bad[i], now));
        assert_backs_off(delay);
    }
    assert_int_equal(belfry_reflector_counts(r).lists, 0);
}

/* ---- watches ---- */

static void every_event_moves_the_version_bookmarks_too(void **state)
{
    (void)state;
    begin_new_watch();
    static const enum belfry_decoded_kind kinds[] = {BELFRY_DECODED_ADDED, BELFRY_DECODED_MODIFIED,
                                                     BELFRY_DECODED_DELETED, BELFRY_DECODED_BOOKMARK};
    for (size_t i = 0; i < 4; i++) {
        char version[24];
        snprintf(version, sizeof(version), "2%zu", i);
        event(kinds[i], version);
        now += 1000;
        ends_well();
        assert_watch(version);
    }
    event(BELFRY_DECODED_MODIFIED, ""); /* one that has none */
    now += 1000;
    ends_well();
    assert_watch("23");
    assert_false(belfry_reflector_event(r, BELFRY_DECODED_BOOKMARK, "30", true, now)); /* no watch-list: no end of it */
}

static void refused_or_429_opening_backs_off_and_watches_from_the_same_version(void **state)
{
    (void)state;
    begin_new_watch();
    ends_refused();
    assert_backs_off(800);
    assert_watch("100");
    ends_with_code(429);
    assert_backs_off(1600);
    assert_watch("100");
}

static void any_other_error_opening_backs_off_and_relists(void **state)
{
    (void)state;
    static const int codes[] = {400, 401, 403, 404, 500, 503};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        begin_new_watch();
        ends_with_code(codes[i]);
        assert_backs_off(800);
        assert_list("100", 0);
        end(NULL);
    }
}

static void a_stream_that_had_events_or_lasted_is_opened_again_at_once(void **state)
{
    (void)state;
    begin_new_watch();
    event(BELFRY_DECODED_ADDED, "105");
    ends_well(); /* with an event */
    assert_goes_on_at_once();
    assert_watch("105");
    now += 1000;
    ends_well(); /* after a second */
    assert_goes_on_at_once();
    assert_watch("105");
    now += 1000;
    breaks_off();
    assert_goes_on_at_once();
    assert_watch("105");
    event(BELFRY_DECODED_DELETED, "106");
    breaks_off();
    assert_goes_on_at_once();
    assert_watch("106");
}

/* Each watch sends an event and ends, or reports lost history: continuing immediately would loop. */
static void a_server_that_ends_one_watch_after_the_other_is_asked_once_a_second(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        begin_new_watch();
        for (int i = 0; i < 3; i++) {
            event(BELFRY_DECODED_BOOKMARK, "101");
            now += 10;
            way == 0 ? ends_well() : ends_expired();
            assert_goes_on_at_once();
            if (way == 1) {
                assert_list("101", 0);
                assert_true(belfry_reflector_listed(r, "101", now));
            }
            assert_watch("101");
        }
        event(BELFRY_DECODED_BOOKMARK, "101");
        now += 10;
        way == 0 ? ends_well() : ends_expired();
        assert_int_equal(belfry_reflector_due(r), now + 990);
        assert_int_equal(belfry_reflector_next(r, now, &request), BELFRY_ERR_AGAIN);
        now += 990;
        if (way == 1) {
            assert_list("101", 0);
            assert_true(belfry_reflector_listed(r, "101", now));
        }
        assert_watch("101");
        event(BELFRY_DECODED_BOOKMARK, "102");
        now += 1000; /* one that lasts, and all is well again */
        ends_well();
        assert_goes_on_at_once();
        assert_watch("102");
        event(BELFRY_DECODED_BOOKMARK, "103");
        ends_well();
        assert_goes_on_at_once();
        belfry_reflector_destroy(r);
    }
    r = NULL;
}

static void a_very_short_watch_without_events_is_an_error(void **state)
{
    (void)state;
    begin_new_watch();
    now += 999;
    event(BELFRY_DECODED_ERROR, ""); /* is none */
    ends_well();
    assert_backs_off(800);
    assert_list("100", 0);
    assert_true(belfry_reflector_listed(r, "110", now));
    assert_watch("110");
    breaks_off();
    assert_backs_off(1600);
    assert_list("110", 0);
}

static void an_expired_watch_is_relisted_at_the_last_version_first(void **state)
{
    (void)state;
    begin_watching();
    ends_expired();
    assert_goes_on_at_once();
    assert_list("101", 0);
}

static void a_watch_that_expires_again_and_again_is_no_hot_loop(void **state)
{
    (void)state;
    begin_new_watch();
    ends_expired(); /* of the version that was listed just now */
    assert_backs_off(800);
    assert_list("100", 0);
    assert_true(belfry_reflector_listed(r, "200", now));
    assert_watch("200");
    ends_expired();
    assert_backs_off(1600);
    assert_list("200", 0);
}

static void a_watch_that_expires_after_a_break_is_relisted_at_once(void **state)
{
    (void)state;
    begin_watching();
    breaks_off();
    assert_watch("101");
    ends_refused();
    assert_backs_off(800);
    assert_watch("101");
    ends_expired(); /* at once when opened: but watches had worked */
    assert_goes_on_at_once();
    assert_list("101", 0);
}

static void an_error_429_backs_off_and_watches_on(void **state)
{
    (void)state;
    begin_watching();
    ends_with_code(429);
    assert_backs_off(800);
    assert_watch("101");
}

static void any_other_error_event_backs_off_and_relists(void **state)
{
    (void)state;
    static const int codes[] = {500, 504, 403, 0};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        begin_watching();
        ends((struct belfry_failure){.err = BELFRY_ERR_PROTOCOL, .code = codes[i]});
        assert_backs_off(800);
        assert_list("101", 0);
        end(NULL);
    }
}

/* ---- backoff ---- */

static void backoff_doubles_up_to_thirty_seconds(void **state)
{
    (void)state;
    static const uint64_t delays[] = {800, 1600, 3200, 6400, 12800, 25600, 30000, 30000, 30000};
    begin_new_watch();
    for (size_t i = 0; i < sizeof(delays) / sizeof(delays[0]); i++) {
        ends_refused();
        assert_backs_off(delays[i]);
        assert_watch("100");
    }
    assert_int_equal(belfry_reflector_counts(r).retries, sizeof(delays) / sizeof(delays[0]));
}

static void backoff_is_forgotten_after_two_minutes_without_use(void **state)
{
    (void)state;
    begin_new_watch();
    ends_refused();
    uint64_t used = now;
    assert_backs_off(800);
    assert_watch("100");
    now = used + 120000;
    ends_refused();
    used = now;
    assert_backs_off(1600);
    assert_watch("100");
    now = used + 120001;
    ends_refused();
    assert_backs_off(800);
}

static void backoff_is_forgotten_when_a_watch_served_for_ten_seconds(void **state)
{
    (void)state;
    begin_new_watch();
    ends_refused();
    assert_backs_off(800);
    assert_watch("100");
    now += 9999;
    event(BELFRY_DECODED_MODIFIED, "101");
    ends_well();
    assert_watch("101");
    ends_refused();
    assert_backs_off(1600);
    assert_watch("101");
    now += 10000; /* without an event it may only have waited for an answer */
    ends_well();
    assert_watch("101");
    ends_refused();
    assert_backs_off(3200);
    assert_watch("101");
    event(BELFRY_DECODED_MODIFIED, "102");
    now += 10000;
    ends_well();
    assert_watch("102");
    ends_refused();
    assert_backs_off(800);
}

static void backoff_is_jittered(void **state)
{
    (void)state;
    begin_new_watch();
    uint64_t lowest = UINT64_MAX, highest = 0;
    for (int i = 0; i < 200; i++) {
        ends_refused();
        uint64_t wait = belfry_reflector_due(r) - now;
        lowest = wait < lowest ? wait : lowest;
        highest = wait > highest ? wait : highest;
        now = belfry_reflector_due(r) + 120001; /* the same delay each time */
        assert_watch("100");
    }
    assert_in_range(lowest, 800, 900);
    assert_in_range(highest, 1500, 1600);
}

/* ---- watch-lists ---- */

static void a_watch_list_sends_the_state_and_goes_on_as_a_watch(void **state)
{
    (void)state;
    begin(true);
    assert_watch_list("");
    event(BELFRY_DECODED_ADDED, "50"); /* does not move the version */
    event(BELFRY_DECODED_ADDED, "40");
    event(BELFRY_DECODED_BOOKMARK, "60");
    initial_ends("100");
    assert_int_equal(belfry_reflector_due(r), BELFRY_NEVER);
    event(BELFRY_DECODED_ADDED, "101"); /* moves it */
    ends_well();
    assert_goes_on_at_once();
    assert_watch("101");
}

static void before_its_end_nothing_in_a_watch_list_moves_the_version(void **state)
{
    (void)state;
    begin(true);
    assert_watch_list("");
    event(BELFRY_DECODED_ADDED, "50");
    event(BELFRY_DECODED_MODIFIED, "51");
    ends_with_code(404);
    assert_list("", CHUNK);
}

static void from_its_end_on_a_watch_list_is_judged_as_a_watch(void **state)
{
    (void)state;
    begin(true);
    assert_watch_list("");
    event(BELFRY_DECODED_ADDED, "50");
    now += 5000;
    initial_ends("100");
    now += 999;
    ends_well(); /* very short, without events */
    assert_backs_off(800);
    assert_watch_list("100");
    initial_ends("110");
    now += 1000;
    ends_well();
    assert_goes_on_at_once();
    assert_watch("110");
}

static void a_watch_list_anew_asks_for_the_last_version(void **state)
{
    (void)state;
    begin(true);
    assert_watch_list("");
    initial_ends("100");
    event(BELFRY_DECODED_MODIFIED, "105");
    ends_expired();
    assert_goes_on_at_once();
    assert_watch_list("105");
}

static void an_unavailable_version_is_asked_for_as_the_newest(void **state)
{
    (void)state;
    void (*const ways[])(void) = {ends_expired, ends_too_large};
    for (size_t i = 0; i < 2; i++) {
        begin(true);
        assert_watch_list("");
        initial_ends("100");
        event(BELFRY_DECODED_MODIFIED, "105");
        ends_expired();
        assert_watch_list("105");
        ways[i]();
        assert_goes_on_at_once();
        assert_watch_list("");
        initial_ends("200");
        ends_refused();
        assert_backs_off(800);
        assert_watch("200");
        end(NULL);
    }
}

static void refused_or_429_a_watch_list_is_tried_again_after_a_backoff(void **state)
{
    (void)state;
    begin(true);
    assert_watch_list("");
    ends_refused();
    assert_backs_off(800);
    assert_watch_list("");
    ends_with_code(429);
    assert_backs_off(1600);
    assert_watch_list("");
}

static void a_watch_list_that_ends_early_starts_over(void **state)
{
    (void)state;
    begin(true);
    assert_watch_list("");
    event(BELFRY_DECODED_ADDED, "50");
    now += 1000;
    breaks_off();
    assert_goes_on_at_once();
    assert_watch_list("");
    event(BELFRY_DECODED_ADDED, "50");
    now += 999;
    breaks_off();
    assert_backs_off(800);
    assert_watch_list("");
    now += 1000;
    ends_well();
    assert_goes_on_at_once();
    assert_watch_list("");
}

static void a_server_that_ends_three_watch_lists_early_is_listed_from_then_on(void **state)
{
    (void)state;
    begin(true);
    for (int i = 0; i < 3; i++) {
        assert_watch_list("");
        event(BELFRY_DECODED_MODIFIED, "50");
        now += 300000;
        ends_well();
        assert_goes_on_at_once();
    }
    assert_list("", CHUNK);
}

static void where_watch_lists_are_not_offered_it_lists_at_once_and_does_not_ask_again(void **state)
{
    (void)state;
    static const int codes[] = {400, 404, 405, 422};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        begin(true);
        assert_watch_list("");
        ends_with_code(codes[i]);
        assert_goes_on_at_once();
        assert_list("0", CHUNK);
        ends_with_code(500);
        assert_backs_off(800);
        assert_list("0", CHUNK);
        assert_true(belfry_reflector_listed(r, "100", now));
        assert_watch("100");
        ends_with_code(500);
        assert_backs_off(1600);
        assert_list("100", 0);
        end(NULL);
    }
}

static void where_the_answer_says_nothing_of_watch_lists_they_are_asked_for_again(void **state)
{
    (void)state;
    static const int codes[] = {500, 503, 401, 403};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        begin(true);
        assert_watch_list("");
        ends_with_code(codes[i]);
        assert_goes_on_at_once();
        assert_list("0", CHUNK);
        ends_with_code(codes[i]);
        assert_backs_off(800);
        assert_watch_list("");
        end(NULL);
    }
}

static void a_silent_watch_list_is_given_up_after_ten_seconds(void **state)
{
    (void)state;
    begin(true);
    assert_watch_list("");
    now += 9999;
    assert_false(belfry_reflector_stalled(r, now));
    event(BELFRY_DECODED_ADDED, "50"); /* something: it counts from here */
    assert_int_equal(belfry_reflector_due(r), now + 10000);
    now += 9999;
    assert_false(belfry_reflector_stalled(r, now));
    now += 1;
    assert_true(belfry_reflector_stalled(r, now));
    ends((struct belfry_failure){.err = BELFRY_ERR_UNSUPPORTED});
    assert_goes_on_at_once();
    assert_list("", CHUNK);
    assert_true(belfry_reflector_listed(r, "100", now));
    assert_watch("100");
    now += 60000;
    assert_false(belfry_reflector_stalled(r, now)); /* a watch may be silent */
    ends_expired();
    assert_list("100", 0);
}

static void a_pause_is_no_silence(void **state)
{
    (void)state;
    begin(true);
    assert_watch_list("");
    now += 60000;
    belfry_reflector_resumed(r, now);
    assert_false(belfry_reflector_stalled(r, now));
    assert_int_equal(belfry_reflector_due(r), now + 10000);
    now += 10000;
    assert_true(belfry_reflector_stalled(r, now));
}

static void a_watch_list_whose_end_has_no_version_is_read_anew_when_it_breaks(void **state)
{
    (void)state;
    begin(true);
    assert_watch_list("");
    initial_ends("");
    now += 5000;
    breaks_off();
    assert_watch_list("");
    initial_ends("");
    event(BELFRY_DECODED_MODIFIED, "8"); /* now there is one */
    breaks_off();
    assert_watch("8");
}

/* ---- the rest ---- */

static void it_counts(void **state)
{
    (void)state;
    begin(true);
    assert_watch_list("");
    ends_with_code(404);
    assert_list("0", CHUNK);
    assert_true(belfry_reflector_listed(r, "1", now));
    assert_watch("1");
    ends_with_code(500);
    assert_backs_off(800);
    assert_list("1", 0);
    assert_true(belfry_reflector_listed(r, "2", now));
    struct belfry_reflector_counts counts = belfry_reflector_counts(r);
    assert_int_equal(counts.lists, 2);
    assert_int_equal(counts.relists, 1);
    assert_int_equal(counts.watches, 2);
    assert_int_equal(counts.retries, 1);
}

static void timeouts_are_at_least_a_second_and_five_minutes_by_default(void **state)
{
    (void)state;
    static const struct {
        uint32_t ms, low, high;
    } rows[] = {{0, 300, 599}, {1, 1, 1}, {999, 1, 1}, {2000, 2, 3}, {UINT32_MAX, 4294967, 8589933}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct belfry_reflector_opts opts = {.watch_list = true, .watch_timeout_ms = rows[i].ms, .seed = i};
        assert_int_equal(belfry_reflector_create(&opts, &r), BELFRY_OK);
        assert_int_equal(belfry_reflector_next(r, now, &request), BELFRY_OK);
        assert_in_range(request.timeout_s, rows[i].low, rows[i].high);
        end(NULL);
    }
}

static enum belfry_err scenario(void)
{
    struct belfry_reflector *reflector;
    struct belfry_reflector_request out;
    struct belfry_reflector_opts opts = {.seed = 1};
    enum belfry_err err = belfry_reflector_create(&opts, &reflector);
    if (err != BELFRY_OK)
        return err;
    err = belfry_reflector_next(reflector, 0, &out);
    assert_string_equal(out.version, "0");
    belfry_reflector_destroy(reflector);
    return err;
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(scenario), 1);
}

#define TEST(name) cmocka_unit_test_teardown(name, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_first_list_takes_any_version_in_pages_and_a_watch_goes_on_from_it),
        TEST(a_relist_asks_for_the_last_version_in_one_piece),
        TEST(an_expired_version_is_listed_at_the_newest_at_once),
        TEST(a_version_that_is_too_large_is_listed_at_the_newest_at_once),
        TEST(after_unavailable_the_newest_is_asked_for_until_a_list_succeeds),
        TEST(when_a_page_expires_the_list_comes_in_one_piece),
        TEST(any_other_failure_of_a_list_backs_off),
        TEST(after_a_part_of_the_state_only_the_newest_will_do),
        TEST(a_list_without_a_version_is_a_failure),
        TEST(every_event_moves_the_version_bookmarks_too),
        TEST(refused_or_429_opening_backs_off_and_watches_from_the_same_version),
        TEST(any_other_error_opening_backs_off_and_relists),
        TEST(a_stream_that_had_events_or_lasted_is_opened_again_at_once),
        TEST(a_server_that_ends_one_watch_after_the_other_is_asked_once_a_second),
        TEST(a_very_short_watch_without_events_is_an_error),
        TEST(an_expired_watch_is_relisted_at_the_last_version_first),
        TEST(a_watch_that_expires_again_and_again_is_no_hot_loop),
        TEST(a_watch_that_expires_after_a_break_is_relisted_at_once),
        TEST(an_error_429_backs_off_and_watches_on),
        TEST(any_other_error_event_backs_off_and_relists),
        TEST(backoff_doubles_up_to_thirty_seconds),
        TEST(backoff_is_forgotten_after_two_minutes_without_use),
        TEST(backoff_is_forgotten_when_a_watch_served_for_ten_seconds),
        TEST(backoff_is_jittered),
        TEST(a_watch_list_sends_the_state_and_goes_on_as_a_watch),
        TEST(before_its_end_nothing_in_a_watch_list_moves_the_version),
        TEST(from_its_end_on_a_watch_list_is_judged_as_a_watch),
        TEST(a_watch_list_anew_asks_for_the_last_version),
        TEST(an_unavailable_version_is_asked_for_as_the_newest),
        TEST(refused_or_429_a_watch_list_is_tried_again_after_a_backoff),
        TEST(a_watch_list_that_ends_early_starts_over),
        TEST(a_server_that_ends_three_watch_lists_early_is_listed_from_then_on),
        TEST(where_watch_lists_are_not_offered_it_lists_at_once_and_does_not_ask_again),
        TEST(where_the_answer_says_nothing_of_watch_lists_they_are_asked_for_again),
        TEST(a_silent_watch_list_is_given_up_after_ten_seconds),
        TEST(a_pause_is_no_silence),
        TEST(a_watch_list_whose_end_has_no_version_is_read_anew_when_it_breaks),
        TEST(it_counts),
        TEST(timeouts_are_at_least_a_second_and_five_minutes_by_default),
        TEST(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
