/* src/json/manifest_test.c */
#include "json/manifest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/refuse.h"
#include "json/json_alc.h"

static void becomes(const char *text, const char *json)
{
    yyjson_doc *doc = NULL;
    struct belfry_kube_fault fault = {""};
    if (belfry_kube_manifest_read(belfry_bytes_str(text), &doc, &fault) != BELFRY_OK)
        fail_msg("%s: %s", text, fault.text);
    char *written = yyjson_write_opts(doc, YYJSON_WRITE_NOFLAG, &belfry_json_alc, NULL, NULL);
    assert_string_equal(written, json);
    free(written);
    yyjson_doc_free(doc);
}

static void refused(const char *text, size_t len, const char *why)
{
    yyjson_doc *doc = NULL;
    struct belfry_kube_fault fault = {""};
    assert_int_equal(belfry_kube_manifest_read(belfry_bytes_of(text, len), &doc, &fault), BELFRY_ERR_INVALID);
    assert_null(doc);
    if (strstr(fault.text, why) == NULL)
        fail_msg("'%s' does not say '%s'", fault.text, why);
}

static void fails(const char *text, const char *why)
{
    refused(text, strlen(text), why);
}

static void maps_and_lists_nest(void **state)
{
    (void)state;
    becomes("a:\n  b: [1, {c: d}]\n  e:\n  - f\n  - - g\n", "{\"a\":{\"b\":[1,{\"c\":\"d\"}],\"e\":[\"f\",[\"g\"]]}}");
    becomes("---\na: {}\nb: []\n...\n", "{\"a\":{},\"b\":[]}");
}

static void plain_scalars_have_the_types_of_the_core_schema(void **state)
{
    (void)state;
    becomes("a: true\nb: False\nc: null\nd: ~\ne:\n", "{\"a\":true,\"b\":false,\"c\":null,\"d\":null,\"e\":null}");
}

static void words_of_older_yaml_stay_texts(void **state)
{
    (void)state;
    becomes("a: yes\nb: on\nc: 2024-01-01\nd: 1_000\ne: 12:30:45\nf: .inf\ng: .NaN\n",
            "{\"a\":\"yes\",\"b\":\"on\",\"c\":\"2024-01-01\",\"d\":\"1_000\",\"e\":\"12:30:45\",\"f\":\".inf\","
            "\"g\":\".NaN\"}");
}

static void numbers_keep_their_digits(void **state)
{
    (void)state;
    becomes("a: 12345678901234567890123\nb: 1.10\nc: -0\nd: 1e+06\n",
            "{\"a\":12345678901234567890123,\"b\":1.10,\"c\":-0,\"d\":1e+06}");
    becomes("{\"a\": 12345678901234567890123, \"b\": 1.10}", "{\"a\":12345678901234567890123,\"b\":1.10}");
}

static void numbers_that_json_cannot_write_are_converted(void **state)
{
    (void)state;
    becomes("a: 0x1F\nb: 0o17\nc: +7\nd: 007\ne: .5\nf: 2.\ng: +1.5e1\n",
            "{\"a\":31,\"b\":15,\"c\":7,\"d\":7,\"e\":0.5,\"f\":2.0,\"g\":15.0}");
    becomes(
        "a: 0xFFFFFFFFFFFFFFFF\nb: 0x\nc: 0o8\nd: 1e\ne: e1\nf: .\ng: +\nh: 1.2.3\n",
        "{\"a\":\"0xFFFFFFFFFFFFFFFF\",\"b\":\"0x\",\"c\":\"0o8\",\"d\":\"1e\",\"e\":\"e1\",\"f\":\".\",\"g\":\"+\","
        "\"h\":\"1.2.3\"}");
}

static void what_is_quoted_is_a_text(void **state)
{
    (void)state;
    becomes("a: 'true'\nb: \"3\"\nc: ''\nd: |\n  1\n  2\ne: >-\n  x\n  y\nf: !!str 5\n",
            "{\"a\":\"true\",\"b\":\"3\",\"c\":\"\",\"d\":\"1\\n2\\n\",\"e\":\"x y\",\"f\":\"5\"}");
}

static void keys_are_texts(void **state)
{
    (void)state;
    becomes("1: a\ntrue: b\n~: c\n", "{\"1\":\"a\",\"true\":\"b\",\"~\":\"c\"}");
    fails("? [a]\n: b\n", "line 1: the key of a map must be a text");
    fails("a:\n  ? {b: c}\n  : d\n", "line 2: the key of a map must be a text");
}

static void json_is_read_as_json(void **state)
{
    (void)state;
    becomes(" \n{\"a\":\"\\ud83d\\ude00\",\"b\":\"\\/\",\"c\":[null,true]}\n",
            "{\"a\":\"\xF0\x9F\x98\x80\",\"b\":\"/\",\"c\":[null,true]}");
    becomes("{a: b, c: [d]}", "{\"a\":\"b\",\"c\":[\"d\"]}"); /* YAML that begins like JSON */
}

static void aliases_are_refused(void **state)
{
    (void)state;
    fails("a: &x [1, 2]\nb: *x\n", "line 2: an alias ('*x')");
    fails("a: &a [*a]\n", "line 1: an alias");
    becomes("a: &x 1\n", "{\"a\":1}");
}

static void unknown_tags_are_refused(void **state)
{
    (void)state;
    fails("a: !!binary aGk=\n", "line 1: the tag 'tag:yaml.org,2002:binary'");
    fails("a: !mine {}\n", "line 1: the tag '!mine'");
    becomes("!!map {a: !!seq [b]}", "{\"a\":[\"b\"]}");
}

static void a_key_that_is_there_twice_is_refused(void **state)
{
    (void)state;
    fails("a: 1\nspec:\n  b: 1\n  c: 2\n  b: 3\n", "line 3: the map that begins here has the key 'b' twice");
}

static void a_file_holds_one_document(void **state)
{
    (void)state;
    fails("a: 1\n---\nb: 2\n", "line 2: a second document begins here");
    fails("", "empty");
    fails("# nothing\n", "empty");
    fails("---\n", "empty");
    fails("- a\n", "a manifest is a map");
    fails("[1]", "a manifest is a map");
    fails("hello", "a manifest is a map");
}

static void what_is_not_yaml_names_its_line(void **state)
{
    (void)state;
    fails("a: 1\nb: [\n", "line 3: ");
    fails("a: b: c\n", "line 1: ");
    fails("{\"a\":1,,}", "line 1: ");
    fails("a: \xff\n", "byte 3: ");
}

static void a_file_has_a_size(void **state)
{
    (void)state;
    char *text = malloc(KUBE_MANIFEST_MAX + 1);
    assert_non_null(text);
    memset(text, ' ', KUBE_MANIFEST_MAX + 1);
    memcpy(text, "{\"a\":1}", 7);
    yyjson_doc *doc = NULL;
    struct belfry_kube_fault fault = {""};
    assert_int_equal(belfry_kube_manifest_read(belfry_bytes_of(text, KUBE_MANIFEST_MAX), &doc, &fault), BELFRY_OK);
    yyjson_doc_free(doc);
    refused(text, KUBE_MANIFEST_MAX + 1, "a manifest has at most 3145728");
    free(text);
}

/* {"a": around as many lists as make `depth` with it */
static void fill_nested(char *text, size_t depth, const char *head, const char *end)
{
    strcpy(text, head);
    for (size_t i = 1; i < depth; i++)
        strcat(text, "[");
    for (size_t i = 1; i < depth; i++)
        strcat(text, "]");
    strcat(text, end);
}

static void nesting_has_a_depth(void **state)
{
    (void)state;
    static const char *const heads[] = {"{\"a\":", "{a: "};
    char text[4 * KUBE_NESTING_MAX];
    for (size_t i = 0; i < 2; i++) {
        yyjson_doc *doc = NULL;
        struct belfry_kube_fault fault = {""};
        fill_nested(text, KUBE_NESTING_MAX, heads[i], "}");
        assert_int_equal(belfry_kube_manifest_read(belfry_bytes_str(text), &doc, &fault), BELFRY_OK);
        yyjson_doc_free(doc);
        fill_nested(text, KUBE_NESTING_MAX + 1, heads[i], "}");
        fails(text, "line 1: nested deeper than 128");
    }
}

static void brackets_in_texts_are_no_nesting(void **state)
{
    (void)state;
    char text[4 * KUBE_NESTING_MAX];
    fill_nested(text, KUBE_NESTING_MAX + 2, "{\"a\":\"\\\"", "\"}");
    yyjson_doc *doc = NULL;
    struct belfry_kube_fault fault = {""};
    assert_int_equal(belfry_kube_manifest_read(belfry_bytes_str(text), &doc, &fault), BELFRY_OK);
    yyjson_doc_free(doc);
}

/* libyaml compares each directive with all before it: three MiB of them would be minutes. */
static void directives_are_few(void **state)
{
    (void)state;
    const size_t size = KUBE_MANIFEST_MAX - 64;
    char *text = malloc(KUBE_MANIFEST_MAX);
    assert_non_null(text);
    size_t n = 0;
    for (unsigned i = 0; n < size - 32; i++)
        n += (size_t)snprintf(text + n, 32, "%%TAG !%x! y%c", i, i % 2 == 0 ? '\n' : '\r');
    snprintf(text + n, 32, "---\na: b\n");
    fails(text, "directives");
    free(text);
    yyjson_doc *doc = NULL;
    struct belfry_kube_fault fault = {""};
    static const char few[] = "%YAML 1.1\n%TAG !a! y\n---\na: b\n";
    assert_int_equal(belfry_kube_manifest_read(belfry_bytes_str(few), &doc, &fault), BELFRY_OK);
    yyjson_doc_free(doc);
}

static enum belfry_err read_text(const char *text)
{
    yyjson_doc *doc = NULL;
    struct belfry_kube_fault fault = {""};
    enum belfry_err err = belfry_kube_manifest_read(belfry_bytes_str(text), &doc, &fault);
    yyjson_doc_free(doc);
    return err;
}

static enum belfry_err read_yaml(void)
{
    return read_text("a: [1, 0x1F, 'x', {b: c, d: true}]\ne: ~\n");
}

static enum belfry_err read_json(void)
{
    return read_text("{\"a\":[1,{\"b\":\"c\"}]}");
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    assert_true(refuse_sweep(read_yaml) > 3);
    assert_true(refuse_sweep(read_json) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_and_lists_nest),
        cmocka_unit_test(plain_scalars_have_the_types_of_the_core_schema),
        cmocka_unit_test(words_of_older_yaml_stay_texts),
        cmocka_unit_test(numbers_keep_their_digits),
        cmocka_unit_test(numbers_that_json_cannot_write_are_converted),
        cmocka_unit_test(what_is_quoted_is_a_text),
        cmocka_unit_test(keys_are_texts),
        cmocka_unit_test(json_is_read_as_json),
        cmocka_unit_test(aliases_are_refused),
        cmocka_unit_test(unknown_tags_are_refused),
        cmocka_unit_test(a_key_that_is_there_twice_is_refused),
        cmocka_unit_test(a_file_holds_one_document),
        cmocka_unit_test(what_is_not_yaml_names_its_line),
        cmocka_unit_test(a_file_has_a_size),
        cmocka_unit_test(nesting_has_a_depth),
        cmocka_unit_test(brackets_in_texts_are_no_nesting),
        cmocka_unit_test(directives_are_few),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
