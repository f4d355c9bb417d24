/* src/kapi/facts_test.c */
#include "kapi/facts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buf.h"
#include "support/refuse.h"

#define POD                                                                                                            \
    "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"web-0\",\"namespace\":\"default\",\"uid\":"      \
    "\"6a1e\",\"resourceVersion\":\"10245\",\"labels\":{\"name\":\"x\"}},\"spec\":{\"name\":\"y\",\"kind\":\"Z\"}}"

static void assert_bytes(struct belfry_bytes bytes, const char *text)
{
    assert_true(belfry_bytes_equal(bytes, belfry_bytes_str(text)));
}

static void assert_object_refused(const char *json, const char *expected_why)
{
    struct belfry_kube_facts facts;
    const char *why = NULL;
    assert_int_equal(belfry_kube_facts_read(belfry_bytes_str(json), &facts, &why), BELFRY_ERR_PROTOCOL);
    assert_string_equal(why, expected_why);
}

static struct belfry_kube_facts facts_of(const char *json)
{
    struct belfry_kube_facts facts;
    const char *why;
    assert_int_equal(belfry_kube_facts_read(belfry_bytes_str(json), &facts, &why), BELFRY_OK);
    return facts;
}

/* ---- objects ---- */

static void an_object_says_who_it_is(void **state)
{
    (void)state;
    static const char pod[] = POD;
    struct belfry_kube_facts facts = facts_of(pod);
    assert_bytes(facts.kind, "Pod");
    assert_bytes(facts.api_version, "v1");
    assert_bytes(facts.ns, "default");
    assert_bytes(facts.name, "web-0");
    assert_bytes(facts.uid, "6a1e");
    assert_bytes(facts.version, "10245");
    assert_false(facts.initial_end);
    assert_ptr_equal(facts.version.data, strstr(pod, "10245")); /* a run of the text */
}

static void what_is_not_there_is_empty(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"metadata\":{}}",
        " { \"metadata\" : { } } ",
        ("{\"kind\":null,\"apiVersion\":null,\"metadata\":{\"name\":null,\"namespace\":null,\"uid\":null,"
         "\"resourceVersion\":null,\"annotations\":null}}"),
        "{\"kind\":\"\",\"metadata\":{\"name\":\"\",\"resourceVersion\":\"\"}}",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct belfry_kube_facts facts = facts_of(texts[i]);
        assert_int_equal(facts.kind.len + facts.api_version.len + facts.ns.len + facts.name.len + facts.uid.len +
                             facts.version.len,
                         0);
        assert_false(facts.initial_end);
    }
}

static void names_of_members_are_known_behind_their_escapes(void **state)
{
    (void)state;
    struct belfry_kube_facts facts =
        facts_of("{\"\\u006bind\":\"A\",\"api\\u0056ersion\":\"v1\",\"meta\\u0064ata\":{\"n\\u0061me\":\"n\","
                 "\"annotations\":{\"k8s.io\\/initial-events-end\":\"tr\\u0075e\"}}}");
    assert_bytes(facts.kind, "A");
    assert_bytes(facts.api_version, "v1");
    assert_bytes(facts.name, "n");
    assert_true(facts.initial_end);
}

static void of_members_that_stand_there_twice_the_last_counts(void **state)
{
    (void)state;
    struct belfry_kube_facts facts =
        facts_of("{\"kind\":\"A\",\"metadata\":{\"name\":\"a\",\"uid\":\"1\"},\"\\u006bind\":\"B\","
                 "\"metadata\":{\"name\":\"b\",\"name\":\"c\"}}");
    assert_bytes(facts.kind, "B");
    assert_bytes(facts.name, "c");
    assert_int_equal(facts.uid.len, 0);
    assert_object_refused("{\"metadata\":{\"name\":\"a\"},\"metadata\":null}", "an object without metadata");
}

static void a_name_may_have_escapes_and_nothing_else(void **state)
{
    (void)state;
    assert_bytes(facts_of("{\"metadata\":{\"name\":\"a\\u0026b\"}}").name, "a\\u0026b");
    assert_object_refused("{\"metadata\":{\"namespace\":\"a\\u0026b\"}}",
                          "a metadata.namespace that is not plain text");
    assert_object_refused("{\"metadata\":{\"uid\":\"\\n\"}}", "a metadata.uid that is not plain text");
    assert_object_refused("{\"metadata\":{\"resourceVersion\":\"\\u0031\"}}",
                          "a resourceVersion that is not plain text");
    assert_object_refused("{\"kind\":\"\\u0050od\",\"metadata\":{}}", "a kind that is not plain text");
    assert_object_refused("{\"apiVersion\":\"apps\\/v1\",\"metadata\":{}}", "an apiVersion that is not plain text");
}

static void what_is_no_object_is_refused_with_a_reason(void **state)
{
    (void)state;
    assert_object_refused("", "not JSON");
    assert_object_refused("{", "not JSON");
    assert_object_refused("{\"metadata\":{}}}", "not JSON");
    assert_object_refused("{\"metadata\":{\"name\":\"\xff\"}}", "not JSON");
    assert_object_refused("{\"metadata\":{\"name\":\"a\nb\"}}", "not JSON");
    assert_object_refused("[]", "no object");
    assert_object_refused("null", "no object");
    assert_object_refused("{}", "an object without metadata");
    assert_object_refused("{\"metadata\":[]}", "an object without metadata");
    assert_object_refused("{\"metadata\":{\"name\":7}}", "a metadata.name that is not text");
    assert_object_refused("{\"metadata\":{\"resourceVersion\":7}}", "a resourceVersion that is not plain text");
    assert_object_refused("{\"kind\":{},\"metadata\":{}}", "a kind that is not plain text");
}

static void a_version_has_a_longest(void **state)
{
    (void)state;
    char json[256];
    snprintf(json, sizeof(json), "{\"metadata\":{\"resourceVersion\":\"%0*d\"}}", BELFRY_KUBE_VERSION_MAX, 1);
    assert_int_equal(facts_of(json).version.len, BELFRY_KUBE_VERSION_MAX);
    snprintf(json, sizeof(json), "{\"metadata\":{\"resourceVersion\":\"%0*d\"}}", BELFRY_KUBE_VERSION_MAX + 1, 1);
    assert_object_refused(json, "a resourceVersion that is too long");
    char uid[1200];
    snprintf(uid, sizeof(uid), "{\"metadata\":{\"uid\":\"%0*d\"}}", 1025, 1);
    assert_object_refused(uid, "a metadata.uid that is too long");
}

static void only_the_text_true_ends_the_initial_state(void **state)
{
    (void)state;
    static const struct {
        const char *annotations;
        bool ends;
    } cases[] = {
        {"{\"k8s.io/initial-events-end\":\"true\"}", true},
        {"{\"a\":\"b\",\"k8s.io/initial-events-end\":\"true\",\"c\":\"d\"}", true},
        {"{\"k8s.io/initial-events-end\":\"false\"}", false},
        {"{\"k8s.io/initial-events-end\":true}", false},
        {"{\"k8s.io/initial-events-end\":\"true\",\"k8s.io/initial-events-end\":\"\"}", false},
        {"{}", false},
        {"[\"k8s.io/initial-events-end\",\"true\"]", false},
        {"\"true\"", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char json[256];
        snprintf(json, sizeof(json), "{\"metadata\":{\"annotations\":%s}}", cases[i].annotations);
        assert_int_equal(facts_of(json).initial_end, cases[i].ends);
    }
}

/* ---- events ---- */

static void an_event_has_its_object_byte_for_byte(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum belfry_kube_type type;
    } types[] = {{"ADDED", BELFRY_TYPE_ADDED},
                 {"MODIFIED", BELFRY_TYPE_MODIFIED},
                 {"DELETED", BELFRY_TYPE_DELETED},
                 {"BOOKMARK", BELFRY_TYPE_BOOKMARK}};
    for (size_t i = 0; i < 4 * 3; i++) {
        char json[512];
        struct belfry_kube_read read;
        const char *why;
        if (i / 4 == 0)
            snprintf(json, sizeof(json), "{\"type\":\"%s\",\"object\":%s}", types[i % 4].name, POD);
        else if (i / 4 == 1)
            snprintf(json, sizeof(json), " { \"object\" : %s , \"type\" : \"%s\" }\n", POD, types[i % 4].name);
        else
            snprintf(json, sizeof(json), "{\"object\":7,\"x\":[{\"object\":{}}],\"type\":\"%s\",\"\\u006fbject\":%s}",
                     types[i % 4].name, POD);
        assert_int_equal(belfry_kube_event_read(belfry_bytes_str(json), &read, &why), BELFRY_OK);
        assert_int_equal(read.type, types[i % 4].type);
        assert_bytes(read.object, POD);
        assert_bytes(read.facts.name, "web-0");
        assert_true(read.facts.name.data > json && read.facts.name.data < json + sizeof(json));
    }
}

static void an_error_needs_no_metadata(void **state)
{
    (void)state;
    static const char status[] = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"code\":410}";
    char json[128];
    struct belfry_kube_read read;
    const char *why;
    snprintf(json, sizeof(json), "{\"type\":\"ERROR\",\"object\":%s}", status);
    assert_int_equal(belfry_kube_event_read(belfry_bytes_str(json), &read, &why), BELFRY_OK);
    assert_int_equal(read.type, BELFRY_TYPE_ERROR);
    assert_bytes(read.object, status);
    assert_bytes(read.facts.kind, "Status");
}

static void what_is_no_event_is_refused_with_a_reason(void **state)
{
    (void)state;
    static const struct {
        const char *json, *why;
    } cases[] = {
        {"{\"type\":\"ADDED\"", "not JSON"},
        {"[]", "no event"},
        {"{}", "an event without a type"},
        {"{\"type\":7,\"object\":{}}", "an event without a type"},
        {"{\"type\":\"added\",\"object\":{}}", "an event of an unknown type"},
        {"{\"type\":\"\",\"object\":{}}", "an event of an unknown type"},
        {"{\"type\":\"ADDED\"}", "an event without an object"},
        {"{\"type\":\"ADDED\",\"object\":null}", "an event without an object"},
        {"{\"type\":\"ADDED\",\"object\":[]}", "an event without an object"},
        {"{\"type\":\"ADDED\",\"object\":{}}", "an object without metadata"},
        {"{\"type\":\"ADDED\",\"object\":{\"metadata\":{}}}", "an object without a kind"},
        {"{\"type\":\"ADDED\",\"object\":{\"kind\":\"A\",\"metadata\":{}}}", "an object without an apiVersion"},
        {"{\"type\":\"ERROR\",\"object\":{}}", "an object without a kind"},
        {"{\"type\":\"ADDED\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\"}}", "an object without metadata"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct belfry_kube_read read;
        const char *why;
        assert_int_equal(belfry_kube_event_read(belfry_bytes_str(cases[i].json), &read, &why), BELFRY_ERR_PROTOCOL);
        assert_string_equal(why, cases[i].why);
    }
}

/* ---- lists ---- */

static void an_envelope_says_where_the_list_is_and_how_it_goes_on(void **state)
{
    (void)state;
    static const struct {
        const char *json, *version, *continue_with;
    } cases[] = {
        {"{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"12\"},\"items\":[]}", "12", NULL},
        {"{\"metadata\":{\"resourceVersion\":\"12\",\"continue\":\"\"},\"items\":null}", "12", NULL},
        {"{\"metadata\":{\"resourceVersion\":\"12\",\"continue\":null},\"items\":[]}", "12", NULL},
        {"{\"items\":[],\"metadata\":{\"continue\":\"abc=\",\"remainingItemCount\":7,\"resourceVersion\":\"9\"}}", "9",
         "abc="},
        {"{\"items\":[],\"metadata\":{\"continue\":\"a\\u0026b\"}}", "", "a&b"},
        {"{\"\\u0069tems\":[],\"metadata\":{}}", "", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct belfry_kube_page page;
        const char *why;
        assert_int_equal(belfry_kube_page_read(belfry_bytes_str(cases[i].json), &page, &why), BELFRY_OK);
        assert_string_equal(page.version, cases[i].version);
        if (cases[i].continue_with == NULL)
            assert_null(page.continue_with);
        else
            assert_string_equal(page.continue_with, cases[i].continue_with);
        belfry_kube_page_fini(&page);
    }
}

static void assert_page_refused(const char *json, const char *expected_why)
{
    struct belfry_kube_page page;
    const char *why = NULL;
    assert_int_equal(belfry_kube_page_read(belfry_bytes_str(json), &page, &why), BELFRY_ERR_PROTOCOL);
    assert_string_equal(why, expected_why);
}

static void what_is_no_list_is_refused_with_a_reason(void **state)
{
    (void)state;
    assert_page_refused("{\"items\":[]", "not JSON");
    assert_page_refused("[]", "no object, and no list");
    assert_page_refused("{\"kind\":\"Status\",\"metadata\":{}}", "an object without items, which is not a list");
    assert_page_refused("{\"items\":{},\"metadata\":{}}", "a list whose items are not an array");
    assert_page_refused("{\"items\":[],\"items\":null,\"metadata\":{}}", "a list with items twice");
    assert_page_refused("{\"items\":[],\"\\u0069tems\":[],\"metadata\":{}}", "a list with items twice");
    assert_page_refused("{\"items\":[]}", "a list without metadata");
    assert_page_refused("{\"items\":[],\"metadata\":[]}", "a list without metadata");
    assert_page_refused("{\"items\":[],\"metadata\":{\"resourceVersion\":12}}",
                        "a resourceVersion that is not plain text");
    assert_page_refused("{\"items\":[],\"metadata\":{\"continue\":12}}", "a continue that is not text");
    assert_page_refused("{\"items\":[],\"metadata\":{\"continue\":\"a\\u0000b\"}}",
                        "a continue that cannot be sent back");
}

static void texts_of_a_page_have_a_longest(void **state)
{
    (void)state;
    static char json[BELFRY_KUBE_CONTINUE_MAX + 256];
    struct belfry_kube_page page;
    const char *why;
    snprintf(json, sizeof(json), "{\"items\":[],\"metadata\":{\"continue\":\"%0*d\",\"resourceVersion\":\"%0*d\"}}",
             BELFRY_KUBE_CONTINUE_MAX, 1, BELFRY_KUBE_VERSION_MAX, 1);
    assert_int_equal(belfry_kube_page_read(belfry_bytes_str(json), &page, &why), BELFRY_OK);
    assert_int_equal(strlen(page.continue_with), BELFRY_KUBE_CONTINUE_MAX);
    assert_int_equal(strlen(page.version), BELFRY_KUBE_VERSION_MAX);
    belfry_kube_page_fini(&page);
    snprintf(json, sizeof(json), "{\"items\":[],\"metadata\":{\"continue\":\"%0*d\"}}", BELFRY_KUBE_CONTINUE_MAX + 1,
             1);
    assert_page_refused(json, "a continue that is too long");
    snprintf(json, sizeof(json), "{\"items\":[],\"metadata\":{\"resourceVersion\":\"%0*d\"}}",
             BELFRY_KUBE_VERSION_MAX + 1, 1);
    assert_page_refused(json, "a resourceVersion that is too long");
}

static void the_kind_of_a_list_tells_that_of_its_items(void **state)
{
    (void)state;
    static const struct {
        const char *passed, *members;
    } cases[] = {
        {"{\"kind\":\"PodList\",\"apiVersion\":\"v1\"", "\"kind\":\"Pod\",\"apiVersion\":\"v1\","},
        {"{\"apiVersion\":\"apps/v1\",\"metadata\":{\"a\":[]},\"\\u006bind\":\"AList\" ",
         "\"kind\":\"A\",\"apiVersion\":\"apps/v1\","},
        {"{\"kind\":\"BList\",\"kind\":\"CListList\",\"apiVersion\":\"v1\"",
         "\"kind\":\"CList\",\"apiVersion\":\"v1\","},
        {"{", ""},
        {"", ""},
        {"{\"kind\":\"PodList\"", ""},
        {"{\"apiVersion\":\"v1\"", ""},
        {"{\"kind\":\"PodList\",\"apiVersion\":\"\"", ""},
        {"{\"kind\":\"List\",\"apiVersion\":\"v1\"", ""},
        {"{\"kind\":\"Pods\",\"apiVersion\":\"v1\"", ""},
        {"{\"kind\":7,\"apiVersion\":\"v1\"", ""},
        {"{\"kind\":\"P\\u006fdList\",\"apiVersion\":\"v1\"", ""},
        {"{\"kind\":\"PodList\",\"apiVersion\":\"v1\",", ""},
        {"{\"kind\":\"PodList\",\"apiVersion\":\"v1\"]", ""},
        {" {\"kind\":\"PodList\",\"apiVersion\":\"v1\"", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct belfry_buf out;
        belfry_buf_init(&out);
        assert_int_equal(belfry_kube_item_kind(belfry_bytes_str(cases[i].passed), &out), BELFRY_OK);
        assert_bytes(belfry_buf_bytes(&out), cases[i].members);
        belfry_buf_fini(&out);
    }
}

static void a_kind_that_would_swell_every_item_is_left_out(void **state)
{
    (void)state;
    char passed[1200];
    for (int len = 512; len <= 513; len++) {
        struct belfry_buf out;
        belfry_buf_init(&out);
        snprintf(passed, sizeof(passed), "{\"kind\":\"%0*dList\",\"apiVersion\":\"%0512d\"", len - 4, 1, 1);
        assert_int_equal(belfry_kube_item_kind(belfry_bytes_str(passed), &out), BELFRY_OK);
        assert_int_equal(belfry_buf_len(&out),
                         len == 512 ? 508 + 512 + strlen("\"kind\":\"\",\"apiVersion\":\"\",") : 0);
        belfry_buf_fini(&out);
    }
}

/* ---- bounds ---- */

static void depth_neither_overflows_nor_slows(void **state)
{
    (void)state;
    const size_t depth = 1000000;
    static const char head[] = "{\"spec\":", tail[] = ",\"metadata\":{\"name\":\"deep\"}}";
    char *json = malloc(2 * depth + sizeof(head) + sizeof(tail));
    assert_non_null(json);
    size_t len = strlen(head);
    memcpy(json, head, len);
    memset(json + len, '[', depth);
    memset(json + len + depth, ']', depth);
    memcpy(json + len + 2 * depth, tail, sizeof(tail));
    assert_bytes(facts_of(json).name, "deep");
    json[len + depth] = '}';
    assert_object_refused(json, "not JSON");
    free(json);
}

static enum belfry_err read_all(void)
{
    static const char event[] = "{\"type\":\"ADDED\",\"object\":" POD "}";
    struct belfry_kube_facts facts;
    struct belfry_kube_read read;
    struct belfry_kube_page page = {0};
    struct belfry_buf out;
    const char *why;
    belfry_buf_init(&out);
    enum belfry_err err = belfry_kube_facts_read(belfry_bytes_str(POD), &facts, &why);
    if (err == BELFRY_OK)
        err = belfry_kube_event_read(belfry_bytes_str(event), &read, &why);
    if (err == BELFRY_OK)
        err = belfry_kube_page_read(belfry_bytes_str("{\"items\":[],\"metadata\":{\"continue\":\"a\"}}"), &page, &why);
    if (err == BELFRY_OK)
        err = belfry_kube_item_kind(belfry_bytes_str("{\"kind\":\"PodList\",\"apiVersion\":\"v1\""), &out);
    belfry_kube_page_fini(&page);
    belfry_buf_fini(&out);
    return err;
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    assert_true(refuse_sweep(read_all) >= 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_says_who_it_is),
        cmocka_unit_test(what_is_not_there_is_empty),
        cmocka_unit_test(names_of_members_are_known_behind_their_escapes),
        cmocka_unit_test(of_members_that_stand_there_twice_the_last_counts),
        cmocka_unit_test(a_name_may_have_escapes_and_nothing_else),
        cmocka_unit_test(what_is_no_object_is_refused_with_a_reason),
        cmocka_unit_test(a_version_has_a_longest),
        cmocka_unit_test(only_the_text_true_ends_the_initial_state),
        cmocka_unit_test(an_event_has_its_object_byte_for_byte),
        cmocka_unit_test(an_error_needs_no_metadata),
        cmocka_unit_test(what_is_no_event_is_refused_with_a_reason),
        cmocka_unit_test(an_envelope_says_where_the_list_is_and_how_it_goes_on),
        cmocka_unit_test(what_is_no_list_is_refused_with_a_reason),
        cmocka_unit_test(texts_of_a_page_have_a_longest),
        cmocka_unit_test(the_kind_of_a_list_tells_that_of_its_items),
        cmocka_unit_test(a_kind_that_would_swell_every_item_is_left_out),
        cmocka_unit_test(depth_neither_overflows_nor_slows),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
