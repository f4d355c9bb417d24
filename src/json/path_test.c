/* src/json/path_test.c */
#include "json/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/refuse.h"

static const char document[] = "{\"spec\":{\"nodeName\":\"n7\",\"count\":3,\"ready\":true,\"nothing\":null},"
                               "\"metadata\":{\"labels\":{\"a.b/c\":\"x\",\"it's\":\"y\"}},"
                               "\"list\":[10,20,30,40],"
                               "\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"n\":1},"
                               "{\"type\":\"Idle\",\"status\":\"False\",\"n\":2.5},{\"status\":\"Lost\",\"n\":2}]}}";

static struct belfry_kube_path *path_of(const char *text)
{
    struct belfry_kube_path *path = NULL;
    if (belfry_kube_path_read(belfry_bytes_str(text), &path) != BELFRY_OK)
        fail_msg("not read: %s", text);
    return path;
}

struct visit {
    const struct belfry_kube_path *path;
    yyjson_val *root;
    size_t n;
};

static void visit_next(yyjson_val *value, void *user)
{
    struct visit *visit = user;
    assert_ptr_equal(value, belfry_kube_path_get(visit->path, visit->root, visit->n));
    visit->n++;
}

/* Everything that `text` leads to, as JSON with a space between, is `expected`. */
static void leads_with(const char *text, const char *expected, yyjson_read_flag flags)
{
    char found[512] = "";
    yyjson_doc *doc = yyjson_read(document, strlen(document), flags);
    struct belfry_kube_path *path = path_of(text);
    yyjson_val *value;
    for (size_t i = 0; (value = belfry_kube_path_get(path, yyjson_doc_get_root(doc), i)) != NULL; i++) {
        char room[4096];
        yyjson_alc pool;
        assert_true(yyjson_alc_pool_init(&pool, room, sizeof(room)));
        const char *json = yyjson_val_write_opts(value, YYJSON_WRITE_NOFLAG, &pool, NULL, NULL);
        assert_non_null(json);
        assert_true(strlen(found) + strlen(json) + 2 < sizeof(found));
        strcat(strcat(found, i > 0 ? " " : ""), json);
    }
    struct visit visit = {path, yyjson_doc_get_root(doc), 0};
    belfry_kube_path_each(path, visit.root, visit_next, &visit);
    assert_null(belfry_kube_path_get(path, visit.root, visit.n)); /* all of them, in the same order */
    if (strcmp(found, expected) != 0)
        fail_msg("%s leads to %s, not to %s", text, found, expected);
    belfry_kube_path_free(path);
    yyjson_doc_free(doc);
}

static void leads(const char *text, const char *expected)
{
    leads_with(text, expected, YYJSON_READ_NOFLAG);
    leads_with(text, expected, YYJSON_READ_NUMBER_AS_RAW);
}

static void fields_lead_to_one_value(void **state)
{
    (void)state;
    leads(".spec.nodeName", "\"n7\"");
    leads(".spec.count", "3");
    leads("['spec']['nodeName']", "\"n7\"");
    leads(".metadata.labels['a.b/c']", "\"x\"");
    leads(".metadata.labels[\"a.b/c\"]", "\"x\"");
    leads(".metadata.labels.a\\.b/c", "\"x\"");
    leads(".metadata.labels['it\\'s']", "\"y\"");
    leads(".spec.nothing", "null");
}

static void what_is_not_there_leads_nowhere(void **state)
{
    (void)state;
    leads(".spec.other", "");
    leads(".spec.nodeName.deeper", "");
    leads(".spec[0]", "");
    leads(".list.x", "");
    leads(".list[4]", "");
    leads(".list[-5]", "");
    leads(".spec.count[*]", "");
}

static void a_dot_is_all_of_it(void **state)
{
    (void)state;
    leads(".", document);
}

static void elements_are_counted_from_both_ends(void **state)
{
    (void)state;
    leads(".list[0]", "10");
    leads(".list[3]", "40");
    leads(".list[-1]", "40");
    leads(".list[-2]", "30");
    leads(".list[-4]", "10");
    leads(".list[1:3]", "20 30");
    leads(".list[:2]", "10 20");
    leads(".list[-1:]", "40");
    leads(".list[-9:]", "10 20 30 40");
    leads(".list[:]", "10 20 30 40");
    leads(".list[3:1]", "");
    leads(".status.conditions[1].n", "2.5");
}

static void a_star_is_every_element_or_member(void **state)
{
    (void)state;
    leads(".list[*]", "10 20 30 40");
    leads(".spec.*", "\"n7\" 3 true null");
    leads(".status.conditions[*].type", "\"Ready\" \"Idle\"");
}

static void filters_choose_elements(void **state)
{
    (void)state;
    leads(".status.conditions[?(@.type==\"Ready\")].status", "\"True\"");
    leads(".status.conditions[?(@.type=='Idle')].status", "\"False\"");
    leads(".status.conditions[?( @['type'] == 'Idle' )].status", "\"False\"");
    leads(".status.conditions[?(@.type!='Idle')].status", "\"True\"");
    leads(".status.conditions[?(@.type)].n", "1 2.5");
    leads(".status.conditions[?(@.n==2.5)].type", "\"Idle\"");
    leads(".status.conditions[?(@.n==2)].status", "\"Lost\"");
    leads(".list[?(@==20)]", "20");
    leads(".spec[?(@==true)]", "true");
    leads(".spec[?(@==null)]", "null");
    leads(".spec[?(@==false)]", "");
    leads(".status.conditions[?(@.type=='Nobody')].status", "");
}

static void only_fields_are_simple(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool simple;
    } cases[] = {
        {".spec.nodeName", true}, {"['spec'].x", true}, {".a\\.b", true},         {".", false},
        {".a[0]", false},         {".a[*]", false},     {".a[?(@.b==1)]", false}, {".a.*", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct belfry_kube_path *path = path_of(cases[i].text);
        assert_int_equal(belfry_kube_path_is_simple(path), cases[i].simple);
        belfry_kube_path_free(path);
    }
}

static void what_is_no_path_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "spec",
        "spec.x",
        "..a",
        ".a..b",
        ".a.",
        ".a[",
        ".a[]",
        ".a[0",
        ".a['x",
        ".a['x'",
        ".a[1:2:3]",
        ".a[x]",
        ".a['x','y']",
        ".a[?(@.b<1)]",
        ".a b",
        "{.a}",
        ".a{",
        ".a\\",
        ".a[?(@.b=1)]",
        ".a[?(@.b==)]",
        ".a[?(@.b==1]",
        ".a[?(b==1)]",
        ".a,b",
        "$.a",
        ".a@",
        ".a[?(@.b==x)]",
        ".a[?(@..b)]",
        ".a[-]",
        ".a[1234567890]",
        ".a[?(@.a==1&&@.b==2)]",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct belfry_kube_path *path = NULL;
        if (belfry_kube_path_read(belfry_bytes_str(texts[i]), &path) != BELFRY_ERR_INVALID)
            fail_msg("read: %s", texts[i]);
        assert_null(path);
    }
}

static void a_path_has_a_longest_and_a_deepest(void **state)
{
    (void)state;
    struct belfry_kube_path *path = NULL;
    char text[KUBE_PATH_MAX + 1], deep[2 * KUBE_STEPS_MAX + 2];
    memset(text, 'x', sizeof(text));
    text[0] = '.';
    assert_int_equal(belfry_kube_path_read(belfry_bytes_of(text, KUBE_PATH_MAX), &path), BELFRY_OK);
    belfry_kube_path_free(path);
    assert_int_equal(belfry_kube_path_read(belfry_bytes_of(text, KUBE_PATH_MAX + 1), &path), BELFRY_ERR_INVALID);
    for (size_t i = 0; i < sizeof(deep); i++)
        deep[i] = i % 2 == 0 ? '.' : 'x';
    assert_int_equal(belfry_kube_path_read(belfry_bytes_of(deep, 2 * KUBE_STEPS_MAX), &path), BELFRY_OK);
    belfry_kube_path_free(path);
    assert_int_equal(belfry_kube_path_read(belfry_bytes_of(deep, sizeof(deep)), &path), BELFRY_ERR_INVALID);
}

static enum belfry_err read_one(void)
{
    struct belfry_kube_path *path = NULL;
    enum belfry_err err = belfry_kube_path_read(belfry_bytes_str(".a[?(@.b=='c')].d"), &path);
    belfry_kube_path_free(path);
    return err;
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(read_one), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_lead_to_one_value),
        cmocka_unit_test(what_is_not_there_leads_nowhere),
        cmocka_unit_test(a_dot_is_all_of_it),
        cmocka_unit_test(elements_are_counted_from_both_ends),
        cmocka_unit_test(a_star_is_every_element_or_member),
        cmocka_unit_test(filters_choose_elements),
        cmocka_unit_test(only_fields_are_simple),
        cmocka_unit_test(what_is_no_path_is_refused),
        cmocka_unit_test(a_path_has_a_longest_and_a_deepest),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
