/* src/serve/etcd/watch_input_test.c; what a peer is told of bad messages is tested in watch_test.c as well. */
#include "serve/etcd/watch_input.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "net/gzip.h"
#include "support/gzipped.h"
#include "support/refuse.h"

/* Two requests: a create of "foo", and a cancel of 5. */
static const char body[] = "\0\0\0\0\x07\x0a\x05\x0a\x03"
                           "foo"
                           "\0\0\0\0\x04\x12\x02\x08\x05";
#define BODY_LEN   (sizeof(body) - 1)
#define FIRST_LEN  12
#define SECOND_LEN (BODY_LEN - FIRST_LEN)

struct bed {
    struct watch_input input;
    struct belfry_bytes in, raw;
    struct belfry_wire_watch_request request;
    struct watch_fault fault;
};

static void bed_open(struct bed *bed, enum watch_coding coding)
{
    *bed = (struct bed){.in = {body, BODY_LEN}};
    watch_input_init(&bed->input, coding);
}

static enum belfry_err next(struct bed *bed)
{
    return watch_input_next(&bed->input, &bed->in, &bed->request, &bed->raw, &bed->fault);
}

static void message_at_hand_is_read_where_it_lies(void **state)
{
    (void)state;
    struct bed bed;
    size_t held = refuse_held();
    bed_open(&bed, WATCH_CODING_NONE);
    assert_int_equal(next(&bed), BELFRY_OK);
    assert_int_equal(bed.request.kind, BELFRY_WATCH_CREATE);
    assert_ptr_equal(bed.request.key.data, body + 9);
    assert_ptr_equal(bed.raw.data, body + 5);
    assert_int_equal(bed.in.len, SECOND_LEN);
    assert_int_equal(next(&bed), BELFRY_OK);
    assert_int_equal(bed.request.kind, BELFRY_WATCH_CANCEL);
    assert_int_equal(bed.request.watch_id, 5);
    assert_int_equal(next(&bed), BELFRY_ERR_AGAIN);
    assert_false(watch_input_inside(&bed.input));
    assert_int_equal(refuse_held(), held); /* nothing was ever allocated */
    watch_input_fini(&bed.input);
}

static void message_in_two_parts_is_put_together_wherever_it_is_cut(void **state)
{
    (void)state;
    for (size_t cut = 1; cut < FIRST_LEN; cut++) {
        struct bed bed;
        bed_open(&bed, WATCH_CODING_NONE);
        bed.in.len = cut;
        assert_int_equal(next(&bed), BELFRY_ERR_AGAIN);
        assert_int_equal(bed.in.len, 0);
        assert_true(watch_input_inside(&bed.input));
        assert_int_equal(watch_input_bytes(&bed.input) > 0, cut >= 5);
        bed.in = belfry_bytes_of(body + cut, BODY_LEN - cut);
        assert_int_equal(next(&bed), BELFRY_OK);
        assert_true(belfry_bytes_equal(bed.request.key, belfry_bytes_str("foo")));
        assert_int_equal(watch_input_bytes(&bed.input), 0);
        assert_int_equal(next(&bed), BELFRY_OK);
        assert_int_equal(bed.request.kind, BELFRY_WATCH_CANCEL);
        watch_input_fini(&bed.input);
    }
}

static void assert_fault(const char *bytes, size_t len, enum belfry_err err, int code, const char *text)
{
    struct bed bed;
    bed_open(&bed, WATCH_CODING_GZIP);
    bed.in = belfry_bytes_of(bytes, len);
    assert_int_equal(next(&bed), err);
    assert_int_equal(bed.fault.code, code);
    assert_string_equal(bed.fault.text, text);
    watch_input_fini(&bed.input);
}

static void faults_are_told_as_etcd_tells_them(void **state)
{
    (void)state;
    assert_fault("\0\xff\xff\xff\xff", 5, BELFRY_ERR_TOO_LARGE, 8,
                 "grpc: received message larger than max (4294967295 vs. 2097152)");
    assert_fault("\x7f", 1, BELFRY_ERR_PROTOCOL, 13, "grpc: received unexpected payload format 127");
    assert_fault("\0\0\0\0\1\x0a", 6, BELFRY_ERR_PROTOCOL, 13,
                 "grpc: failed to unmarshal the received message: proto: malformed WatchRequest");
    assert_fault("\1\0\0\0\1\x1f", 6, BELFRY_ERR_PROTOCOL, 13,
                 "grpc: failed to decompress the received message: it is not whole gzip");
}

/* A message with a field that nobody knows: of `len` bytes, of which the last `dense` cannot be made shorter. Returns
 * its length, packed with its head. */
static size_t pack(size_t len, size_t dense, uint8_t *to, size_t cap)
{
    static uint8_t plain[WATCH_REQUEST_BYTES + 4];
    uint32_t x = 1;
    memset(plain, 0, sizeof(plain));
    plain[0] = 0x7a;
    for (int i = 0; i < 3; i++) /* its length, as a varint of three bytes */
        plain[1 + i] = (uint8_t)((len >> (7 * i) & 127) | (i < 2 ? 128 : 0));
    for (size_t i = 0; i < dense; i++)
        plain[4 + len - dense + i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
    size_t n = gzipped(plain, 4 + len, 9, to + 5, cap - 5);
    to[0] = 1;
    for (int i = 0; i < 4; i++)
        to[1 + i] = (uint8_t)(n >> (24 - 8 * i));
    return 5 + n;
}

static enum belfry_err unpack(size_t len, size_t dense, char text[128])
{
    static uint8_t packed[256 * 1024];
    struct bed bed;
    bed_open(&bed, WATCH_CODING_GZIP);
    bed.in = belfry_bytes_of(packed, pack(len, dense, packed, sizeof(packed)));
    enum belfry_err err = next(&bed);
    memcpy(text, bed.fault.text, sizeof(bed.fault.text));
    watch_input_fini(&bed.input);
    return err;
}

static void what_a_message_unpacks_to_is_in_proportion_to_its_bytes(void **state)
{
    (void)state;
    char text[128];
    assert_int_equal(unpack(BELFRY_GZIP_ANY - 4, 0, text), BELFRY_OK);
    assert_int_equal(unpack(BELFRY_GZIP_ANY - 3, 0, text), BELFRY_ERR_TOO_LARGE);
    assert_string_equal(text, "grpc: received message after decompression larger than max (65537 vs. 65536)");
    assert_int_equal(unpack(1000000, 80000, text), BELFRY_OK);
    assert_int_equal(unpack(1000000, 50000, text), BELFRY_ERR_TOO_LARGE);
    assert_int_equal(unpack(WATCH_REQUEST_BYTES - 4, 140000, text), BELFRY_OK);
    assert_int_equal(unpack(WATCH_REQUEST_BYTES - 3, 140000, text), BELFRY_ERR_TOO_LARGE);
    assert_string_equal(text, "grpc: received message after decompression larger than max (2097153 vs. 2097152)");
}

static enum belfry_err scenario(void)
{
    /* a progress request, compressed */
    static const uint8_t gzipped[] = {0x01, 0x00, 0x00, 0x00, 0x16, 0x1f, 0x8b, 0x08, 0x00,
                                      0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x93, 0x62, 0x00,
                                      0x00, 0x24, 0xe8, 0xf4, 0xf1, 0x02, 0x00, 0x00, 0x00};
    struct bed bed;
    bed_open(&bed, WATCH_CODING_GZIP);
    bed.in.len = 8;
    enum belfry_err err = next(&bed);
    if (err == BELFRY_ERR_AGAIN) {
        bed.in = belfry_bytes_of(body + 8, FIRST_LEN - 8);
        err = next(&bed);
    }
    if (err == BELFRY_OK) {
        bed.in = belfry_bytes_of(gzipped, sizeof(gzipped));
        err = next(&bed);
    }
    if (err == BELFRY_OK)
        assert_int_equal(bed.request.kind, BELFRY_WATCH_PROGRESS);
    else if (err == BELFRY_ERR_NOMEM)
        assert_int_equal(bed.fault.code, 14);
    watch_input_fini(&bed.input);
    return err;
}

static void every_refused_allocation_is_survived(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_at_hand_is_read_where_it_lies),
        cmocka_unit_test(message_in_two_parts_is_put_together_wherever_it_is_cut),
        cmocka_unit_test(faults_are_told_as_etcd_tells_them),
        cmocka_unit_test(what_a_message_unpacks_to_is_in_proportion_to_its_bytes),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
