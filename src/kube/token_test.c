/* src/kube/token_test.c */
#include "kube/token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/refuse.h"

/* base64 of {"v":"meta.k8s.io/v1","rv":10245,"start":"ns/name\u0000"} */
#define KNOWN "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTAyNDUsInN0YXJ0IjoibnMvbmFtZVx1MDAwMCJ9"

static void assert_reads(const char *text, int64_t rev, struct belfry_bytes start)
{
    struct kube_token token;
    assert_int_equal(kube_token_read(belfry_bytes_str(text), &token), BELFRY_OK);
    assert_int_equal(token.rev, rev);
    assert_true(belfry_bytes_equal(belfry_buf_bytes(&token.start), start));
    kube_token_fini(&token);
}

static void assert_refused(struct belfry_bytes text)
{
    struct kube_token token;
    assert_int_equal(kube_token_read(text, &token), BELFRY_ERR_INVALID);
    kube_token_fini(&token);
}

/* Any JSON as a token. */
static void assert_json_refused(const char *json)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char text[512];
    size_t n = 0, n_bits = 8 * strlen(json);
    for (size_t bit = 0; bit < n_bits; bit += 6) {
        unsigned value = 0;
        for (size_t i = bit; i < bit + 6; i++)
            value = value << 1 | (i < n_bits ? (unsigned)(unsigned char)json[i / 8] >> (7 - i % 8) & 1 : 0);
        text[n++] = digits[value];
    }
    assert_refused(belfry_bytes_of(text, n));
}

static void a_token_is_written_as_kubernetes_writes_it(void **state)
{
    (void)state;
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    assert_int_equal(belfry_buf_append(&buf, "<", 1), BELFRY_OK);
    assert_int_equal(kube_token_write(10245, (struct kube_token_origin){0}, belfry_bytes_of("ns/name", 8), &buf),
                     BELFRY_OK);
    assert_int_equal(belfry_buf_append(&buf, "", 1), BELFRY_OK);
    assert_string_equal(belfry_buf_bytes(&buf).data, "<" KNOWN);
    belfry_buf_fini(&buf);
    assert_reads(KNOWN, 10245, belfry_bytes_of("ns/name", 8));
}

static void what_is_written_is_read_again(void **state)
{
    (void)state;
    char start[KUBE_START_MAX];
    memset(start, '\n', sizeof(start)); /* the longest in JSON is a control character */
    memset(start, '\x01', sizeof(start) - 8);
    static const size_t lens[] = {1, 2, 3, 4, 5, 255, KUBE_START_MAX};
    static const int64_t revs[] = {-1, 1, INT64_MAX};
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]) * 3; i++) {
        struct belfry_bytes given = belfry_bytes_of(start, lens[i / 3]);
        struct belfry_buf buf;
        belfry_buf_init(&buf);
        assert_int_equal(kube_token_write(revs[i % 3], (struct kube_token_origin){0}, given, &buf), BELFRY_OK);
        assert_true(belfry_buf_len(&buf) <= KUBE_TOKEN_MAX);
        assert_int_equal(belfry_buf_append(&buf, "", 1), BELFRY_OK);
        assert_reads((const char *)buf.data, revs[i % 3], given);
        belfry_buf_fini(&buf);
    }
}

static void it_says_who_wrote_it_and_in_which_past(void **state)
{
    (void)state;
    struct belfry_buf buf;
    struct kube_token token;
    belfry_buf_init(&buf);
    struct kube_token_origin origin = {UINT64_MAX, 3};
    assert_int_equal(kube_token_write(7, origin, belfry_bytes_str("a"), &buf), BELFRY_OK);
    assert_int_equal(kube_token_read(belfry_buf_bytes(&buf), &token), BELFRY_OK);
    assert_true(token.origin.process == UINT64_MAX && token.origin.past == 3);
    kube_token_fini(&token);
    assert_int_equal(kube_token_read(belfry_bytes_str(KNOWN), &token), BELFRY_OK); /* Kubernetes' own */
    assert_true(token.origin.process == 0 && token.origin.past == 0);
    kube_token_fini(&token);
    belfry_buf_fini(&buf);
}

static void what_could_not_be_read_is_not_written(void **state)
{
    (void)state;
    static char start[KUBE_START_MAX + 1];
    memset(start, 'a', sizeof(start));
    static const char *const starts[] = {"", "\xff", "a/../b", "..", ".", "a/.", "./a"};
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
        assert_int_equal(kube_token_write(1, (struct kube_token_origin){0}, belfry_bytes_str(starts[i]), &buf),
                         BELFRY_ERR_INVALID);
    assert_int_equal(kube_token_write(1, (struct kube_token_origin){0}, belfry_bytes_of(start, sizeof(start)), &buf),
                     BELFRY_ERR_INVALID);
    assert_int_equal(kube_token_write(0, (struct kube_token_origin){0}, belfry_bytes_str("a"), &buf),
                     BELFRY_ERR_INVALID);
    assert_int_equal(kube_token_write(-2, (struct kube_token_origin){0}, belfry_bytes_str("a"), &buf),
                     BELFRY_ERR_INVALID);
    assert_int_equal(belfry_buf_len(&buf), 0);
    belfry_buf_fini(&buf);
}

static void what_is_not_base64_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "A", "!", KNOWN "=", KNOWN "+", "eyJ2 IjoibWV0", ("/" KNOWN), "AAB"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_refused(belfry_bytes_str(texts[i]));
    assert_refused(belfry_bytes_of(KNOWN, sizeof(KNOWN))); /* its zero byte */
    for (size_t n = 0; n < sizeof(KNOWN) - 1; n++)
        assert_refused(belfry_bytes_of(KNOWN, n));
}

static void what_says_something_else_is_refused(void **state)
{
    (void)state;
    static const char *const jsons[] = {
        "[]",
        "null",
        "{}",
        "{\"v\":\"meta.k8s.io/v2\",\"rv\":1,\"start\":\"a\"}",
        "{\"rv\":1,\"start\":\"a\"}",
        "{\"v\":\"meta.k8s.io/v1\",\"start\":\"a\"}",
        "{\"v\":\"meta.k8s.io/v1\",\"rv\":0,\"start\":\"a\"}",
        "{\"v\":\"meta.k8s.io/v1\",\"rv\":-2,\"start\":\"a\"}",
        "{\"v\":\"meta.k8s.io/v1\",\"rv\":1.0,\"start\":\"a\"}",
        "{\"v\":\"meta.k8s.io/v1\",\"rv\":\"1\",\"start\":\"a\"}",
        "{\"v\":\"meta.k8s.io/v1\",\"rv\":9223372036854775808,\"start\":\"a\"}",
        "{\"v\":\"meta.k8s.io/v1\",\"rv\":1}",
        "{\"v\":\"meta.k8s.io/v1\",\"rv\":1,\"start\":\"\"}",
        "{\"v\":\"meta.k8s.io/v1\",\"rv\":1,\"start\":7}",
        "{\"v\":\"meta.k8s.io/v1\",\"rv\":1,\"start\":\"../a\"}",
        "{\"v\":\"meta.k8s.io/v1\",\"rv\":1,\"start\":\"a/./b\"}",
        "{\"v\":\"meta.k8s.io/v1\",\"rv\":1,\"start\":\"\xff\"}",
        "{\"v\":\"meta.k8s.io/v1\",\"rv\":1,\"start\":\"a\"}x",
    };
    for (size_t i = 0; i < sizeof(jsons) / sizeof(jsons[0]); i++)
        assert_json_refused(jsons[i]);
}

static void a_token_over_the_bound_is_refused(void **state)
{
    (void)state;
    char *text = malloc(KUBE_TOKEN_MAX + 4);
    assert_non_null(text);
    /* valid JSON but for its length: spaces (base64 "ICAg") in front */
    for (size_t i = 0; i + 4 <= KUBE_TOKEN_MAX + 4; i += 4)
        memcpy(text + i, "ICAg", 4);
    size_t known = sizeof(KNOWN) - 1;
    size_t fits = KUBE_TOKEN_MAX - KUBE_TOKEN_MAX % 4;
    size_t front = (fits - known) / 4 * 4;
    memcpy(text + front, KNOWN, known);
    struct kube_token token;
    assert_int_equal(kube_token_read(belfry_bytes_of(text, front + known), &token), BELFRY_OK);
    kube_token_fini(&token);
    memcpy(text + front, "ICAg", 4);
    memcpy(text + front + 4, KNOWN, known);
    assert_true(front + 4 + known > KUBE_TOKEN_MAX);
    assert_refused(belfry_bytes_of(text, front + 4 + known));
    free(text);
}

static enum belfry_err there_and_back(void)
{
    struct belfry_buf buf;
    struct kube_token token = {0};
    belfry_buf_init(&buf);
    enum belfry_err err = kube_token_write(7, (struct kube_token_origin){0}, belfry_bytes_of("ns/name", 8), &buf);
    if (err == BELFRY_OK)
        err = kube_token_read(belfry_buf_bytes(&buf), &token);
    kube_token_fini(&token);
    belfry_buf_fini(&buf);
    return err;
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    assert_true(refuse_sweep(there_and_back) >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_written_as_kubernetes_writes_it),
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(it_says_who_wrote_it_and_in_which_past),
        cmocka_unit_test(what_could_not_be_read_is_not_written),
        cmocka_unit_test(what_is_not_base64_is_refused),
        cmocka_unit_test(what_says_something_else_is_refused),
        cmocka_unit_test(a_token_over_the_bound_is_refused),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
