/* src/kube/columns_test.c */
#include "kube/columns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/refuse.h"
#include "json/document.h"
#include "json/path.h"

#define NOW 1700000000 /* 2023-11-14T22:13:20Z */

static char kind[] = "Widget", api_version[] = "demo.example.com/v1", prefix[] = "/w/";
static struct kube_column columns[KUBE_COLUMNS_MAX];
static struct kube_version version = {.api_version = api_version, .columns = columns};
static const struct kube_resource resource = {.kind = kind, .prefix = prefix};

static void add_column(char *name, char *type, const char *path)
{
    struct kube_column *column = &columns[version.n_columns];
    *column = (struct kube_column){.name = name, .type = type};
    assert_int_equal(belfry_kube_path_read(belfry_bytes_str(path), &column->path), BELFRY_OK);
    version.n_columns++;
}

static int as_it_was(void **state)
{
    (void)state;
    while (version.n_columns > 0)
        belfry_kube_path_free(columns[--version.n_columns].path);
    return 0;
}

static struct kube_object *make(const char *value)
{
    struct kube_object *object = NULL;
    struct kube_stored stored = {.key = belfry_bytes_str("/w/a"), .value = belfry_bytes_str(value)};
    assert_int_equal(kube_object_make(&resource, &version, &stored, &object), BELFRY_OK);
    return object;
}

static void assert_text(struct belfry_buf *buf, const char *expected)
{
    assert_int_equal(belfry_buf_append(buf, "", 1), BELFRY_OK);
    assert_string_equal(belfry_buf_bytes(buf).data, expected);
    belfry_buf_fini(buf);
}

static void assert_cells(const char *value, const char *expected)
{
    struct kube_object *object = make(value);
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    assert_int_equal(kube_table_cells(&version, object, 12, NOW, &buf), BELFRY_OK);
    kube_object_unref(object);
    assert_text(&buf, expected);
}

static char string[] = "string", integer[] = "integer", number[] = "number", boolean[] = "boolean", date[] = "date";
static char x[] = "X";

static void without_columns_there_are_name_and_age(void **state)
{
    (void)state;
    assert_cells("{\"metadata\":{\"creationTimestamp\":\"2023-11-14T22:08:20Z\"}}", "[\"a\",\"5m\"]");
    assert_cells("{\"metadata\":{\"creationTimestamp\":null}}", "[\"a\",\"<unknown>\"]");
    assert_cells("{\"metadata\":{}}", "[\"a\",\"<unknown>\"]");
}

static void the_columns_of_the_version_come_behind_the_name(void **state)
{
    (void)state;
    add_column(x, string, ".spec.s");
    add_column(x, integer, ".spec.i");
    add_column(x, number, ".spec.n");
    add_column(x, boolean, ".spec.b");
    add_column(x, date, ".spec.d");
    add_column(x, string, ".metadata.resourceVersion");
    assert_cells("{\"metadata\":{},\"spec\":{\"s\":\"a\\nb\",\"i\":12345678901234567890,\"n\":1.50,\"b\":false,"
                 "\"d\":\"2023-11-14T22:13:15Z\"}}",
                 "[\"a\",\"a\\nb\",12345678901234567890,1.50,false,\"5s\",\"12\"]");
}

static void what_is_missing_or_of_another_type_is_null(void **state)
{
    (void)state;
    add_column(x, string, ".spec.s");
    add_column(x, integer, ".spec.i");
    add_column(x, number, ".spec.n");
    add_column(x, boolean, ".spec.b");
    add_column(x, date, ".spec.d");
    assert_cells("{\"metadata\":{}}", "[\"a\",null,null,null,null,\"<unknown>\"]");
    assert_cells("{\"metadata\":{},\"spec\":{\"s\":null,\"i\":\"1\",\"n\":\"1\",\"b\":1,\"d\":5}}",
                 "[\"a\",null,null,null,null,null]");
    assert_cells("{\"metadata\":{},\"spec\":{\"d\":\"soon\"}}", "[\"a\",null,null,null,null,\"<invalid>\"]");
}

static void a_column_of_strings_shows_anything(void **state)
{
    (void)state;
    add_column(x, string, ".n");
    add_column(x, string, ".b");
    add_column(x, string, ".o");
    add_column(x, string, ".l[*]");
    assert_cells("{\"metadata\":{},\"n\":1.50,\"b\":true,\"o\":{\"k\":[1.0,\"v\"]},\"l\":[\"p\",\"q\"]}",
                 "[\"a\",\"1.50\",\"true\",\"{\\\"k\\\":[1.0,\\\"v\\\"]}\",\"p\"]");
}

static void a_column_of_integers_drops_fractions(void **state)
{
    (void)state;
    add_column(x, integer, ".p");
    add_column(x, integer, ".q");
    add_column(x, integer, ".r");
    assert_cells("{\"metadata\":{},\"p\":2.9,\"q\":-1.5e1,\"r\":1e300}", "[\"a\",2,-15,null]");
}

static void columns_are_described(void **state)
{
    (void)state;
    struct belfry_buf buf;
    struct belfry_kube_document document;
    char description[] = "how \"large\"", format[] = "int32", size[] = "Size";
    add_column(size, integer, ".spec.size");
    columns[0].description = description;
    columns[0].format = format;
    columns[0].priority = 1;
    belfry_buf_init(&buf);
    assert_int_equal(kube_table_columns(&version, &buf), BELFRY_OK);
    struct belfry_bytes text = belfry_buf_bytes(&buf);
    assert_int_equal(belfry_kube_document_read(&text, 1, &document), BELFRY_OK);
    assert_int_equal(yyjson_arr_size(document.root), 2);
    yyjson_val *name = yyjson_arr_get(document.root, 0);
    assert_string_equal(yyjson_get_str(yyjson_obj_get(name, "name")), "Name");
    assert_string_equal(yyjson_get_str(yyjson_obj_get(name, "type")), "string");
    assert_string_equal(yyjson_get_str(yyjson_obj_get(name, "format")), "name");
    belfry_kube_document_fini(&document);
    const char own[] = ",{\"name\":\"Size\",\"type\":\"integer\",\"format\":\"int32\","
                       "\"description\":\"how \\\"large\\\"\",\"priority\":1}]";
    assert_memory_equal(text.data + text.len - strlen(own), own, strlen(own));
    belfry_buf_fini(&buf);
}

static void the_age_of_no_columns_is_a_date(void **state)
{
    (void)state;
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    assert_int_equal(kube_table_columns(&version, &buf), BELFRY_OK);
    struct belfry_bytes text = belfry_buf_bytes(&buf);
    const char age[] = "{\"name\":\"Age\",\"type\":\"date\",\"format\":\"\",\"description\":\"CreationTimestamp is";
    assert_non_null(memmem(text.data, text.len, age, strlen(age)));
    belfry_buf_fini(&buf);
}

static void a_row_of_no_object_has_as_many_cells(void **state)
{
    (void)state;
    struct belfry_buf buf;
    add_column(x, string, ".spec.s");
    add_column(x, integer, ".spec.i");
    belfry_buf_init(&buf);
    assert_int_equal(kube_table_no_cells(&version, &buf), BELFRY_OK);
    assert_text(&buf, "[\"\",null,null]");
}

static struct kube_object *lasting;

static enum belfry_err scenario(void)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    enum belfry_err err = kube_table_columns(&version, &buf);
    if (err == BELFRY_OK)
        err = kube_table_cells(&version, lasting, 12, NOW, &buf);
    belfry_buf_fini(&buf);
    return err;
}

static void every_refused_allocation_is_survived(void **state)
{
    (void)state;
    add_column(x, string, ".spec");
    add_column(x, date, ".d");
    lasting = make("{\"metadata\":{},\"spec\":{\"a\":1}}");
    assert_true(refuse_sweep(scenario) >= 5); /* two buffers, the document's two, the cell that is JSON */
    kube_object_unref(lasting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(without_columns_there_are_name_and_age, as_it_was),
        cmocka_unit_test_teardown(the_columns_of_the_version_come_behind_the_name, as_it_was),
        cmocka_unit_test_teardown(what_is_missing_or_of_another_type_is_null, as_it_was),
        cmocka_unit_test_teardown(a_column_of_strings_shows_anything, as_it_was),
        cmocka_unit_test_teardown(a_column_of_integers_drops_fractions, as_it_was),
        cmocka_unit_test_teardown(columns_are_described, as_it_was),
        cmocka_unit_test_teardown(the_age_of_no_columns_is_a_date, as_it_was),
        cmocka_unit_test_teardown(a_row_of_no_object_has_as_many_cells, as_it_was),
        cmocka_unit_test_teardown(every_refused_allocation_is_survived, as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
