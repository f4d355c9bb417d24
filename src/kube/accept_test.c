/* src/kube/accept_test.c */
#include "kube/accept.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define JSON      (1u << KUBE_FORM_JSON)
#define TABLE     (1u << KUBE_FORM_TABLE)
#define METADATA  (1u << KUBE_FORM_METADATA)
#define DISCOVERY (1u << KUBE_FORM_DISCOVERY)
#define OBJECTS   (JSON | TABLE | METADATA | 1u << KUBE_FORM_METADATA_LIST)

#define TABLE_V1      "application/json;as=Table;v=v1;g=meta.k8s.io"
#define TABLE_V1BETA1 "application/json;as=Table;v=v1beta1;g=meta.k8s.io"
#define GROUPS_V2     "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
#define GROUPS_V2BETA "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
#define METADATA_V1   "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

static enum kube_form form(const char *header, unsigned forms)
{
    return kube_accept(belfry_bytes_str(header), forms);
}

static void no_header_is_json(void **state)
{
    (void)state;
    assert_int_equal(form("", OBJECTS), KUBE_FORM_JSON);
    assert_int_equal(form(" \t", OBJECTS), KUBE_FORM_JSON);
    assert_int_equal(form("", TABLE), KUBE_FORM_NONE);
}

static void what_kubectl_sends_is_a_table_where_there_is_one(void **state)
{
    (void)state;
    const char *header = TABLE_V1 "," TABLE_V1BETA1 ",application/json";
    assert_int_equal(form(header, OBJECTS), KUBE_FORM_TABLE);
    assert_int_equal(form(header, JSON), KUBE_FORM_JSON);
    assert_int_equal(form(TABLE_V1BETA1, OBJECTS), KUBE_FORM_TABLE);
    assert_int_equal(form("application/json, */*", OBJECTS), KUBE_FORM_JSON);
}

static void discovery_is_aggregated_only_in_the_version_that_we_have(void **state)
{
    (void)state;
    assert_int_equal(form(GROUPS_V2 "," GROUPS_V2BETA ",application/json", JSON | DISCOVERY), KUBE_FORM_DISCOVERY);
    assert_int_equal(form(GROUPS_V2BETA "," GROUPS_V2 ",application/json", JSON | DISCOVERY), KUBE_FORM_DISCOVERY);
    assert_int_equal(form(GROUPS_V2BETA ",application/json", JSON | DISCOVERY), KUBE_FORM_JSON);
    assert_int_equal(form(GROUPS_V2 ",application/json", JSON), KUBE_FORM_JSON);
}

static void metadata_alone_may_be_asked_for(void **state)
{
    (void)state;
    assert_int_equal(form("application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1," METADATA_V1
                          ",application/json",
                          OBJECTS),
                     KUBE_FORM_METADATA);
    assert_int_equal(form("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", OBJECTS),
                     KUBE_FORM_METADATA_LIST);
    assert_int_equal(form("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", JSON | METADATA),
                     KUBE_FORM_METADATA);
}

static void other_media_types_are_skipped(void **state)
{
    (void)state;
    assert_int_equal(form("application/vnd.kubernetes.protobuf,application/json", OBJECTS), KUBE_FORM_JSON);
    assert_int_equal(form("application/vnd.kubernetes.protobuf", OBJECTS), KUBE_FORM_NONE);
    assert_int_equal(form("application/yaml, text/html", OBJECTS), KUBE_FORM_NONE);
    assert_int_equal(form("application/jsonx, application/jso", OBJECTS), KUBE_FORM_NONE);
}

static void wildcards_cover_json(void **state)
{
    (void)state;
    assert_int_equal(form("*/*", OBJECTS), KUBE_FORM_JSON);
    assert_int_equal(form("application/*", OBJECTS), KUBE_FORM_JSON);
    assert_int_equal(form("text/*", OBJECTS), KUBE_FORM_NONE);
    assert_int_equal(form("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", OBJECTS), KUBE_FORM_JSON);
}

static void a_clause_that_asks_for_an_unknown_kind_is_skipped(void **state)
{
    (void)state;
    assert_int_equal(form("application/json;as=Chart;v=v1;g=meta.k8s.io", OBJECTS), KUBE_FORM_NONE);
    assert_int_equal(form("application/json;as=Table;v=v2;g=meta.k8s.io", OBJECTS), KUBE_FORM_NONE);
    assert_int_equal(form("application/json;as=Table;v=v1;g=example.com", OBJECTS), KUBE_FORM_NONE);
    assert_int_equal(form("application/json;as=Table", OBJECTS), KUBE_FORM_NONE);
    assert_int_equal(form("application/json;v=v1", OBJECTS), KUBE_FORM_NONE);
    assert_int_equal(form("application/json;as=table;v=v1;g=meta.k8s.io", OBJECTS), KUBE_FORM_NONE);
}

static void parameters_that_change_nothing_do_not_count(void **state)
{
    (void)state;
    assert_int_equal(form("application/json;charset=utf-8;pretty=1;stream=watch", OBJECTS), KUBE_FORM_JSON);
    assert_int_equal(form("Application/JSON ; Charset=\"utf-8\"", OBJECTS), KUBE_FORM_JSON);
    assert_int_equal(form("application/json;;", OBJECTS), KUBE_FORM_JSON);
    assert_int_equal(form("application/json ; as=\"Table\" ; v = v1 ; G=meta.k8s.io", OBJECTS), KUBE_FORM_TABLE);
    assert_int_equal(form("text/html;x=\"a,application/json\"", OBJECTS), KUBE_FORM_NONE);
    assert_int_equal(form("text/html;x=\"a\\\",application/json\"", OBJECTS), KUBE_FORM_NONE);
}

static void the_highest_q_wins_and_zero_is_refused(void **state)
{
    (void)state;
    assert_int_equal(form("application/json;q=0.5," TABLE_V1 ";q=0.9", OBJECTS), KUBE_FORM_TABLE);
    assert_int_equal(form("application/json;q=0.9," TABLE_V1 ";q=0.9", OBJECTS), KUBE_FORM_JSON);
    assert_int_equal(form("application/json;q=0.001," TABLE_V1 ";q=0", OBJECTS), KUBE_FORM_JSON);
    assert_int_equal(form("application/json;q=0", OBJECTS), KUBE_FORM_NONE);
    assert_int_equal(form("application/json;q=0.000", OBJECTS), KUBE_FORM_NONE);
    assert_int_equal(form("application/json;q=zero", OBJECTS), KUBE_FORM_JSON);
    assert_int_equal(form("application/json;q=0.99," TABLE_V1 ";q=1.0", OBJECTS), KUBE_FORM_TABLE);
}

static void gzip_is_allowed_when_it_is_named_or_any_coding_is(void **state)
{
    (void)state;
    static const char *const yes[] = {"gzip", "GZIP", "x-gzip", "deflate, gzip;q=0.5", "*", "br;q=1.0, *;q=0.1"};
    static const char *const no[] = {"", "identity", "gzip;q=0", "gzip;q=0.0, *", "*;q=0", "gzipped", "deflate, br"};
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
        assert_true(kube_accepts_gzip(belfry_bytes_str(yes[i])));
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
        assert_false(kube_accepts_gzip(belfry_bytes_str(no[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_header_is_json),
        cmocka_unit_test(what_kubectl_sends_is_a_table_where_there_is_one),
        cmocka_unit_test(discovery_is_aggregated_only_in_the_version_that_we_have),
        cmocka_unit_test(metadata_alone_may_be_asked_for),
        cmocka_unit_test(other_media_types_are_skipped),
        cmocka_unit_test(wildcards_cover_json),
        cmocka_unit_test(a_clause_that_asks_for_an_unknown_kind_is_skipped),
        cmocka_unit_test(parameters_that_change_nothing_do_not_count),
        cmocka_unit_test(the_highest_q_wins_and_zero_is_refused),
        cmocka_unit_test(gzip_is_allowed_when_it_is_named_or_any_coding_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
