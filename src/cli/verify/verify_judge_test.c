/* src/cli/verify/verify_judge_test.c: what is right passes in any order of arrival; each planted fault is found. */
#include "cli/verify/verify_judge.h"

#include "cli/verify/verify_fixture.h"
#include "cli/verify/verify_range.h"
#include "support/refuse.h"

/* ---- what is right ---- */

static struct belfry_range some_range(unsigned number)
{
    const struct belfry_range ranges[] = {belfry_prefix(""), belfry_prefix("/a"), belfry_key("/b/3"),
                                          belfry_interval("/a/2", "/b/3"), belfry_from("/b")};
    return ranges[number % 5];
}

/* One watcher of a random history: how far each side is, in which order they go on, is random. */
static void run_right(uint64_t seed)
{
    make_history(seed);
    assert_int_equal(open_judge((size_t)1 << 20), BELFRY_OK);
    bool prev_kv = dice(2) == 0;
    int64_t start = 1 + (int64_t)dice(REVS + 3), now = 0;
    struct belfry_range range = some_range((unsigned)dice(5));
    size_t n = feed_of(range, start, prev_kv, feed), told = 0, given = 0, opened_at = dice(REVS);
    struct verify_case *c = NULL;
    while (told < REVS || given < n || c == NULL) {
        now += (int64_t)dice(1000);
        if (c == NULL && told >= opened_at)
            c = open_case(range, start, prev_kv);
        if (told < REVS && dice(2) == 0) {
            assert_int_equal(refer(&history[told++], now), BELFRY_OK);
        } else if (c != NULL && given < n && !verify_case_ahead(c)) {
            assert_int_equal(give(c, &feed[given++], now), BELFRY_OK);
            /* how far it is may be told up to the next event of the range */
            int64_t next = given < n ? feed[given].rev : REVS + 2;
            struct told progress = {.progress = true, .rev = feed[given - 1].rev, .header = REVS + 2};
            progress.rev += (int64_t)dice((uint64_t)(next - progress.rev));
            if (!verify_case_ahead(c) && dice(3) == 0)
                assert_int_equal(give(c, &progress, now), BELFRY_OK);
        }
        if (c != NULL)
            assert_false(verify_case_overdue(c, now));
    }
    verify_judge_reference_at(judge, REVS + 1);
    if (n_blamed != 0)
        fail_msg("seed %llu: %s", (unsigned long long)seed, last_words);
    assert_true(verify_case_complete(c, INT64_MAX));
    assert_int_equal(verify_judge_numbers(judge)->n_not_judged, 0);
    verify_judge_destroy(judge);
    judge = NULL;
}

static void a_right_history_is_never_blamed_whoever_is_ahead(void **state)
{
    (void)state;
    end(NULL);
    for (uint64_t seed = 1; seed <= 500; seed++)
        run_right(seed);
}

static void every_event_is_counted_once(void **state)
{
    (void)state;
    size_t n = feed_of(belfry_prefix(""), 1, true, feed), n_events = 0, n_prev = 0;
    judge_feed(feed, n, 1, true);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < feed[i].n; k++) {
            n_events++;
            n_prev += feed[i].events[k].prev.data != NULL;
        }
    assert_int_equal(n_blamed, 0);
    assert_int_equal(verify_judge_numbers(judge)->n_events, n_events);
    assert_int_equal(verify_judge_numbers(judge)->n_prev_same, n_prev);
    assert_int_equal(verify_judge_numbers(judge)->n_revisions, REVS);
}

static void a_missing_previous_value_is_counted_and_not_blamed(void **state)
{
    (void)state;
    size_t n = feed_of(belfry_prefix(""), 1, false, feed);
    judge_feed(feed, n, 1, true);
    assert_int_equal(n_blamed, 0);
    assert_true(verify_judge_numbers(judge)->n_prev_absent > 10);
    assert_int_equal(verify_judge_numbers(judge)->n_prev_same, 0);
}

/* ---- planted faults ---- */

/* A place in the feed, not the first, whose revision has more than one event. */
static size_t large(size_t from)
{
    while (feed[from].n < 2)
        from++;
    return from;
}

static void insert(size_t at, struct told told)
{
    memmove(&feed[at + 1], &feed[at], (n_feed - at) * sizeof(feed[0]));
    feed[at] = told;
    n_feed++;
}

static void cut_out(size_t at, size_t n)
{
    memmove(&feed[at], &feed[at + n], (n_feed - at - n) * sizeof(feed[0]));
    n_feed -= n;
}

static void a_lost_revision_is_unreliable(void **state)
{
    (void)state;
    cut_out(10, 1);
    judge_feed(feed, n_feed, 1, true);
    assert_only(JUDGE_RELIABLE, 1);
    assert_non_null(strstr(last_words, "at 12: expected "));
}

static void a_thousand_lost_events_are_one_violation(void **state)
{
    (void)state;
    cut_out(10, 20);
    judge_feed(feed, n_feed, 1, true);
    assert_only(JUDGE_RELIABLE, 1);
    assert_non_null(strstr(last_words, "of revisions 12 to 31"));
}

static void a_lost_first_revision_is_not_resumable(void **state)
{
    (void)state;
    cut_out(0, 1);
    judge_feed(feed, n_feed, 1, true);
    assert_only(JUDGE_RESUMABLE, 1);
}

static void a_lost_end_is_overdue(void **state)
{
    (void)state;
    judge_feed(feed, n_feed - 3, 1, true);
    assert_only(JUDGE_ALIVE, 1);
    assert_non_null(strstr(last_words, "of revisions 39 to 41"));
}

static void a_watcher_that_is_given_nothing_is_overdue(void **state)
{
    (void)state;
    judge_feed(feed, 0, 5, true);
    assert_only(JUDGE_ALIVE, 1);
    assert_non_null(strstr(last_words, "asked from 5"));
}

static void an_event_lost_from_its_revision_is_not_atomic(void **state)
{
    (void)state;
    feed[large(5)].n--;
    judge_feed(feed, n_feed, 1, true);
    assert_only(JUDGE_ATOMIC, 1);
}

static void a_split_revision_is_not_atomic(void **state)
{
    (void)state;
    size_t at = large(5);
    struct told rest = feed[at];
    rest.n = 1;
    memmove(&feed[at].events[0], &feed[at].events[1], --feed[at].n * sizeof(feed[at].events[0]));
    insert(at, rest);
    judge_feed(feed, n_feed, 1, true);
    assert_only(JUDGE_ATOMIC, 2); /* it is not whole, and its rest comes as another */
}

static void two_revisions_in_one_are_not_atomic(void **state)
{
    (void)state;
    feed[5].events[feed[5].n] = feed[6].events[0];
    feed[5].n++;
    feed[6].events[0] = feed[6].events[--feed[6].n];
    bool empty = feed[6].n == 0;
    if (empty)
        cut_out(6, 1);
    judge_feed(feed, n_feed, 1, true);
    assert_true(blamed[JUDGE_ATOMIC] >= 1);
    assert_int_equal(blamed[JUDGE_ATOMIC] + blamed[JUDGE_RELIABLE], n_blamed);
}

static void a_revision_without_events_is_not_atomic(void **state)
{
    (void)state;
    judge_feed(&(struct told){.rev = 50, .header = 50}, 1, 50, true);
    assert_only(JUDGE_ATOMIC, 1);
}

static void a_doubled_revision_is_not_unique(void **state)
{
    (void)state;
    insert(10, feed[9]);
    judge_feed(feed, n_feed, 1, true);
    assert_only(JUDGE_UNIQUE, 1);
}

static void a_doubled_event_in_its_revision_is_not_unique(void **state)
{
    (void)state;
    feed[7].events[feed[7].n] = feed[7].events[0];
    feed[7].n++;
    judge_feed(feed, n_feed, 1, true);
    assert_only(JUDGE_UNIQUE, 1);
}

static void older_after_newer_is_not_ordered(void **state)
{
    (void)state;
    struct told moved = feed[10];
    feed[10] = feed[11];
    feed[11] = moved;
    judge_feed(feed, n_feed, 1, true);
    assert_int_equal(blamed[JUDGE_ORDERED], 1);
    assert_int_equal(blamed[JUDGE_RELIABLE], 1); /* and was missing when the newer came */
    assert_int_equal(n_blamed, 2);
}

static void a_transaction_in_another_order_is_not_ordered(void **state)
{
    (void)state;
    size_t at = large(5);
    struct belfry_event moved = feed[at].events[0];
    feed[at].events[0] = feed[at].events[1];
    feed[at].events[1] = moved;
    judge_feed(feed, n_feed, 1, true);
    assert_only(JUDGE_ORDERED, 1);
}

static void an_event_outside_the_range_is_not_filtered(void **state)
{
    (void)state;
    n_feed = feed_of(belfry_prefix("/a"), 1, true, feed);
    struct belfry_event stray = feed[3].events[0];
    stray.key = text("/c/1");
    feed[3].events[feed[3].n++] = stray;
    refer_all();
    struct verify_case *c = open_case(belfry_prefix("/a"), 1, true);
    for (size_t i = 0; i < n_feed; i++)
        assert_int_equal(give(c, &feed[i], 1), BELFRY_OK);
    assert_only(JUDGE_FILTER, 1);
}

static void an_event_below_the_start_is_not_resumable(void **state)
{
    (void)state;
    judge_feed(feed + 4, n_feed - 4, feed[5].rev, true);
    assert_only(JUDGE_RESUMABLE, 1);
}

static void an_event_that_never_happened_is_unreliable(void **state)
{
    (void)state;
    feed[8].events[feed[8].n] = feed[8].events[0];
    feed[8].events[feed[8].n++].key = text("/z");
    judge_feed(feed, n_feed, 1, true);
    assert_only(JUDGE_RELIABLE, 1);
}

static void a_revision_that_never_happened_is_unreliable(void **state)
{
    (void)state;
    n_feed = feed_of(belfry_key("/b/3"), 1, true, feed);
    struct told invented = {.rev = feed[2].rev + 1, .header = 99, .n = 1};
    assert_true(feed[3].rev > invented.rev);
    invented.events[0] = feed[2].events[0];
    invented.events[0].mod_rev++;
    insert(3, invented);
    refer_all();
    struct verify_case *c = open_case(belfry_key("/b/3"), 1, true);
    for (size_t i = 0; i < n_feed; i++)
        assert_int_equal(give(c, &feed[i], 1), BELFRY_OK);
    assert_only(JUDGE_RELIABLE, 1);
}

static void another_value_version_lease_or_kind_is_found(void **state)
{
    (void)state;
    static char long_value[] = "0123456789012345678901234567890123456789";
    for (int what = 0; what < 6; what++) {
        end(NULL);
        begin_feed(NULL);
        struct belfry_event *event = &feed[1].events[0];
        assert_int_equal(event->op, BELFRY_PUT);
        assert_int_not_equal(event->create_rev, 0);
        if (what == 0)
            event->value = text("other7");
        else if (what == 1)
            event->version++;
        else if (what == 2)
            event->lease++;
        else if (what == 3)
            event->op = BELFRY_DELETE;
        else if (what == 4)
            event->value.len = 0;
        else
            event->value = text(long_value);
        judge_feed(feed, n_feed, 1, true);
        assert_only(JUDGE_CONTENT, 1);
    }
}

static void the_last_byte_of_a_large_value_counts(void **state)
{
    (void)state;
    static char one[5000], other[5000];
    memset(one, 'x', sizeof(one));
    memcpy(other, one, sizeof(one));
    struct told told = {.rev = 2, .header = 2, .n = 1};
    told.events[0] = (struct belfry_event){.op = BELFRY_PUT, .key = text("/k"), .mod_rev = 2, .create_rev = 2};
    told.events[0].value = (struct belfry_bytes){one, sizeof(one)};
    assert_int_equal(refer(&told, 0), BELFRY_OK);
    for (size_t i = 0; i < sizeof(one); i += i < 4980 ? 83 : 1) {
        other[i] = 'y';
        told.events[0].value.data = other;
        struct verify_case *c = open_case(belfry_prefix(""), 1, true);
        assert_int_equal(give(c, &told, 1), BELFRY_OK);
        verify_case_close(c);
        other[i] = 'x';
    }
    assert_int_equal(blamed[JUDGE_CONTENT], n_blamed);
    assert_int_equal(n_blamed, 60 + 20);
    struct verify_case *c = open_case(belfry_prefix(""), 1, true);
    assert_int_equal(give(c, &told, 1), BELFRY_OK);
    assert_int_equal(n_blamed, 60 + 20);
}

static void a_create_that_was_none_is_found(void **state)
{
    (void)state;
    size_t at = 0, k = 0;
    for (at = 5; feed[at].events[0].op == BELFRY_DELETE || feed[at].events[0].version < 2; at++)
        ;
    feed[at].events[k].create_rev = feed[at].rev;
    judge_feed(feed, n_feed, 1, true);
    assert_only(JUDGE_IS_CREATE, 1);
}

static struct belfry_event *with_prev(void)
{
    size_t at = 5;
    while (feed[at].events[0].prev.data == NULL)
        at++;
    return &feed[at].events[0];
}

static void another_previous_value_is_found(void **state)
{
    (void)state;
    for (int what = 0; what < 3; what++) {
        end(NULL);
        begin_feed(NULL);
        if (what == 0)
            with_prev()->prev = text("never");
        else if (what == 1)
            with_prev()->prev_mod_rev--;
        else
            with_prev()->prev_version++;
        judge_feed(feed, n_feed, 1, true);
        assert_only(JUDGE_PREV_KV, 1);
    }
}

static void a_previous_value_of_what_was_created_is_found(void **state)
{
    (void)state;
    assert_null(feed[0].events[0].prev.data);
    feed[0].events[0].prev = text("ghost");
    judge_feed(feed, n_feed, 1, true);
    assert_only(JUDGE_PREV_KV, 1);
}

static void a_previous_value_nobody_asked_for_is_found(void **state)
{
    (void)state;
    struct belfry_event event = *with_prev();
    n_feed = feed_of(belfry_prefix(""), 1, false, feed);
    for (size_t i = 0; i < n_feed; i++)
        if (feed[i].rev == event.mod_rev)
            feed[i].events[0] = event;
    judge_feed(feed, n_feed, 1, false);
    assert_only(JUDGE_PREV_KV, 1);
}

static void progress_before_an_event_below_it_is_found(void **state)
{
    (void)state;
    insert(10, (struct told){.progress = true, .rev = feed[10].rev, .header = feed[10].rev});
    judge_feed(feed, n_feed, 1, true);
    assert_int_equal(blamed[JUDGE_PROGRESS], 1);
    assert_int_equal(blamed[JUDGE_BOOKMARKABLE], 1); /* when the event comes after all */
    assert_int_equal(n_blamed, 2);
}

static void progress_that_goes_back_is_found(void **state)
{
    (void)state;
    insert(10, (struct told){.progress = true, .rev = feed[9].rev - 1, .header = 99});
    judge_feed(feed, n_feed, 1, true);
    assert_only(JUDGE_BOOKMARKABLE, 1);
}

static void an_old_header_is_found(void **state)
{
    (void)state;
    feed[4].header--;
    insert(10, (struct told){.progress = true, .rev = feed[9].rev, .header = 1});
    judge_feed(feed, n_feed, 1, true);
    assert_only(JUDGE_HEADER, 2);
}

/* Random faults in random histories: whatever is spoilt, something is said. */
static void no_random_fault_passes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        end(NULL);
        make_history(seed);
        assert_int_equal(open_judge((size_t)1 << 20), BELFRY_OK);
        n_feed = feed_of(belfry_prefix(""), 1, true, feed);
        size_t at = 1 + dice(n_feed - 2);
        struct belfry_event *event = &feed[at].events[dice(feed[at].n)];
        switch (dice(6)) {
        case 0:
            cut_out(at, 1);
            break;
        case 1:
            insert(at, feed[dice(at)]);
            break;
        case 2:
            event->value = text("spoilt");
            break;
        case 3:
            event->key = text("/spoilt");
            break;
        case 4:
            event->mod_rev++;
            break;
        case 5:
            *event = feed[at].events[--feed[at].n];
            if (feed[at].n == 0)
                cut_out(at, 1);
            break;
        }
        judge_feed(feed, n_feed, 1, true);
        if (n_blamed == 0)
            fail_msg("seed %llu: nothing was found", (unsigned long long)seed);
    }
}

static void an_event_is_picked_from_the_window_by_number(void **state)
{
    (void)state;
    assert_null(verify_judge_pick(judge, 5));
    refer_all();
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(verify_judge_pick(judge, i)->key.len, 4);
    assert_ptr_equal(verify_judge_pick(judge, 77), verify_judge_pick(judge, 77));
}

static void texts_are_cut_and_escaped(void **state)
{
    (void)state;
    char out[32];
    judge_bytes_text((struct belfry_bytes){"a\"\\\x01\xff", 5}, out, sizeof(out));
    assert_string_equal(out, "\"a\\x22\\x5c\\x01\\xff\"");
    judge_bytes_text(text("0123456789012345678901234567890123456789"), out, 16);
    assert_string_equal(out, "\"0123456789...\"");
    static char key[3000];
    memset(key, 1, sizeof(key));
    struct told told = {.rev = 2, .header = 2, .n = 1};
    told.events[0] = (struct belfry_event){.op = BELFRY_PUT, .mod_rev = 2, .key = {key, sizeof(key)}};
    told.events[0].value = (struct belfry_bytes){key, sizeof(key)};
    struct judge_rev *rev;
    char words[JUDGE_TEXT];
    assert_int_equal(judge_rev_create(2, 0, next_told, &told, &rev), BELFRY_OK);
    judge_event_text(&rev->events[0], words);
    assert_true(strlen(words) < JUDGE_TEXT);
    assert_non_null(strstr(words, "3000 bytes"));
    free(rev);
}

static void ranges_are_cut_out_of_a_range(void **state)
{
    (void)state;
    struct belfry_range whole = belfry_prefix("/a/"), part;
    struct belfry_bytes a = text("/a/b/c"), b = text("/a/b/d");
    part = verify_range_within(&whole, b, a, 0);
    assert_true(judge_range_has(&part, a) && !judge_range_has(&part, b) && part.kind == BELFRY_INTERVAL);
    part = verify_range_within(&whole, a, a, 0);
    assert_int_equal(part.kind, BELFRY_KEY);
    part = verify_range_within(&whole, a, b, 1);
    assert_true(part.kind == BELFRY_PREFIX && part.key.len == 5);
    part = verify_range_within(&whole, text("/a/x"), b, 1);
    assert_int_equal(part.key.len, 4);
    whole = belfry_from("/a/");
    assert_int_equal(verify_range_within(&whole, a, b, 1).kind, BELFRY_KEY);
    char words[VERIFY_RANGE_TEXT];
    whole = belfry_interval("/a", "/b");
    verify_range_text(&whole, words);
    assert_string_equal(words, "\"/a\" to \"/b\"");
}

static enum belfry_err scenario(void)
{
    enum belfry_err err = open_judge((size_t)1 << 20);
    struct verify_case *c = NULL;
    struct verify_spec spec = {.watcher = 3, .range = belfry_prefix(""), .start = 1, .prev_kv = true};
    struct verify_range copy = {.bytes = NULL};
    if (err == BELFRY_OK)
        err = verify_range_copy(&copy, belfry_interval("a", "b"));
    if (err == BELFRY_OK)
        err = verify_case_open(judge, &spec, 0, &c);
    for (size_t i = 0; i < 3 && err == BELFRY_OK; i++)
        err = refer(&history[i], 0);
    for (size_t i = 0; i < 4 && err == BELFRY_OK; i++) /* the last is held when the judge ends */
        err = give(c, &feed[i], 1);
    assert_int_equal(n_blamed, 0);
    verify_range_fini(&copy);
    verify_judge_destroy(judge);
    judge = NULL;
    return err;
}

static void without_memory_nothing_leaks(void **state)
{
    (void)state;
    end(NULL);
    assert_true(refuse_sweep(scenario) >= 10);
}

#define RIGHT(test) cmocka_unit_test_setup_teardown(test, begin, end)
#define FAULT(test) cmocka_unit_test_setup_teardown(test, begin_feed, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIGHT(a_right_history_is_never_blamed_whoever_is_ahead),
        RIGHT(every_event_is_counted_once),
        RIGHT(a_missing_previous_value_is_counted_and_not_blamed),
        FAULT(a_lost_revision_is_unreliable),
        FAULT(a_thousand_lost_events_are_one_violation),
        FAULT(a_lost_first_revision_is_not_resumable),
        FAULT(a_lost_end_is_overdue),
        FAULT(a_watcher_that_is_given_nothing_is_overdue),
        FAULT(an_event_lost_from_its_revision_is_not_atomic),
        FAULT(a_split_revision_is_not_atomic),
        FAULT(two_revisions_in_one_are_not_atomic),
        FAULT(a_revision_without_events_is_not_atomic),
        FAULT(a_doubled_revision_is_not_unique),
        FAULT(a_doubled_event_in_its_revision_is_not_unique),
        FAULT(older_after_newer_is_not_ordered),
        FAULT(a_transaction_in_another_order_is_not_ordered),
        FAULT(an_event_outside_the_range_is_not_filtered),
        FAULT(an_event_below_the_start_is_not_resumable),
        FAULT(an_event_that_never_happened_is_unreliable),
        FAULT(a_revision_that_never_happened_is_unreliable),
        FAULT(another_value_version_lease_or_kind_is_found),
        FAULT(the_last_byte_of_a_large_value_counts),
        FAULT(a_create_that_was_none_is_found),
        FAULT(another_previous_value_is_found),
        FAULT(a_previous_value_of_what_was_created_is_found),
        FAULT(a_previous_value_nobody_asked_for_is_found),
        FAULT(progress_before_an_event_below_it_is_found),
        FAULT(progress_that_goes_back_is_found),
        FAULT(an_old_header_is_found),
        RIGHT(no_random_fault_passes),
        RIGHT(an_event_is_picked_from_the_window_by_number),
        RIGHT(texts_are_cut_and_escaped),
        RIGHT(ranges_are_cut_out_of_a_range),
        FAULT(without_memory_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
