/* src/kube/request_options_test.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kube/request.h"
#include "support/refuse.h"

static struct kube_options options;
static struct kube_status status;

static void read_query(const char *query)
{
    if (kube_options_read(belfry_bytes_str(query), &options, &status) != BELFRY_OK)
        fail_msg("%s was refused: %s", query, status.message);
}

static int end(void **state)
{
    (void)state;
    kube_options_fini(&options);
    return 0;
}

static void assert_text(struct belfry_bytes text, const char *expected)
{
    if (!belfry_bytes_equal(text, belfry_bytes_str(expected)))
        fail_msg("'%.*s' is not '%s'", (int)text.len, text.data, expected);
}

static void nothing_is_asked_by_an_empty_query(void **state)
{
    (void)state;
    read_query("");
    assert_false(options.watch || options.bookmarks);
    assert_int_equal(options.pretty, KUBE_FLAG_UNSET);
    assert_int_equal(options.send_initial, KUBE_FLAG_UNSET);
    assert_int_equal(options.match, KUBE_MATCH_UNSET);
    assert_int_equal(options.include, KUBE_INCLUDE_METADATA);
    assert_int_equal(options.limit, 0);
    assert_int_equal(options.timeout_s, 0);
    assert_text(options.label_selector, "");
    assert_text(options.field_selector, "");
    assert_text(options.continue_token, "");
    assert_text(options.resource_version, "");
}

static void every_parameter_has_its_place(void **state)
{
    (void)state;
    read_query("watch=1&allowWatchBookmarks=true&pretty=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
               "&includeObject=Object&labelSelector=a%3Db&fieldSelector=metadata.name%3Dx&continue=tok&resourceVersion="
               "12&limit=500&timeoutSeconds=300&shardSelector=shardRange(object.metadata.uid,+'0x0',+'0x8')");
    assert_true(options.watch && options.bookmarks);
    assert_int_equal(options.pretty, KUBE_FLAG_TRUE);
    assert_int_equal(options.send_initial, KUBE_FLAG_FALSE);
    assert_int_equal(options.match, KUBE_MATCH_NOT_OLDER);
    assert_int_equal(options.include, KUBE_INCLUDE_OBJECT);
    assert_text(options.label_selector, "a=b");
    assert_text(options.field_selector, "metadata.name=x");
    assert_text(options.shard_selector, "shardRange(object.metadata.uid, '0x0', '0x8')");
    assert_text(options.continue_token, "tok");
    assert_text(options.resource_version, "12");
    assert_int_equal(options.limit, 500);
    assert_int_equal(options.timeout_s, 300);
}

static void only_0_and_false_are_false(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        bool watch;
    } rows[] = {
        {"", false},        {"watch=0", false}, {"watch=false", false}, {"watch=False", false}, {"watch=FALSE", false},
        {"watch", true},    {"watch=", true},   {"watch=true", true},   {"watch=True", true},   {"watch=1", true},
        {"watch=no", true}, {"watch=00", true}, {"watch=falsey", true}, {"watch=%30", false},   {"w%61tch=1", true},
        {"Watch=1", false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        read_query(rows[i].query);
        if (options.watch != rows[i].watch)
            fail_msg("%s was read as %d", rows[i].query, options.watch);
        kube_options_fini(&options);
    }
}

static void the_first_of_a_name_counts(void **state)
{
    (void)state;
    read_query("labelSelector=a&labelSelector=b&watch=0&watch=1&limit=1&limit=abc");
    assert_text(options.label_selector, "a");
    assert_false(options.watch);
    assert_int_equal(options.limit, 1);
}

static void unknown_names_are_ignored(void **state)
{
    (void)state;
    read_query("timeout=32s&fieldManager=kubectl&dryRun=%zz&%zz=1&=&&&a=b=c&shardselector=x&limit=7&"
               "a-name-that-is-longer-than-any-of-ours-even-if-each-of-its-bytes-were-escaped=1");
    assert_int_equal(options.limit, 7);
}

static void blanks_and_escapes_are_decoded(void **state)
{
    (void)state;
    read_query("labelSelector=a+in+%28b%2Cc%29%2b%C3%a9&continue=a=b&fieldSelector=x%00y");
    assert_text(options.label_selector, "a in (b,c)+\xc3\xa9");
    assert_text(options.continue_token, "a=b");
    assert_true(belfry_bytes_equal(options.field_selector, belfry_bytes_of("x\0y", 3)));
}

static void numbers_have_64_bits_and_no_less_than_none(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        int64_t limit;
    } rows[] = {{"limit=0", 0},
                {"limit=1", 1},
                {"limit=%2B5", 5},
                {"limit=007", 7},
                {"limit=-1", 0},
                {"limit=9223372036854775807", INT64_MAX},
                {"limit=-9223372036854775808", 0}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        read_query(rows[i].query);
        if (options.limit != rows[i].limit)
            fail_msg("%s was read as %lld", rows[i].query, (long long)options.limit);
        kube_options_fini(&options);
    }
    read_query("timeoutSeconds=-5");
    assert_int_equal(options.timeout_s, 0);
}

static void another_match_is_kept_for_whoever_judges_it(void **state)
{
    (void)state;
    read_query("resourceVersionMatch=exact");
    assert_int_equal(options.match, KUBE_MATCH_UNKNOWN);
    assert_text(options.match_text, "exact");
    kube_options_fini(&options);
    read_query("resourceVersionMatch=");
    assert_int_equal(options.match, KUBE_MATCH_UNSET);
    kube_options_fini(&options);
    read_query("resourceVersionMatch=Exact");
    assert_int_equal(options.match, KUBE_MATCH_EXACT);
}

static void a_tables_objects_are_chosen(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        enum kube_include include;
    } rows[] = {{"includeObject=", KUBE_INCLUDE_METADATA},
                {"includeObject=Metadata", KUBE_INCLUDE_METADATA},
                {"includeObject=None", KUBE_INCLUDE_NONE},
                {"includeObject=Object", KUBE_INCLUDE_OBJECT}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        read_query(rows[i].query);
        assert_int_equal(options.include, rows[i].include);
        kube_options_fini(&options);
    }
}

static void what_cannot_be_read_is_a_bad_request(void **state)
{
    (void)state;
    static const struct {
        const char *query, *message;
    } rows[] = {
        {"limit=abc", "limit: must be a decimal number of 64 bits"},
        {"limit=", "limit: must be a decimal number of 64 bits"},
        {"limit", "limit: must be a decimal number of 64 bits"},
        {"limit=-", "limit: must be a decimal number of 64 bits"},
        {"limit=+5", "limit: must be a decimal number of 64 bits"}, /* a plus is a blank */
        {"limit=1x", "limit: must be a decimal number of 64 bits"},
        {"limit=9223372036854775808", "limit: must be a decimal number of 64 bits"},
        {"limit=-9223372036854775809", "limit: must be a decimal number of 64 bits"},
        {"timeoutSeconds=5s", "timeoutSeconds: must be a decimal number of 64 bits"},
        {"includeObject=All", "includeObject: must be None, Metadata or Object"},
        {"labelSelector=%", "labelSelector: a percent escape in its value is broken"},
        {"labelSelector=%4", "labelSelector: a percent escape in its value is broken"},
        {"labelSelector=a%4g", "labelSelector: a percent escape in its value is broken"},
        {"labelSelector=%g4", "labelSelector: a percent escape in its value is broken"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(kube_options_read(belfry_bytes_str(rows[i].query), &options, &status), BELFRY_ERR_INVALID);
        assert_int_equal(status.reason, KUBE_BAD_REQUEST);
        assert_string_equal(status.message, rows[i].message);
        kube_options_fini(&options);
    }
}

static void a_query_is_bounded(void **state)
{
    (void)state;
    size_t len = KUBE_QUERY_MAX + 1;
    char *query = malloc(len);
    assert_non_null(query);
    memset(query, 'a', len);
    memcpy(query, "continue=", 9);
    assert_int_equal(kube_options_read(belfry_bytes_of(query, len), &options, &status), BELFRY_ERR_INVALID);
    assert_int_equal(status.reason, KUBE_BAD_REQUEST);
    kube_options_fini(&options);
    assert_int_equal(kube_options_read(belfry_bytes_of(query, len - 1), &options, &status), BELFRY_OK);
    assert_int_equal(options.continue_token.len, KUBE_QUERY_MAX - 9);
    free(query);
}

static enum belfry_err read_and_end(void)
{
    enum belfry_err err = kube_options_read(
        belfry_bytes_str("labelSelector=a%3Db&fieldSelector=metadata.name%3Dx&continue=t&limit=5"), &options, &status);
    kube_options_fini(&options);
    return err;
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    assert_true(refuse_sweep(read_and_end) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(nothing_is_asked_by_an_empty_query, end),
        cmocka_unit_test_teardown(every_parameter_has_its_place, end),
        cmocka_unit_test_teardown(only_0_and_false_are_false, end),
        cmocka_unit_test_teardown(the_first_of_a_name_counts, end),
        cmocka_unit_test_teardown(unknown_names_are_ignored, end),
        cmocka_unit_test_teardown(blanks_and_escapes_are_decoded, end),
        cmocka_unit_test_teardown(numbers_have_64_bits_and_no_less_than_none, end),
        cmocka_unit_test_teardown(another_match_is_kept_for_whoever_judges_it, end),
        cmocka_unit_test_teardown(a_tables_objects_are_chosen, end),
        cmocka_unit_test_teardown(what_cannot_be_read_is_a_bad_request, end),
        cmocka_unit_test_teardown(a_query_is_bounded, end),
        cmocka_unit_test_teardown(no_memory_is_an_error, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
