/* src/client/watch/inbox_test.c: responses in, whole revisions out, as tables of text.
 *
 * A response is written as the revisions of its events, with a + at the end when it is a fragment: "5 5 6+". What comes
 * out is written as revision x events, with a * for a part: "5x2 6x3".
 */
#include "client/watch/inbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "support/refuse.h"
#include "wire/write.h"

#define TEXT_MAX 256
#define PARTS    "|" /* between responses */

static struct belfry_blob *encode(const int64_t *revs, size_t n, struct belfry_wire_watch *head)
{
    char key[24];
    size_t size = belfry_write_watch_head_size(head);
    for (int pass = 0; pass < 2; pass++) {
        struct belfry_blob *blob = NULL;
        uint8_t *to = NULL;
        if (pass == 1) {
            if (belfry_blob_alloc(size, &blob) != BELFRY_OK)
                return NULL;
            to = belfry_write_watch_head(head, belfry_blob_edit(blob));
        }
        for (size_t i = 0; i < n; i++) {
            snprintf(key, sizeof(key), "k%zu", i);
            struct belfry_wire_event event = {.kv = {.key = belfry_bytes_str(key), .mod_rev = revs[i]}};
            size_t len = belfry_write_event_size(&event);
            if (pass == 0) {
                size += belfry_write_event_field_size(len) + len;
            } else {
                to = belfry_write_event_field(len, to);
                to = belfry_write_event(&event, to);
            }
        }
        if (pass == 1)
            return blob;
    }
    return NULL;
}

static enum belfry_err add_revs(struct belfry_inbox *inbox, const int64_t *revs, size_t n, bool fragment)
{
    struct belfry_wire_watch head = {.header = {.revision = 1000}, .fragment = fragment, .n_events = n};
    struct belfry_blob *blob = encode(revs, n, &head);
    if (blob == NULL)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = belfry_inbox_add(inbox, blob, &head);
    belfry_blob_unref(blob);
    return err;
}

/* One response from its text, e.g. "5 5 6+". */
static enum belfry_err add(struct belfry_inbox *inbox, const char *text)
{
    int64_t revs[64];
    size_t n = 0;
    char *end;
    while (*text != '\0' && *text != '+') {
        revs[n++] = strtoll(text, &end, 10);
        text = end + strspn(end, " ");
    }
    return add_revs(inbox, revs, n, *text == '+');
}

struct reader {
    struct belfry_inbox inbox;
    int64_t next_rev;
    bool unmerged;
    char out[TEXT_MAX];
};

/* Takes all that is complete, and writes it down. */
static enum belfry_err take_all(struct reader *r)
{
    struct belfry_inbox_group group;
    enum belfry_err err;
    while ((err = belfry_inbox_next(&r->inbox, r->next_rev, r->unmerged, &group)) == BELFRY_OK) {
        struct belfry_inbox_walk walk;
        struct belfry_wire_event event;
        size_t n = 0;
        belfry_inbox_walk(&group, &walk);
        while ((err = belfry_inbox_walk_next(&walk, &event)) == BELFRY_OK) {
            if (event.kv.mod_rev != group.rev)
                fail_msg("an event of %lld in group %lld", (long long)event.kv.mod_rev, (long long)group.rev);
            n++;
        }
        assert_int_equal(err, BELFRY_ERR_AGAIN);
        assert_int_equal(n, group.n_events);
        assert_int_equal(group.header.revision, 1000);
        size_t len = strlen(r->out);
        snprintf(r->out + len, sizeof(r->out) - len, "%s%lldx%zu%s", len > 0 ? " " : "", (long long)group.rev, n,
                 group.part ? "*" : "");
        if (!group.part)
            r->next_rev = group.rev + 1;
        belfry_inbox_take(&r->inbox, &group);
    }
    return err;
}

/* Gives the responses one by one, taking all after each; "cut" is the end of a stream. */
static enum belfry_err feed(struct reader *r, const char *script)
{
    char copy[TEXT_MAX];
    snprintf(copy, sizeof(copy), "%s", script);
    enum belfry_err err = BELFRY_ERR_AGAIN;
    for (char *save = NULL, *text = strtok_r(copy, PARTS, &save); text != NULL && err == BELFRY_ERR_AGAIN;
         text = strtok_r(NULL, PARTS, &save)) {
        if (strcmp(text, "cut") == 0)
            belfry_inbox_cut(&r->inbox);
        else if ((err = add(&r->inbox, text)) != BELFRY_OK)
            return err;
        err = take_all(r);
    }
    return err;
}

struct row {
    const char *script, *out;
    int64_t next_rev;
    bool unmerged;
    enum belfry_err err; /* OK: all was taken, as AGAIN says */
};

static void check_row(const struct row *row)
{
    struct reader r = {.next_rev = row->next_rev, .unmerged = row->unmerged};
    belfry_inbox_init(&r.inbox);
    enum belfry_err err = feed(&r, row->script);
    if (strcmp(r.out, row->out) != 0)
        fail_msg("%s: got \"%s\", wanted \"%s\"", row->script, r.out, row->out);
    assert_int_equal(err, row->err == BELFRY_OK ? BELFRY_ERR_AGAIN : row->err);
    belfry_inbox_fini(&r.inbox);
    assert_int_equal(r.inbox.bytes, 0);
}

static void responses_come_out_as_whole_revisions(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"5", "5x1", 1, false, 0},
        {"5 5 6", "5x2 6x1", 1, false, 0},
        {"5|6 6|9", "5x1 6x2 9x1", 1, false, 0},
        {"5 5+|5 6", "5x3 6x1", 1, false, 0},
        {"5+|5+|5", "5x3", 1, false, 0},
        {"5 6+|7", "5x1 6x1 7x1", 1, false, 0},
        {"5 6+", "5x1", 1, false, 0}, /* 6 may go on */
        {"5+|5 5+|6 6", "5x3 6x2", 1, false, 0},
        {"5 5|5", "5x2", 1, false, 0},       /* a revision comes once */
        {"3 4 5 6", "5x1 6x1", 5, false, 0}, /* older than wanted */
        {"3+|4+|5", "5x1", 5, false, 0},
        {"3 4", "", 5, false, 0},
        {"0 5", "5x1", 1, false, 0}, /* an event without a revision is older than everything */
        {"5 4", "", 1, false, BELFRY_ERR_PROTOCOL},
        {"5 6 5", "5x1", 1, false, BELFRY_ERR_PROTOCOL},
        {"7+|6", "", 1, false, BELFRY_ERR_PROTOCOL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_row(&rows[i]);
}

static void cut_drops_what_may_be_incomplete(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"5 6+|cut", "5x1", 1, false, 0},        {"5 6+|cut|6 6|7", "5x1 6x2 7x1", 1, false, 0},
        {"5+|5+|cut|5 5 5", "5x3", 1, false, 0}, {"5|cut|6", "5x1 6x1", 1, false, 0},
        {"cut|5", "5x1", 1, false, 0},           {"3+|cut|5", "5x1", 5, false, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_row(&rows[i]);
}

static void unmerged_parts_are_handed_on_and_not_repeated(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"5 5+|5 6", "5x2* 5x1 6x1", 1, true, 0},
        {"5+|5+|5", "5x1* 5x1* 5x1", 1, true, 0},
        {"5+|6", "5x1 6x1", 1, true, 0},
        {"5 5+", "", 1, true, 0}, /* part or whole? the next piece tells */
        {"5 5+|5+|cut|5 5 5 6", "5x2* 5x1 6x1", 1, true, 0},
        {"5 5+|5+|cut|5+|5+|5", "5x2* 5x1", 1, true, 0},
        {"5 5+|5+|cut|5+|cut|5 5 5", "5x2* 5x1", 1, true, 0},
        {"5+|5+|cut|5 5+|5+|cut|5 5 5 5", "5x1* 5x1* 5x2", 1, true, 0},
        {"5+|5+|5|cut|6+|6", "5x1* 5x1* 5x1 6x1* 6x1", 1, true, 0},
        /* the revision did not come back: what was to be skipped of it must not be missing from a later one */
        {"5 5+|5+|cut|7+|7 7|8+|8 8", "5x2* 7x1* 7x2 8x1* 8x2", 1, true, 0},
        {"5 5+|5+|cut|6|7+|7 7", "5x2* 6x1 7x1* 7x2", 1, true, 0},
        {"5 5 5+|5+|cut|5+|6|7+|7 7", "5x3* 6x1 7x1* 7x2", 1, true, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_row(&rows[i]);
}

/* The same events, cut into fragments at every two places, are the same groups. */
static void events_cut_anywhere_are_the_same_groups(void **state)
{
    (void)state;
    static const int64_t revs[] = {5, 5, 6, 7, 7, 7, 7, 9};
    const size_t n = sizeof(revs) / sizeof(revs[0]);
    for (size_t a = 1; a < n; a++) {
        for (size_t b = a + 1; b <= n; b++) {
            struct reader r = {.next_rev = 1};
            belfry_inbox_init(&r.inbox);
            assert_int_equal(add_revs(&r.inbox, revs, a, true), BELFRY_OK);
            assert_int_equal(take_all(&r), BELFRY_ERR_AGAIN);
            assert_int_equal(add_revs(&r.inbox, revs + a, b - a, b < n), BELFRY_OK);
            assert_int_equal(take_all(&r), BELFRY_ERR_AGAIN);
            if (b < n) {
                assert_int_equal(add_revs(&r.inbox, revs + b, n - b, false), BELFRY_OK);
                assert_int_equal(take_all(&r), BELFRY_ERR_AGAIN);
            }
            assert_string_equal(r.out, "5x2 6x1 7x4 9x1");
            assert_true(belfry_inbox_empty(&r.inbox));
            assert_int_equal(r.inbox.bytes, 0);
            belfry_inbox_fini(&r.inbox);
        }
    }
}

/* ... and a stream that ends at any place, asked again from there, loses and repeats nothing. */
static void break_anywhere_loses_and_repeats_nothing(void **state)
{
    (void)state;
    static const int64_t revs[] = {5, 5, 6, 7, 7, 7, 7, 9};
    const size_t n = sizeof(revs) / sizeof(revs[0]);
    for (size_t a = 1; a < n; a++) {
        for (size_t b = a; b < n; b++) {
            struct reader r = {.next_rev = 1};
            belfry_inbox_init(&r.inbox);
            assert_int_equal(add_revs(&r.inbox, revs, a, true), BELFRY_OK);
            if (b > a)
                assert_int_equal(add_revs(&r.inbox, revs + a, b - a, true), BELFRY_OK);
            belfry_inbox_cut(&r.inbox);
            assert_int_equal(take_all(&r), BELFRY_ERR_AGAIN);
            assert_true(belfry_inbox_empty(&r.inbox));
            size_t again = 0;
            while (revs[again] < r.next_rev)
                again++;
            assert_int_equal(add_revs(&r.inbox, revs + again, n - again, false), BELFRY_OK);
            assert_int_equal(take_all(&r), BELFRY_ERR_AGAIN);
            assert_string_equal(r.out, "5x2 6x1 7x4 9x1");
            belfry_inbox_fini(&r.inbox);
        }
    }
}

static void stale_events_are_counted(void **state)
{
    (void)state;
    struct reader r = {.next_rev = 5};
    belfry_inbox_init(&r.inbox);
    assert_int_equal(feed(&r, "3 4 4 5|4 6"), BELFRY_ERR_AGAIN);
    assert_string_equal(r.out, "5x1 6x1");
    assert_int_equal(r.inbox.stale, 4);
    belfry_inbox_fini(&r.inbox);
}

static void last_says_that_the_response_is_used_up(void **state)
{
    (void)state;
    struct belfry_inbox inbox;
    struct belfry_inbox_group group;
    belfry_inbox_init(&inbox);
    assert_int_equal(add(&inbox, "5 6"), BELFRY_OK);
    assert_int_equal(belfry_inbox_next(&inbox, 1, false, &group), BELFRY_OK);
    assert_false(group.last);
    belfry_inbox_take(&inbox, &group);
    assert_true(inbox.bytes > 0);
    assert_int_equal(belfry_inbox_next(&inbox, 6, false, &group), BELFRY_OK);
    assert_true(group.last);
    belfry_inbox_take(&inbox, &group);
    assert_int_equal(inbox.bytes, 0); /* at once, not with the next response */
    belfry_inbox_fini(&inbox);
}

static void unfinished_is_true_between_fragments(void **state)
{
    (void)state;
    struct belfry_inbox inbox;
    belfry_inbox_init(&inbox);
    assert_false(belfry_inbox_unfinished(&inbox));
    assert_int_equal(add(&inbox, "5+"), BELFRY_OK);
    assert_true(belfry_inbox_unfinished(&inbox) && belfry_inbox_single(&inbox));
    assert_int_equal(add(&inbox, "5"), BELFRY_OK);
    assert_false(belfry_inbox_unfinished(&inbox) || belfry_inbox_single(&inbox));
    belfry_inbox_fini(&inbox);
}

static void unreadable_event_is_a_protocol_error(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x5a, 0x02, 0x12, 0x7f}; /* an event whose kv is longer than the event */
    struct belfry_inbox inbox;
    struct belfry_inbox_group group;
    struct belfry_blob *blob;
    belfry_inbox_init(&inbox);
    assert_int_equal(belfry_blob_copy(belfry_bytes_of(bytes, sizeof(bytes)), &blob), BELFRY_OK);
    assert_int_equal(belfry_inbox_add(&inbox, blob, &(struct belfry_wire_watch){.n_events = 1}), BELFRY_OK);
    belfry_blob_unref(blob);
    assert_int_equal(belfry_inbox_next(&inbox, 1, false, &group), BELFRY_ERR_PROTOCOL);
    belfry_inbox_fini(&inbox);
}

/* Every byte is looked at a few times, however many fragments: reading anew with each would take minutes. */
static void work_is_linear_in_the_fragments(void **state)
{
    (void)state;
    enum { FRAGMENTS = 300, EVENTS = 1000 };
    static int64_t revs[EVENTS];
    struct belfry_inbox inbox;
    struct belfry_inbox_group group;
    struct timespec from, to;
    belfry_inbox_init(&inbox);
    for (size_t i = 0; i < EVENTS; i++)
        revs[i] = 5;
    struct belfry_wire_watch head = {.fragment = true};
    struct belfry_blob *blob = encode(revs, EVENTS, &head);
    assert_non_null(blob);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    for (size_t i = 0; i < FRAGMENTS; i++) {
        head.fragment = i + 1 < FRAGMENTS;
        assert_int_equal(belfry_inbox_add(&inbox, blob, &head), BELFRY_OK);
        enum belfry_err err = belfry_inbox_next(&inbox, 1, false, &group);
        assert_int_equal(err, head.fragment ? BELFRY_ERR_AGAIN : BELFRY_OK);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    assert_int_equal(group.n_events, FRAGMENTS * EVENTS);
    double seconds = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
    assert_true(seconds < 1.0);
    belfry_inbox_take(&inbox, &group);
    assert_true(belfry_inbox_empty(&inbox));
    belfry_inbox_fini(&inbox);
    belfry_blob_unref(blob);
}

static enum belfry_err scenario(void)
{
    struct reader r = {.next_rev = 1};
    belfry_inbox_init(&r.inbox);
    enum belfry_err err = feed(&r, "5 6+|6+|cut|6 6 7|8");
    belfry_inbox_fini(&r.inbox);
    return err == BELFRY_ERR_AGAIN ? BELFRY_OK : err;
}

static void refused_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(responses_come_out_as_whole_revisions),
        cmocka_unit_test(cut_drops_what_may_be_incomplete),
        cmocka_unit_test(unmerged_parts_are_handed_on_and_not_repeated),
        cmocka_unit_test(events_cut_anywhere_are_the_same_groups),
        cmocka_unit_test(break_anywhere_loses_and_repeats_nothing),
        cmocka_unit_test(stale_events_are_counted),
        cmocka_unit_test(last_says_that_the_response_is_used_up),
        cmocka_unit_test(unfinished_is_true_between_fragments),
        cmocka_unit_test(unreadable_event_is_a_protocol_error),
        cmocka_unit_test(work_is_linear_in_the_fragments),
        cmocka_unit_test(refused_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
