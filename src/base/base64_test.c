/* src/base/base64_test.c */
#include "base/base64.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/refuse.h"

static void assert_pair(enum belfry_base64 form, struct belfry_bytes bytes, const char *text)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    assert_int_equal(belfry_buf_append(&buf, "<", 1), BELFRY_OK);
    assert_int_equal(belfry_base64_encode(form, bytes, &buf), BELFRY_OK);
    belfry_buf_take(&buf, 1);
    assert_true(belfry_bytes_equal(belfry_buf_bytes(&buf), belfry_bytes_str(text)));
    belfry_buf_clear(&buf);
    assert_int_equal(belfry_base64_decode(form, belfry_bytes_str(text), &buf), BELFRY_OK);
    assert_true(belfry_bytes_equal(belfry_buf_bytes(&buf), bytes));
    belfry_buf_fini(&buf);
}

static void the_examples_of_the_rfc_go_there_and_back(void **state)
{
    (void)state;
    static const char *const rows[][3] = {{"", "", ""},
                                          {"f", "Zg==", "Zg"},
                                          {"fo", "Zm8=", "Zm8"},
                                          {"foo", "Zm9v", "Zm9v"},
                                          {"foob", "Zm9vYg==", "Zm9vYg"},
                                          {"fooba", "Zm9vYmE=", "Zm9vYmE"},
                                          {"foobar", "Zm9vYmFy", "Zm9vYmFy"},
                                          {"\xfb\xff\xfe", "+//+", "-__-"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_pair(BELFRY_BASE64_STANDARD, belfry_bytes_str(rows[i][0]), rows[i][1]);
        assert_pair(BELFRY_BASE64_URL, belfry_bytes_str(rows[i][0]), rows[i][2]);
    }
}

static void every_byte_in_every_place_comes_back(void **state)
{
    (void)state;
    uint8_t bytes[256 + 2];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)i;
    for (size_t from = 0; from < 3; from++) {
        for (enum belfry_base64 form = BELFRY_BASE64_STANDARD; form <= BELFRY_BASE64_URL; form++) {
            struct belfry_bytes given = belfry_bytes_of(bytes + from, 256);
            struct belfry_buf text, back;
            belfry_buf_init(&text);
            belfry_buf_init(&back);
            assert_int_equal(belfry_base64_encode(form, given, &text), BELFRY_OK);
            assert_int_equal(belfry_base64_decode(form, belfry_buf_bytes(&text), &back), BELFRY_OK);
            assert_true(belfry_bytes_equal(belfry_buf_bytes(&back), given));
            belfry_buf_fini(&text);
            belfry_buf_fini(&back);
        }
    }
}

static void white_space_in_the_standard_form_is_passed_over(void **state)
{
    (void)state;
    static const char *const texts[] = {"Zm9vYg==\n", " Zm9v Yg==", "Zm9v\r\n\tYg=\n=", "Z m 9 v Y g = = "};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct belfry_buf buf;
        belfry_buf_init(&buf);
        assert_int_equal(belfry_base64_decode(BELFRY_BASE64_STANDARD, belfry_bytes_str(texts[i]), &buf), BELFRY_OK);
        assert_true(belfry_bytes_equal(belfry_buf_bytes(&buf), belfry_bytes_str("foob")));
        belfry_buf_fini(&buf);
    }
}

static void assert_refused(enum belfry_base64 form, struct belfry_bytes text)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    assert_int_equal(belfry_buf_append(&buf, "<", 1), BELFRY_OK);
    if (belfry_base64_decode(form, text, &buf) != BELFRY_ERR_INVALID)
        fail_msg("taken: %.*s", (int)text.len, text.data);
    assert_int_equal(belfry_buf_len(&buf), 1);
    belfry_buf_fini(&buf);
}

static void what_no_encoder_writes_is_refused(void **state)
{
    (void)state;
    static const char *const standard[] = {
        "Zg",       "Zg=",   "Zg===",           "Z",    "Z===",     "====", "=",    "Zm9v=",
        "Zm9v====", "Zm8==", "Zh==" /* bits */, "Zm9=", "Zg==Zg==", "Zg=a", "Zm-_", "Zm9v\x0b",
        "Zm9v\xff", "Zm9v!"};
    static const char *const url[] = {"Z", "Zg==", "Zg=", "Zm9v ", "Zm 9v", "Zm+/", "Zh", "Zm9vZ", "\n"};
    for (size_t i = 0; i < sizeof(standard) / sizeof(standard[0]); i++)
        assert_refused(BELFRY_BASE64_STANDARD, belfry_bytes_str(standard[i]));
    for (size_t i = 0; i < sizeof(url) / sizeof(url[0]); i++)
        assert_refused(BELFRY_BASE64_URL, belfry_bytes_str(url[i]));
    assert_refused(BELFRY_BASE64_STANDARD, belfry_bytes_of("Zm9v", 5)); /* with its zero byte */
    assert_refused(BELFRY_BASE64_URL, belfry_bytes_of("Zm9v", 5));
}

static enum belfry_err there_and_back(void)
{
    struct belfry_buf text, bytes;
    belfry_buf_init(&text);
    belfry_buf_init(&bytes);
    enum belfry_err err = belfry_base64_encode(BELFRY_BASE64_STANDARD, belfry_bytes_str("foobar"), &text);
    if (err == BELFRY_OK)
        err = belfry_base64_decode(BELFRY_BASE64_STANDARD, belfry_buf_bytes(&text), &bytes);
    belfry_buf_fini(&text);
    belfry_buf_fini(&bytes);
    return err;
}

static void refused_memory_leaks_nothing(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(there_and_back), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_rfc_go_there_and_back),
        cmocka_unit_test(every_byte_in_every_place_comes_back),
        cmocka_unit_test(white_space_in_the_standard_form_is_passed_over),
        cmocka_unit_test(what_no_encoder_writes_is_refused),
        cmocka_unit_test(refused_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
