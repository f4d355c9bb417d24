/* src/serve/kube/packer_test.c */
#include "serve/kube/packer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "net/gzip.h"
#include "support/refuse.h"

#define WHOLE 300000

/* Packs `text` in pieces of `piece` bytes. */
static enum belfry_err pack(const uint8_t *text, size_t len, size_t piece, struct belfry_buf *out)
{
    struct packer *packer = NULL;
    enum belfry_err err = packer_create(&packer);
    for (size_t at = 0; err == BELFRY_OK; at += piece) {
        size_t n = len - at < piece ? len - at : piece;
        err = packer_add(packer, belfry_bytes_of(text + at, n), at + n == len ? PACKER_LAST : PACKER_MORE, out);
        if (at + n == len)
            break;
    }
    packer_destroy(packer);
    return err;
}

static void expect_round_trip(const uint8_t *text, size_t len, size_t piece)
{
    struct belfry_buf packed = {0};
    struct belfry_blob *blob;
    assert_int_equal(pack(text, len, piece, &packed), BELFRY_OK);
    assert_int_equal(belfry_gzip_unpack(belfry_buf_bytes(&packed), WHOLE + 1, &blob), BELFRY_OK);
    assert_int_equal(belfry_blob_len(blob), len);
    if (len > 0)
        assert_memory_equal(belfry_blob_bytes(blob).data, text, len);
    belfry_blob_unref(blob);
    belfry_buf_fini(&packed);
}

static uint8_t *make_noise(void)
{
    struct belfry_rng rng = {7};
    uint8_t *noise = malloc(WHOLE);
    assert_non_null(noise);
    for (size_t i = 0; i < WHOLE; i++)
        noise[i] = (uint8_t)belfry_rng_next(&rng);
    return noise;
}

static void pieces_unpack_to_what_they_were(void **state)
{
    (void)state;
    uint8_t *noise = make_noise(); /* that cannot be made smaller, so every step of output is full */
    expect_round_trip(noise, WHOLE, WHOLE);
    expect_round_trip(noise, WHOLE, 70000);
    expect_round_trip(noise, WHOLE, 1000);
    expect_round_trip(noise, 1, 1);
    expect_round_trip(noise, 0, 1);
    memset(noise, 'x', WHOLE);
    expect_round_trip(noise, WHOLE, 70000);
    free(noise);
}

static enum belfry_err scenario(void)
{
    static uint8_t text[100000];
    struct belfry_buf packed = {0};
    enum belfry_err err = pack(text, sizeof(text), 40000, &packed);
    belfry_buf_fini(&packed);
    return err;
}

static void without_memory_nothing_leaks(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_unpack_to_what_they_were),
        cmocka_unit_test(without_memory_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
