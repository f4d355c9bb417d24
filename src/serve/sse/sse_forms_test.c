/* src/serve/sse/sse_forms_test.c */
#include "serve/sse/sse_forms.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"
#include "wire/write.h"

#define EVENTS 100
#define TAG    0x51

/* Revision 11: keys k0, k1, ... with a value of so many bytes each. */
static enum belfry_err make_batch(size_t value_bytes, struct batch **out)
{
    static char keys[EVENTS][24], value[1 << 18];
    static uint8_t raw[EVENTS << 12];
    struct belfry_wire_event scanned[EVENTS];
    uint8_t *to = raw;
    size_t bytes = 0, n = value_bytes < 2000 ? EVENTS : 1;
    memset(value, 'v', sizeof(value));
    for (size_t i = 0; i < n; i++) {
        snprintf(keys[i], sizeof(keys[i]), "k%zu", i);
        struct belfry_wire_event wire = {.kv = {.key = belfry_bytes_str(keys[i]), .mod_rev = 11}};
        wire.kv.value = belfry_bytes_of(value, value_bytes);
        uint8_t *end = belfry_write_event(&wire, to);
        assert_true(end < raw + sizeof(raw));
        assert_int_equal(belfry_scan_event(belfry_bytes_of(to, (size_t)(end - to)), &scanned[i]), BELFRY_OK);
        bytes += batch_event_bytes(&scanned[i], (struct belfry_bytes){0});
        to = end;
    }
    enum belfry_err err = batch_create(11, BATCH_EVENTS, (uint32_t)n, bytes, out);
    for (size_t i = 0; err == BELFRY_OK && i < n; i++)
        batch_add(*out, &scanned[i], (struct belfry_bytes){0});
    return err;
}

static uint32_t numbers[EVENTS]; /* 0, 1, 2, ... */

struct bed {
    struct sse_forms *forms;
    struct batch *batch;
};

static enum belfry_err bed_open(struct bed *bed, size_t value_bytes)
{
    *bed = (struct bed){0};
    for (uint32_t i = 0; i < EVENTS; i++)
        numbers[i] = i;
    enum belfry_err err = sse_forms_create(&bed->forms);
    return err != BELFRY_OK ? err : make_batch(value_bytes, &bed->batch);
}

static void bed_close(struct bed *bed)
{
    batch_unref(bed->batch);
    sse_forms_destroy(bed->forms);
}

static struct belfry_blob *ask(struct bed *bed, uint32_t first, uint32_t n, enum sse_value value, uint32_t *used)
{
    struct lines_part part = {.batch = bed->batch, .events = numbers + first, .n = n};
    struct belfry_blob *text = NULL;
    assert_int_equal(sse_forms_revision(bed->forms, &part, value, TAG, used, &text), BELFRY_OK);
    return text;
}

static void assert_text(const struct belfry_blob *blob, const char *text)
{
    struct belfry_bytes bytes = belfry_blob_bytes(blob);
    if (!belfry_bytes_equal(bytes, belfry_bytes_str(text)))
        fail_msg("\"%.*s\" is not \"%s\"", (int)bytes.len, bytes.data, text);
}

static void message_is_made_once_in_a_turn(void **state)
{
    (void)state;
    struct bed bed;
    struct sse_forms_stats stats;
    uint32_t used, again;
    assert_int_equal(bed_open(&bed, 1), BELFRY_OK);
    struct belfry_blob *first = ask(&bed, 0, 2, SSE_VALUE_AUTO, &used),
                       *second = ask(&bed, 0, 2, SSE_VALUE_AUTO, &again);
    assert_ptr_equal(first, second);
    assert_int_equal(used, 2);
    assert_int_equal(again, 2);
    assert_text(first, "id: 11-00000051\ndata: {\"rev\":11,\"events\":[{\"op\":\"put\",\"key\":\"k0\",\"value\":\"v\"},"
                       "{\"op\":\"put\",\"key\":\"k1\",\"value\":\"v\"}]}\n\n");
    sse_forms_next_turn(bed.forms);
    struct belfry_blob *third = ask(&bed, 0, 2, SSE_VALUE_AUTO, &used);
    sse_forms_stats(bed.forms, &stats);
    assert_int_equal(stats.made, 2);
    assert_int_equal(stats.shared, 1);
    belfry_blob_unref(first);
    belfry_blob_unref(second);
    belfry_blob_unref(third);
    bed_close(&bed);
}

static void whatever_differs_is_another_message(void **state)
{
    (void)state;
    struct bed bed;
    struct sse_forms_stats stats;
    uint32_t used;
    assert_int_equal(bed_open(&bed, 1), BELFRY_OK);
    struct lines_part parts[] = {{bed.batch, numbers, 2, false},
                                 {bed.batch, numbers, 2, true},
                                 {bed.batch, numbers, 1, false},
                                 {bed.batch, numbers + 1, 1, false},
                                 {bed.batch, numbers, 0, false}};
    struct belfry_blob *texts[8];
    size_t n = 0;
    for (; n < 5; n++)
        assert_int_equal(sse_forms_revision(bed.forms, &parts[n], SSE_VALUE_AUTO, TAG, &used, &texts[n]), BELFRY_OK);
    assert_int_equal(sse_forms_revision(bed.forms, parts, SSE_VALUE_NONE, TAG, &used, &texts[n++]), BELFRY_OK);
    assert_int_equal(sse_forms_revision(bed.forms, parts, SSE_VALUE_AUTO, TAG + 1, &used, &texts[n++]), BELFRY_OK);
    bed.batch->rev = 12; /* another batch, at the place of one that is gone */
    assert_int_equal(sse_forms_revision(bed.forms, parts, SSE_VALUE_AUTO, TAG, &used, &texts[n++]), BELFRY_OK);
    sse_forms_stats(bed.forms, &stats);
    assert_int_equal(stats.made, 8);
    assert_text(texts[1], "data: {\"rev\":11,\"more\":true,\"events\":[{\"op\":\"put\",\"key\":\"k0\",\"value\":\"v\"},"
                          "{\"op\":\"put\",\"key\":\"k1\",\"value\":\"v\"}]}\n\n");
    assert_text(texts[4], "id: 11-00000051\ndata: {\"rev\":11,\"events\":[]}\n\n");
    while (n > 0)
        belfry_blob_unref(texts[--n]);
    bed_close(&bed);
}

static void message_ends_with_the_event_that_makes_it_long(void **state)
{
    (void)state;
    struct bed bed;
    uint32_t used;
    assert_int_equal(bed_open(&bed, 1900), BELFRY_OK);
    struct belfry_blob *text = ask(&bed, 0, 40, SSE_VALUE_AUTO, &used);
    assert_true(used > SSE_PART_BYTES / 2100 && used < 40);
    assert_true(belfry_blob_bytes(text).len < SSE_PART_BYTES + 3000);
    assert_non_null(memmem(belfry_blob_bytes(text).data, 40, "\"more\":true", 11));
    belfry_blob_unref(text);
    bed_close(&bed);
    assert_int_equal(bed_open(&bed, 200000), BELFRY_OK);
    text = ask(&bed, 0, 1, SSE_VALUE_AUTO, &used); /* at least one */
    assert_int_equal(used, 1);
    assert_int_equal(strncmp(belfry_blob_bytes(text).data, "id: 11-", 7), 0);
    belfry_blob_unref(text);
    bed_close(&bed);
}

static void progress_is_made_once_for_each_revision(void **state)
{
    (void)state;
    struct bed bed;
    struct belfry_blob *texts[4];
    assert_int_equal(bed_open(&bed, 1), BELFRY_OK);
    assert_int_equal(sse_forms_progress(bed.forms, 7, TAG, &texts[0]), BELFRY_OK);
    assert_int_equal(sse_forms_progress(bed.forms, 7, TAG, &texts[1]), BELFRY_OK);
    assert_int_equal(sse_forms_progress(bed.forms, 8, TAG, &texts[2]), BELFRY_OK);
    assert_int_equal(sse_forms_progress(bed.forms, 8, TAG + 1, &texts[3]), BELFRY_OK);
    assert_ptr_equal(texts[0], texts[1]);
    assert_text(texts[0], "event: progress\nid: 7-00000051\ndata: {\"rev\":7}\n\n");
    assert_text(texts[2], "event: progress\nid: 8-00000051\ndata: {\"rev\":8}\n\n");
    assert_text(texts[3], "event: progress\nid: 8-00000052\ndata: {\"rev\":8}\n\n");
    for (size_t i = 0; i < 4; i++)
        belfry_blob_unref(texts[i]);
    bed_close(&bed);
}

/* More messages in one turn than are kept, the last of which cannot be remembered. */
static void message_that_was_not_remembered_leaves_no_old_one_behind(void **state)
{
    (void)state;
    struct bed bed;
    uint32_t used;
    assert_int_equal(bed_open(&bed, 1), BELFRY_OK);
    belfry_blob_unref(ask(&bed, 0, EVENTS, SSE_VALUE_AUTO, &used)); /* the buffers for its text are large enough now */
    sse_forms_next_turn(bed.forms);
    for (uint32_t i = 0; i <= SSE_FORMS; i++)
        belfry_blob_unref(ask(&bed, i, 1, SSE_VALUE_AUTO, &used));
    refuse_begin(1); /* after the message itself: the list of its events */
    belfry_blob_unref(ask(&bed, 0, EVENTS, SSE_VALUE_AUTO, &used));
    assert_true(refuse_end());
    sse_forms_next_turn(bed.forms);
    batch_unref(bed.batch);
    assert_int_equal(make_batch(2, &bed.batch), BELFRY_OK); /* the past was rewritten between the turns */
    belfry_blob_unref(ask(&bed, 0, 1, SSE_VALUE_AUTO, &used));
    belfry_blob_unref(ask(&bed, 1, 1, SSE_VALUE_AUTO, &used));
    struct belfry_blob *text = ask(&bed, 5, 1, SSE_VALUE_AUTO, &used);
    assert_text(
        text, "id: 11-00000051\ndata: {\"rev\":11,\"events\":[{\"op\":\"put\",\"key\":\"k5\",\"value\":\"vv\"}]}\n\n");
    belfry_blob_unref(text);
    bed_close(&bed);
}

static enum belfry_err scenario(void)
{
    struct bed bed;
    struct belfry_blob *text;
    uint32_t used;
    enum belfry_err err = bed_open(&bed, 1);
    for (uint32_t i = 0; err == BELFRY_OK && i < 2 * SSE_FORMS; i++) {
        struct lines_part part = {.batch = bed.batch, .events = numbers + i % 20, .n = 1 + i % 20};
        err = sse_forms_revision(bed.forms, &part, SSE_VALUE_AUTO, TAG, &used, &text);
        if (err == BELFRY_OK)
            belfry_blob_unref(text);
    }
    if (err == BELFRY_OK)
        err = sse_forms_progress(bed.forms, 11, TAG, &text);
    if (err == BELFRY_OK)
        belfry_blob_unref(text);
    bed_close(&bed);
    return err;
}

static void every_refused_allocation_is_survived(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_is_made_once_in_a_turn),
        cmocka_unit_test(whatever_differs_is_another_message),
        cmocka_unit_test(message_ends_with_the_event_that_makes_it_long),
        cmocka_unit_test(progress_is_made_once_for_each_revision),
        cmocka_unit_test(message_that_was_not_remembered_leaves_no_old_one_behind),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
