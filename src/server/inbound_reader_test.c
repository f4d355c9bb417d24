/* src/server/inbound_reader_test.c */
#include "server/inbound_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

static int ends[2]; /* ours, and the peer's */
static struct inbound_reader reader;
static uint8_t buf[INBOUND_READER_MOST];
static size_t n_reads, n_bytes;
static uint64_t each_ns; /* handling a portion takes so long */
static bool goes_on;

static int setup(void **state)
{
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    inbound_reader_init(&reader);
    n_reads = n_bytes = 0;
    each_ns = 0;
    goes_on = true;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close(ends[0]);
    if (ends[1] >= 0)
        close(ends[1]);
    return 0;
}

static bool on_bytes(struct belfry_bytes bytes, void *user)
{
    assert_ptr_equal(user, &reader);
    assert_ptr_equal(bytes.data, buf);
    assert_true(bytes.len <= reader.bytes);
    n_reads++;
    n_bytes += bytes.len;
    for (uint64_t until = uv_hrtime() + each_ns; uv_hrtime() < until;) {
    }
    return goes_on;
}

static enum inbound_reader_end read_turn(void)
{
    return inbound_reader_read(&reader, ends[0], buf, uv_hrtime(), on_bytes, &reader);
}

static void send_bytes(size_t n)
{
    static const uint8_t zeros[INBOUND_READER_MOST];
    assert_int_equal(send(ends[1], zeros, n, MSG_DONTWAIT), n);
}

static void an_empty_socket_pauses(void **state)
{
    (void)state;
    assert_int_equal(read_turn(), INBOUND_READER_PAUSED);
    assert_int_equal(n_reads, 0);
}

static void a_short_read_is_the_last_of_a_turn(void **state)
{
    (void)state;
    send_bytes(10);
    assert_int_equal(read_turn(), INBOUND_READER_PAUSED);
    assert_int_equal(n_reads, 1);
    assert_int_equal(n_bytes, 10);
}

static void the_end_is_reported_after_the_bytes(void **state)
{
    (void)state;
    send_bytes(10);
    close(ends[1]);
    ends[1] = -1;
    assert_int_equal(read_turn(), INBOUND_READER_PAUSED);
    assert_int_equal(n_bytes, 10);
    assert_int_equal(read_turn(), INBOUND_READER_ENDED);
}

static void a_descriptor_that_cannot_be_read_is_lost(void **state)
{
    (void)state;
    assert_int_equal(inbound_reader_read(&reader, -1, buf, uv_hrtime(), on_bytes, &reader), INBOUND_READER_LOST);
}

static void the_handler_may_stop_it(void **state)
{
    (void)state;
    reader.bytes = INBOUND_READER_LEAST;
    goes_on = false;
    send_bytes(4 * INBOUND_READER_LEAST);
    assert_int_equal(read_turn(), INBOUND_READER_PAUSED);
    assert_int_equal(n_reads, 1);
}

static void slow_handling_makes_reads_smaller_down_to_the_least(void **state)
{
    (void)state;
    each_ns = INBOUND_READER_NS + 1;
    for (size_t bytes = reader.bytes; bytes > INBOUND_READER_LEAST; bytes /= 2) {
        send_bytes(bytes);
        assert_int_equal(reader.bytes, bytes);
        assert_int_equal(read_turn(), INBOUND_READER_PAUSED);
    }
    assert_int_equal(reader.bytes, INBOUND_READER_LEAST);
    send_bytes(2 * INBOUND_READER_LEAST);
    n_reads = 0;
    assert_int_equal(read_turn(), INBOUND_READER_PAUSED);
    assert_int_equal(n_reads, 1); /* it has used its time */
    assert_int_equal(reader.bytes, INBOUND_READER_LEAST);
}

static void reads_do_not_grow_over_the_buffer(void **state)
{
    (void)state;
    for (int i = 0; i < 1000 && reader.bytes < INBOUND_READER_MOST; i++) {
        send_bytes(1);
        read_turn();
    }
    assert_int_equal(reader.bytes, INBOUND_READER_MOST);
    send_bytes(1);
    read_turn();
    assert_int_equal(reader.bytes, INBOUND_READER_MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_empty_socket_pauses, setup, teardown),
        cmocka_unit_test_setup_teardown(a_short_read_is_the_last_of_a_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(the_end_is_reported_after_the_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_descriptor_that_cannot_be_read_is_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(the_handler_may_stop_it, setup, teardown),
        cmocka_unit_test_setup_teardown(slow_handling_makes_reads_smaller_down_to_the_least, setup, teardown),
        cmocka_unit_test_setup_teardown(reads_do_not_grow_over_the_buffer, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
