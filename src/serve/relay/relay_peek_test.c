/* src/serve/relay/relay_peek_test.c */
#include "serve/relay/relay_peek.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/grpc_frame.h"
#include "support/gzipped.h"
#include "support/refuse.h"
#include "wire/write.h"

#define CLUSTER UINT64_C(0xcdf818194e3a8c32)

static struct term term;
static struct relay_peek peek;
static struct belfry_buf body;

static int setup(void **state)
{
    (void)state;
    term_init(&term);
    relay_peek_init(&peek);
    belfry_buf_init(&body);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    term_fini(&term);
    relay_peek_fini(&peek);
    belfry_buf_fini(&body);
    return 0;
}

/* A response of etcd: a header, and `more` bytes in another field. */
static size_t make_message(uint64_t raft_term, size_t more, uint8_t *to)
{
    uint8_t *at = to;
    *at++ = 0x0a;
    uint8_t *len = at++;
    *at++ = 0x08; /* cluster_id: ten bytes */
    for (uint64_t id = CLUSTER; id != 0; id >>= 7)
        *at++ = (uint8_t)(id | (id > 0x7f ? 0x80 : 0));
    *at++ = 0x20;
    *at++ = (uint8_t)raft_term;
    *len = (uint8_t)(at - len - 1);
    if (more > 0) {
        *at++ = 0x12;
        *at++ = (uint8_t)(more | 0x80);
        *at++ = (uint8_t)(more >> 7);
        for (size_t i = 0; i < more; i++)
            *at++ = (uint8_t)rand(); /* it does not get smaller when it is packed */
    }
    return (size_t)(at - to);
}

static void add_frame(const void *message, size_t len, bool packed)
{
    uint8_t prefix[BELFRY_GRPC_PREFIX_BYTES];
    belfry_grpc_frame_prefix(prefix, len);
    prefix[0] = packed;
    assert_int_equal(belfry_buf_append(&body, prefix, sizeof(prefix)), BELFRY_OK);
    assert_int_equal(belfry_buf_append(&body, message, len), BELFRY_OK);
}

static void add_response(uint64_t raft_term, size_t more)
{
    uint8_t message[20000];
    assert_true(raft_term < 0x80 && more < 16000);
    add_frame(message, make_message(raft_term, more, message), false);
}

static void add_packed(uint64_t raft_term, size_t more)
{
    uint8_t plain[20000], packed[20000];
    size_t len = make_message(raft_term, more, plain);
    add_frame(packed, gzipped(plain, len, 9, packed, sizeof(packed)), true);
}

/* Passes the body in pieces of `step` bytes. */
static void pass(size_t step)
{
    struct belfry_bytes all = belfry_buf_bytes(&body);
    for (size_t at = 0; at < all.len; at += step) {
        size_t n = all.len - at < step ? all.len - at : step;
        assert_int_equal(relay_peek_pass(&peek, belfry_bytes_of(all.data + at, n), &term), BELFRY_OK);
    }
}

static void a_header_in_one_piece_is_heard_without_memory(void **state)
{
    (void)state;
    add_response(9, 3000);
    pass(SIZE_MAX / 2);
    assert_int_equal(term_now(&term), 9);
    assert_int_equal(peek.front.cap, 0);
}

static void a_header_is_heard_however_it_is_cut(void **state)
{
    (void)state;
    add_response(3, 0);
    add_response(4, 2000);
    add_response(5, 1);
    for (size_t step = 1; step < 80; step++) {
        term_begin(&term, 0, 0);
        pass(step);
        assert_int_equal(term_now(&term), 5);
        assert_int_equal(belfry_buf_len(&peek.front), 0);
        assert_int_equal(peek.skip, 0);
    }
}

/* The client has the term when it has the last byte of the header. */
static void it_is_heard_with_its_last_byte(void **state)
{
    (void)state;
    uint8_t message[64];
    size_t header = BELFRY_GRPC_PREFIX_BYTES + make_message(7, 0, message);
    add_response(7, 500);
    struct belfry_bytes all = belfry_buf_bytes(&body);
    for (size_t at = 0; at < header; at++) {
        assert_int_equal(term_now(&term), 0);
        assert_int_equal(relay_peek_pass(&peek, belfry_bytes_of(all.data + at, 1), &term), BELFRY_OK);
    }
    assert_int_equal(term_now(&term), 7);
}

static void packed_responses_are_heard_too(void **state)
{
    (void)state;
    add_packed(3, 0);
    add_packed(4, 9000);
    add_response(2, 10);
    static const size_t steps[] = {1, 7, 100, 1029, 16384};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        term_begin(&term, 0, 0);
        pass(steps[i]);
        assert_int_equal(term_now(&term), 4);
    }
}

static void what_has_no_header_says_nothing_and_keeps_little(void **state)
{
    (void)state;
    uint8_t zeroes[4000] = {0};
    add_frame("", 0, false);
    add_frame(zeroes, sizeof(zeroes), false);
    add_frame(zeroes, sizeof(zeroes), true);
    add_frame("\x0a\x7f", 2, false); /* longer than its message */
    struct belfry_bytes all = belfry_buf_bytes(&body);
    for (size_t at = 0; at < all.len; at++) {
        assert_int_equal(relay_peek_pass(&peek, belfry_bytes_of(all.data + at, 1), &term), BELFRY_OK);
        assert_in_range(belfry_buf_len(&peek.front), 0, BELFRY_GRPC_PREFIX_BYTES + 1024);
    }
    assert_int_equal(term_now(&term), 0);
    add_response(9, 0);
    relay_peek_fini(&peek);
    pass(1);
    assert_int_equal(term_now(&term), 9); /* it was found behind all of them */
}

static enum belfry_err pass_refused(void)
{
    struct relay_peek cut;
    struct belfry_bytes all = belfry_buf_bytes(&body);
    enum belfry_err err = BELFRY_OK;
    relay_peek_init(&cut);
    for (size_t at = 0; at < all.len && err == BELFRY_OK; at++)
        err = relay_peek_pass(&cut, belfry_bytes_of(all.data + at, 1), &term);
    relay_peek_fini(&cut);
    return err;
}

static void refused_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    add_response(3, 0);
    add_packed(4, 0);
    assert_true(refuse_sweep(pass_refused) >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_header_in_one_piece_is_heard_without_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(a_header_is_heard_however_it_is_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(it_is_heard_with_its_last_byte, setup, teardown),
        cmocka_unit_test_setup_teardown(packed_responses_are_heard_too, setup, teardown),
        cmocka_unit_test_setup_teardown(what_has_no_header_says_nothing_and_keeps_little, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_memory_is_reported_and_nothing_leaks, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
