/* src/client/callback_batch_test.c: the walk over a batch from each of its sources. */
#include "client/callback_batch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* RangeResponse: keys a, b, c, with mod_revision 1 to 3 */
static const struct belfry_bytes page = {"\x12\x05\x0a\x01"
                                         "a\x18\x01\x12\x05\x0a\x01"
                                         "b\x18\x02\x12\x05\x0a\x01"
                                         "c\x18\x03",
                                         21};

/* The keys that a walk gives, in order; twice, because a walk may begin again. */
static void gives(struct belfry_batch_view *view, const char *keys)
{
    for (int i = 0; i < 2; i++) {
        const struct belfry_event *event = NULL;
        char seen[16] = "";
        while ((event = belfry_batch_next(&view->batch, event)) != NULL)
            strncat(seen, event->key.data, event->key.len);
        assert_string_equal(seen, keys);
    }
}

static void a_page_is_walked_through_its_mask(void **state)
{
    static const char *const expected[] = {"", "a", "b", "ab", "c", "ac", "bc", "abc"};
    (void)state;
    struct belfry_batch_view view = {.source = BELFRY_FROM_PAGE, .page = page};
    gives(&view, "abc");
    for (uint8_t mask = 0; mask < 8; mask++) {
        view.mask = &mask;
        gives(&view, expected[mask]);
    }
    view.mask = NULL;
    const struct belfry_event *event = belfry_batch_next(&view.batch, NULL);
    assert_true(event->op == BELFRY_PUT && event->mod_rev == 1 && event->raw.len == 5);
}

static void vanished_keys_are_deletes_at_the_batchs_revision(void **state)
{
    struct belfry_bytes keys[] = {belfry_bytes_str("x"), belfry_bytes_str("y")};
    (void)state;
    struct belfry_batch_view view = {.batch = {.rev = 9}, .source = BELFRY_FROM_KEYS, .keys = keys, .n_keys = 2};
    gives(&view, "xy");
    const struct belfry_event *event = belfry_batch_next(&view.batch, NULL);
    assert_true(event->op == BELFRY_DELETE && event->mod_rev == 9 && event->prev.data == NULL);
}

static void nothing_has_no_events(void **state)
{
    struct belfry_batch_view view = {.source = BELFRY_FROM_NOTHING};
    (void)state;
    gives(&view, "");
}

static void a_group_is_walked_event_by_event(void **state)
{
    /* events: put a at 5, delete b at 5 with a previous value that is empty */
    static const uint8_t bytes[] = {0x5a, 0x07, 0x12, 0x05, 0x0a, 0x01, 'a',  0x18, 0x05, 0x5a, 0x0e, 0x08, 0x01,
                                    0x12, 0x05, 0x0a, 0x01, 'b',  0x18, 0x05, 0x1a, 0x03, 0x0a, 0x01, 'b'};
    struct belfry_wire_watch head = {.n_events = 2};
    struct belfry_batch_view view = {.source = BELFRY_FROM_GROUP};
    struct belfry_inbox inbox;
    struct belfry_blob *blob;
    (void)state;
    belfry_inbox_init(&inbox);
    assert_int_equal(belfry_blob_copy(belfry_bytes_of(bytes, sizeof(bytes)), &blob), BELFRY_OK);
    assert_int_equal(belfry_inbox_add(&inbox, blob, &head), BELFRY_OK);
    belfry_blob_unref(blob);
    assert_int_equal(belfry_inbox_next(&inbox, 5, false, &view.group), BELFRY_OK);
    gives(&view, "ab");
    const struct belfry_event *event = belfry_batch_next(&view.batch, NULL);
    assert_true(event->op == BELFRY_PUT && event->prev.data == NULL && event->mod_rev == 5);
    event = belfry_batch_next(&view.batch, event);
    assert_true(event->op == BELFRY_DELETE && event->prev.data != NULL && event->prev.len == 0);
    belfry_inbox_fini(&inbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_is_walked_through_its_mask),
        cmocka_unit_test(vanished_keys_are_deletes_at_the_batchs_revision),
        cmocka_unit_test(nothing_has_no_events),
        cmocka_unit_test(a_group_is_walked_event_by_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
