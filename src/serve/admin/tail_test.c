/* src/serve/admin/tail_test.c */
#include "serve/admin/tail.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/fakeexchange.h"
#include "support/refuse.h"

#define CAPACITY_LOG2 4 /* the log holds 16 batches */

static struct evlog *evlog;
static struct tail *tail;
static int64_t head;

static int set_up(void **state)
{
    (void)state;
    struct evlog_opts opts = {.capacity_log2 = CAPACITY_LOG2, .max_bytes = 1 << 24, .n_workers = 2};
    head = 100;
    return evlog_create(&opts, &evlog) != BELFRY_OK || evlog_cut(evlog, head, EVLOG_CUT_START, 0) != BELFRY_OK ||
           tail_create(evlog, 1, &tail) != BELFRY_OK;
}

static int tear_down(void **state)
{
    (void)state;
    tail_destroy(tail);
    evlog_destroy(evlog);
    return 0;
}

/* A field of protobuf with bytes; returns its end. */
static char *put_text(char *at, int number, const char *data, size_t len)
{
    *at++ = (char)(number << 3 | 2);
    size_t left = len;
    for (; left >= 0x80; left >>= 7)
        *at++ = (char)(left | 0x80);
    *at++ = (char)left;
    memcpy(at, data, len);
    return at + len;
}

/* Publishes one revision with n puts of a key, or one delete of it (value NULL). */
static void publish(const char *key, const char *value, size_t value_len, uint32_t n)
{
    static char kv[9000], event[9100];
    char *at = put_text(kv, 1, key, strlen(key));
    if (value != NULL)
        at = put_text(at, 5, value, value_len);
    size_t kv_len = (size_t)(at - kv);
    at = event;
    if (value == NULL) {
        *at++ = 1 << 3;
        *at++ = 1;
    }
    at = put_text(at, 2, kv, kv_len);
    struct belfry_wire_event scanned;
    struct batch *batch;
    assert_int_equal(belfry_scan_event(belfry_bytes_of(event, (size_t)(at - event)), &scanned), BELFRY_OK);
    size_t bytes = batch_event_bytes(&scanned, (struct belfry_bytes){0});
    assert_int_equal(batch_create(++head, BATCH_EVENTS, n, n * bytes, &batch), BELFRY_OK);
    for (uint32_t i = 0; i < n; i++)
        batch_add(batch, &scanned, (struct belfry_bytes){0});
    assert_int_equal(evlog_append(evlog, batch), BELFRY_OK);
    evlog_committed(evlog, head);
}

static void put(const char *key, const char *value)
{
    publish(key, value, strlen(value), 1);
}

/* What was sent since the last call. */
static void assert_sent(struct fakeexchange *fake, const char *wanted)
{
    assert_int_equal(belfry_buf_append(&fake->body, "", 1), BELFRY_OK);
    assert_string_equal(belfry_buf_bytes(&fake->body).data, wanted);
    belfry_buf_clear(&fake->body);
    fake->room = EXCHANGE_ROOM;
}

static void open_reader(struct fakeexchange *fake, const char *prefix)
{
    fakeexchange_init(fake, EXCHANGE_ROOM);
    assert_true(tail_open(tail, &fake->x, belfry_bytes_str(prefix)));
    assert_int_equal(fake->status, 200);
    assert_string_equal(fakeexchange_field(fake, "content-type"), "text/event-stream");
    assert_sent(fake, "retry: 2000\n\n");
}

static void close_reader(struct fakeexchange *fake)
{
    fakeexchange_gone(fake);
    fakeexchange_fini(fake);
}

static void changes_of_the_prefix_are_told_from_now_on(void **state)
{
    (void)state;
    struct fakeexchange fake, all;
    put("/a/0", "before");
    open_reader(&fake, "/a/");
    open_reader(&all, "");
    put("/a/1", "one");
    put("/b/1", "other");
    publish("/a/1", NULL, 0, 1);
    put("/a", "shorter than the prefix");
    tail_tick(tail);
    assert_sent(&fake, "event: change\ndata: {\"revision\":102,\"type\":\"put\",\"key\":\"/a/1\",\"value\":\"one\","
                       "\"bytes\":3}\n\nevent: change\ndata: {\"revision\":104,\"type\":\"delete\",\"key\":\"/a/1\"}"
                       "\n\n");
    assert_non_null(strstr((char *)all.body.data, "\"/b/1\""));
    tail_tick(tail);
    assert_sent(&fake, "");
    put("/a/\xff", "\xfe");
    tail_tick(tail);
    assert_sent(&fake, "event: change\ndata: {\"revision\":106,\"type\":\"put\",\"key_b64\":\"L2Ev/w==\","
                       "\"value_b64\":\"/g==\",\"bytes\":1}\n\n");
    close_reader(&fake);
    close_reader(&all);
}

static void a_long_value_is_cut_between_characters(void **state)
{
    (void)state;
    struct fakeexchange fake;
    static char value[TAIL_VALUE + 100], wanted[TAIL_VALUE + 200];
    memset(value, 'v', sizeof(value));
    memcpy(value + TAIL_VALUE - 1, "\xc3\xa9", 2);
    open_reader(&fake, "/");
    publish("/k", value, sizeof(value), 1);
    tail_tick(tail);
    snprintf(wanted, sizeof(wanted),
             "event: change\ndata: {\"revision\":101,\"type\":\"put\",\"key\":\"/k\",\"value\":\"%.*s\",\"bytes\":%zu}"
             "\n\n",
             TAIL_VALUE - 1, value, sizeof(value));
    assert_sent(&fake, wanted);
    close_reader(&fake);
}

static void more_than_a_turn_shows_are_counted(void **state)
{
    (void)state;
    struct fakeexchange fake;
    open_reader(&fake, "/");
    publish("/k", "v", 1, TAIL_LINES + 7);
    tail_tick(tail);
    assert_int_equal(belfry_buf_append(&fake.body, "", 1), BELFRY_OK);
    const char *text = belfry_buf_bytes(&fake.body).data;
    assert_non_null(strstr(text, "event: skipped\ndata: {\"changes\":7}\n\n"));
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, "event: change")) != NULL; at++)
        n++;
    assert_int_equal(n, TAIL_LINES);
    close_reader(&fake);
}

/* Every byte of a value may need six in JSON. */
static void a_message_fits_into_the_room(void **state)
{
    (void)state;
    struct fakeexchange fake;
    static char value[4096], key[4096];
    memset(value, '\1', sizeof(value));
    memset(key, '\2', sizeof(key) - 1);
    open_reader(&fake, "");
    publish(key, value, sizeof(value), 40);
    tail_tick(tail);
    assert_true(belfry_buf_len(&fake.body) > TAIL_BYTES && belfry_buf_len(&fake.body) <= EXCHANGE_ROOM * 3 / 4);
    close_reader(&fake);
}

static void a_reader_without_room_falls_behind_and_is_told(void **state)
{
    (void)state;
    struct fakeexchange fake;
    open_reader(&fake, "/");
    fake.room = EXCHANGE_ROOM / 2;
    put("/k", "v");
    tail_tick(tail);
    fake.room = EXCHANGE_ROOM / 2;
    assert_int_equal(belfry_buf_len(&fake.body), 0);
    for (int i = 0; i < 2 << CAPACITY_LOG2; i++)
        put("/k", "v");
    fake.room = EXCHANGE_ROOM;
    tail_tick(tail);
    assert_sent(&fake, "event: lost\ndata: {}\n\n");
    put("/k", "new");
    tail_tick(tail);
    assert_int_equal(belfry_buf_append(&fake.body, "", 1), BELFRY_OK);
    assert_non_null(strstr(belfry_buf_bytes(&fake.body).data, "\"value\":\"new\""));
    close_reader(&fake);
}

static void a_new_past_is_a_loss(void **state)
{
    (void)state;
    struct fakeexchange fake;
    open_reader(&fake, "/");
    head = 50;
    assert_int_equal(evlog_cut(evlog, head, EVLOG_CUT_REWRITTEN, head), BELFRY_OK);
    put("/k", "v");
    tail_tick(tail);
    assert_sent(&fake, "event: lost\ndata: {}\n\n");
    put("/k", "w");
    tail_tick(tail);
    assert_sent(&fake, "event: change\ndata: {\"revision\":52,\"type\":\"put\",\"key\":\"/k\",\"value\":\"w\","
                       "\"bytes\":1}\n\n");
    close_reader(&fake);
}

static void readers_are_bounded_and_reset_at_the_end(void **state)
{
    (void)state;
    struct fakeexchange fakes[TAIL_MAX], more;
    for (size_t i = 0; i < TAIL_MAX; i++)
        open_reader(&fakes[i], "/");
    fakeexchange_init(&more, EXCHANGE_ROOM);
    assert_false(tail_open(tail, &more.x, belfry_bytes_str("/")));
    assert_int_equal(more.status, 0);
    fakeexchange_fini(&more);
    close_reader(&fakes[0]);
    open_reader(&fakes[0], "/");
    tail_destroy(tail);
    tail = NULL;
    for (size_t i = 0; i < TAIL_MAX; i++) {
        assert_int_equal(fakes[i].state, FAKEEXCHANGE_RESET);
        fakeexchange_fini(&fakes[i]);
    }
}

static void the_log_frees_what_the_tail_has_left(void **state)
{
    (void)state;
    struct fakeexchange fake;
    open_reader(&fake, "/");
    for (int i = 0; i < 4 << CAPACITY_LOG2; i++) {
        put("/k", "v");
        fake.room = EXCHANGE_ROOM;
        tail_tick(tail);
    }
    assert_int_equal(evlog_reclaim(evlog), 0);
    close_reader(&fake);
}

static void a_reader_is_told_when_a_change_was_lost_for_memory(void **state)
{
    (void)state;
    struct fakeexchange fake;
    open_reader(&fake, "/");
    put("/k", "v");
    fake.room = EXCHANGE_ROOM;
    refuse_begin(0);
    tail_tick(tail);
    assert_true(refuse_end());
    assert_sent(&fake, "event: lost\ndata: {}\n\n");
    put("/k", "w");
    tail_tick(tail);
    assert_int_equal(belfry_buf_append(&fake.body, "", 1), BELFRY_OK);
    assert_non_null(strstr(belfry_buf_bytes(&fake.body).data, "\"value\":\"w\""));
    close_reader(&fake);
}

static enum belfry_err scenario(void)
{
    struct tail *own = NULL;
    struct fakeexchange fake;
    enum belfry_err err = tail_create(evlog, 1, &own);
    if (err != BELFRY_OK)
        return err;
    fakeexchange_init(&fake, EXCHANGE_ROOM);
    if (tail_open(own, &fake.x, belfry_bytes_str(""))) {
        err = fake.lost ? BELFRY_ERR_NOMEM : BELFRY_OK;
        fakeexchange_gone(&fake);
    } else {
        err = BELFRY_ERR_NOMEM;
    }
    fakeexchange_fini(&fake);
    tail_destroy(own);
    return err;
}

static void every_refused_allocation_is_told(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(changes_of_the_prefix_are_told_from_now_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_long_value_is_cut_between_characters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_than_a_turn_shows_are_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_message_fits_into_the_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reader_without_room_falls_behind_and_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_past_is_a_loss, set_up, tear_down),
        cmocka_unit_test_setup_teardown(readers_are_bounded_and_reset_at_the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_log_frees_what_the_tail_has_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reader_is_told_when_a_change_was_lost_for_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_refused_allocation_is_told, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
