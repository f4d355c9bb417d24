/* src/serve/relay/relay_members_test.c */
#include "serve/relay/relay_members.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/gzipped.h"
#include "support/refuse.h"

#define URL "http://t:1"

/* header {}; member {ID 7, name "m", clientURLs "http://a:1"}; and a field 9 that nobody knows */
static const char known[] = "\x0a\x00\x12\x11\x08\x07\x12\x01m\x22\x0ahttp://a:1"
                            "\x4a\x01x";

static size_t frame(char *to, char flag, const void *message, size_t len)
{
    to[0] = flag;
    to[1] = to[2] = 0;
    to[3] = (char)(len >> 8);
    to[4] = (char)len;
    memcpy(to + 5, message, len);
    return len + 5;
}

static enum belfry_err rewrite(char flag, const void *message, size_t len, struct belfry_buf *out)
{
    char body[400];
    return relay_members_rewrite(belfry_bytes_of(body, frame(body, flag, message, len)), URL, out);
}

static void check_rewritten(struct belfry_buf *out)
{
    struct belfry_bytes got = belfry_buf_bytes(out);
    assert_int_equal(got.len, 5 + sizeof(known) - 1);
    assert_int_equal(got.data[0], 0);
    assert_int_equal((uint8_t)got.data[4], sizeof(known) - 1);
    char text[100] = {0};
    memcpy(text, known, sizeof(known) - 1);
    memcpy(text + 11, URL, strlen(URL));
    assert_memory_equal(got.data + 5, text, sizeof(known) - 1);
}

static void urls_are_replaced_and_all_else_stays(void **state)
{
    (void)state;
    struct belfry_buf out;
    belfry_buf_init(&out);
    assert_int_equal(rewrite(0, known, sizeof(known) - 1, &out), BELFRY_OK);
    check_rewritten(&out);
    belfry_buf_fini(&out);
}

static void a_packed_list_leaves_unpacked(void **state)
{
    (void)state;
    uint8_t packed[200];
    struct belfry_buf out;
    belfry_buf_init(&out);
    assert_int_equal(rewrite(1, packed, gzipped(known, sizeof(known) - 1, 9, packed, sizeof(packed)), &out), BELFRY_OK);
    check_rewritten(&out);
    belfry_buf_fini(&out);
}

static void what_is_no_list_is_left_alone(void **state)
{
    (void)state;
    struct belfry_buf out;
    belfry_buf_init(&out);
    assert_int_equal(relay_members_rewrite(belfry_bytes_of("", 0), URL, &out), BELFRY_ERR_PROTOCOL);
    assert_int_equal(relay_members_rewrite(belfry_bytes_of("\0\0\0\0", 4), URL, &out), BELFRY_ERR_PROTOCOL);
    assert_int_equal(relay_members_rewrite(belfry_bytes_of("\0\0\0\0\2a", 6), URL, &out), BELFRY_ERR_PROTOCOL);
    assert_int_equal(relay_members_rewrite(belfry_bytes_of("\0\0\0\0\0a", 6), URL, &out), BELFRY_ERR_PROTOCOL);
    assert_int_equal(rewrite(2, known, sizeof(known) - 1, &out), BELFRY_ERR_PROTOCOL);
    assert_int_equal(rewrite(1, known, sizeof(known) - 1, &out), BELFRY_ERR_PROTOCOL); /* not gzip */
    assert_int_equal(rewrite(0, known, sizeof(known) - 2, &out), BELFRY_ERR_PROTOCOL); /* cut */
    assert_int_equal(belfry_buf_len(&out), 0);
}

static enum belfry_err scenario(void)
{
    struct belfry_buf out;
    belfry_buf_init(&out);
    enum belfry_err err = rewrite(0, known, sizeof(known) - 1, &out);
    belfry_buf_fini(&out);
    return err == BELFRY_ERR_PROTOCOL ? BELFRY_ERR_NOMEM : err; /* protobuf-c does not say why it could not read it */
}

static void without_memory_nothing_leaks(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_replaced_and_all_else_stays),
        cmocka_unit_test(a_packed_list_leaves_unpacked),
        cmocka_unit_test(what_is_no_list_is_left_alone),
        cmocka_unit_test(without_memory_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
