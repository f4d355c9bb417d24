/* src/json/document_test.c */
#include "json/document.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/refuse.h"

static void parts_are_read_as_one_text(void **state)
{
    (void)state;
    struct belfry_kube_document document;
    struct belfry_bytes parts[] = {
        belfry_bytes_str("{\"a\":\"x"), {0}, belfry_bytes_str("\\u0041"), belfry_bytes_str("\"}")};
    assert_int_equal(belfry_kube_document_read(parts, 4, &document), BELFRY_OK);
    struct belfry_bytes found = belfry_kube_document_bytes(yyjson_obj_get(document.root, "a"));
    assert_true(belfry_bytes_equal(found, belfry_bytes_str("xA")));
    belfry_kube_document_fini(&document);
}

static void integers_are_told_from_other_numbers_by_their_text(void **state)
{
    (void)state;
    struct belfry_kube_document document;
    struct belfry_bytes text = belfry_bytes_str("[0,-7,123456789012345678901234567890,1.0,1e3,1E3,true,\"5\",null]");
    assert_int_equal(belfry_kube_document_read(&text, 1, &document), BELFRY_OK);
    for (size_t i = 0; i < yyjson_arr_size(document.root); i++)
        assert_int_equal(belfry_kube_document_is_integer(yyjson_arr_get(document.root, i)), i < 3);
    assert_false(belfry_kube_document_is_integer(NULL));
    struct belfry_bytes large = belfry_kube_document_bytes(yyjson_arr_get(document.root, 2));
    assert_true(belfry_bytes_equal(large, belfry_bytes_str("123456789012345678901234567890")));
    belfry_kube_document_fini(&document);
}

static void what_is_not_json_is_invalid(void **state)
{
    (void)state;
    static const char *const texts[] = {"", " ", "{", "{}x", "[1,]", "// x\n1", "Infinity", "\"\xC0\x80\""};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct belfry_kube_document document;
        struct belfry_bytes text = belfry_bytes_str(texts[i]);
        assert_int_equal(belfry_kube_document_read(&text, 1, &document), BELFRY_ERR_INVALID);
    }
    struct belfry_kube_document none = {0};
    belfry_kube_document_fini(&none);
}

static enum belfry_err scenario(void)
{
    struct belfry_kube_document document;
    struct belfry_bytes text = belfry_bytes_str("[[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[]]");
    enum belfry_err err = belfry_kube_document_read(&text, 1, &document);
    if (err == BELFRY_OK)
        belfry_kube_document_fini(&document);
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
        cmocka_unit_test(parts_are_read_as_one_text),
        cmocka_unit_test(integers_are_told_from_other_numbers_by_their_text),
        cmocka_unit_test(what_is_not_json_is_invalid),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
