/* src/kfollow/resource_find_test.c */
#include "kfollow/resource_find.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"

static const char core[] =
    "{\"kind\":\"APIResourceList\",\"groupVersion\":\"v1\",\"resources\":["
    "{\"name\":\"pods/status\",\"singularName\":\"\",\"namespaced\":true,\"kind\":\"Pod\",\"verbs\":[\"get\"]},"
    "{\"name\":\"pods\",\"singularName\":\"pod\",\"namespaced\":true,\"kind\":\"Pod\",\"verbs\":[\"list\",\"watch\"]},"
    "{\"name\":\"bindings\",\"namespaced\":true,\"kind\":\"Binding\",\"verbs\":[\"create\"]},"
    "{\"name\":\"nodes\",\"singularName\":\"\",\"namespaced\":false,\"kind\":\"Node\","
    "\"verbs\":[\"watch\",\"get\",\"list\"]}]}";
static const char group[] = "{\"kind\":\"APIGroup\",\"name\":\"demo.example.com\",\"versions\":["
                            "{\"groupVersion\":\"demo.example.com/v2\",\"version\":\"v2\"},"
                            "{\"groupVersion\":\"demo.example.com/v1\",\"version\":\"v1\"}],"
                            "\"preferredVersion\":{\"groupVersion\":\"demo.example.com/v1\",\"version\":\"v1\"}}";
static const char widgets[] =
    "{\"resources\":[{\"name\":\"widgets\",\"singularName\":\"widget\",\"namespaced\":true,\"kind\":\"Widget\","
    "\"verbs\":[\"delete\",\"list\",\"watch\"]}]}";

static struct resource_find begin(const char *text)
{
    struct resource_find find;
    struct resource_name name;
    assert_true(resource_name_read(text, &name));
    resource_find_init(&find, &name);
    assert_int_equal(find.state, RESOURCE_FIND_ASKING);
    return find;
}

static enum resource_find_state answer(struct resource_find *find, const char *path, int status, const char *body)
{
    assert_string_equal(resource_find_path(find), path);
    return resource_find_take(find, status, belfry_bytes_str(body));
}

static void a_resource_of_the_core_group_is_found(void **state)
{
    struct resource_find find = begin("pods");
    (void)state;
    assert_int_equal(answer(&find, "/api/v1", 200, core), RESOURCE_FIND_FOUND);
    assert_string_equal(find.facts.group_version, "v1");
    assert_string_equal(find.facts.kind, "Pod");
    assert_string_equal(find.facts.singular, "pod");
    assert_true(find.facts.is_namespaced);

    find = begin("nodes");
    assert_int_equal(answer(&find, "/api/v1", 200, core), RESOURCE_FIND_FOUND);
    assert_string_equal(find.facts.singular, "");
    assert_false(find.facts.is_namespaced);
}

static void the_preferred_version_is_asked_first(void **state)
{
    struct resource_find find = begin("widgets.demo.example.com");
    (void)state;
    assert_int_equal(answer(&find, "/apis/demo.example.com", 200, group), RESOURCE_FIND_ASKING);
    assert_int_equal(answer(&find, "/apis/demo.example.com/v1", 200, "{\"resources\":[]}"), RESOURCE_FIND_ASKING);
    assert_int_equal(answer(&find, "/apis/demo.example.com/v2", 200, widgets), RESOURCE_FIND_FOUND);
    assert_string_equal(find.facts.group_version, "demo.example.com/v2");
    assert_string_equal(find.facts.version, "v2");
}

static void a_version_that_was_asked_for_is_the_only_one(void **state)
{
    struct resource_find find = begin("widgets.v2.demo.example.com");
    (void)state;
    assert_int_equal(answer(&find, "/apis/demo.example.com/v2", 404, ""), RESOURCE_FIND_ABSENT);
    find = begin("widgets.v2.demo.example.com");
    assert_int_equal(answer(&find, "/apis/demo.example.com/v2", 200, widgets), RESOURCE_FIND_FOUND);
}

static void a_resource_that_is_nowhere_is_absent(void **state)
{
    struct resource_find find = begin("gadgets.demo.example.com");
    (void)state;
    assert_int_equal(answer(&find, "/apis/demo.example.com", 200, group), RESOURCE_FIND_ASKING);
    assert_int_equal(answer(&find, "/apis/demo.example.com/v1", 200, widgets), RESOURCE_FIND_ASKING);
    assert_int_equal(answer(&find, "/apis/demo.example.com/v2", 404, ""), RESOURCE_FIND_ABSENT);
    find = begin("widgets.demo.example.com");
    assert_int_equal(answer(&find, "/apis/demo.example.com", 404, ""), RESOURCE_FIND_ABSENT);
}

static void what_cannot_be_used_is_a_failure(void **state)
{
    static const struct {
        int status;
        const char *body;
    } wrong[] = {
        {500, ""},
        {403, "{}"},
        {200, ""},
        {200, "[1,"},
        {200, "{\"resources\":[{\"name\":\"pods\",\"kind\":\"Pod\",\"namespaced\":true,\"verbs\":[\"get\"]}]}"},
        {200, "{\"resources\":[{\"name\":\"pods\",\"kind\":\"\",\"namespaced\":true,\"verbs\":[\"list\","
              "\"watch\"]}]}"},
        {200, "{\"resources\":[{\"name\":\"pods\",\"kind\":\"Pod\",\"verbs\":[\"list\",\"watch\"]}]}"},
        {200, "{\"resources\":[{\"name\":\"pods\",\"kind\":\"P/d\",\"namespaced\":true,\"verbs\":[\"list\","
              "\"watch\"]}]}"}};
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct resource_find find = begin("pods");
        assert_int_equal(answer(&find, "/api/v1", wrong[i].status, wrong[i].body), RESOURCE_FIND_FAILED);
        assert_string_not_equal(find.why, "");
    }
    struct resource_find find = begin("widgets.demo.example.com");
    assert_int_equal(answer(&find, "/apis/demo.example.com", 200, "{\"versions\":[{\"version\":\"../v1\"}]}"),
                     RESOURCE_FIND_FAILED);
}

static void versions_are_bounded(void **state)
{
    char body[4096] = "{\"versions\":[";
    struct resource_find find = begin("widgets.demo.example.com");
    (void)state;
    for (int i = 0; i < RESOURCE_FIND_VERSIONS + 5; i++)
        snprintf(body + strlen(body), sizeof(body) - strlen(body), "%s{\"version\":\"v%d\"}", i > 0 ? "," : "", i);
    strcat(body, "]}");
    assert_int_equal(answer(&find, "/apis/demo.example.com", 200, body), RESOURCE_FIND_ASKING);
    assert_int_equal(find.n_versions, RESOURCE_FIND_VERSIONS);
    for (int i = 0; i < RESOURCE_FIND_VERSIONS - 1; i++)
        assert_int_equal(resource_find_take(&find, 404, belfry_bytes_str("")), RESOURCE_FIND_ASKING);
    assert_int_equal(resource_find_take(&find, 404, belfry_bytes_str("")), RESOURCE_FIND_ABSENT);
}

static void a_lack_of_memory_is_a_failure(void **state)
{
    (void)state;
    for (size_t n = 0;; n++) {
        struct resource_find find = begin("pods");
        size_t held = refuse_held();
        refuse_begin(n);
        enum resource_find_state now = resource_find_take(&find, 200, belfry_bytes_str(core));
        bool is_refused = refuse_end();
        assert_int_equal(refuse_held(), held);
        assert_int_equal(now, is_refused ? RESOURCE_FIND_FAILED : RESOURCE_FIND_FOUND);
        if (!is_refused) {
            assert_true(n > 0);
            return;
        }
    }
}

/* What people write, as kubectl takes it, and what they mistype. */
static void an_absent_resource_has_a_near_one(void **state)
{
    (void)state;
    static const struct {
        const char *name, *nearest;
    } rows[] = {{"pod", "pods"}, {"node", "nodes"}, {"no", "nodes"}, {"podss", "pods"}, {"persistentvolumes", ""}};
    static const char listed[] =
        "{\"resources\":[{\"name\":\"pods/log\",\"kind\":\"Pod\"},{\"name\":7},"
        "{\"name\":\"pods\",\"singularName\":\"pod\",\"kind\":\"Pod\"},"
        "{\"name\":\"nodes\",\"singularName\":\"\",\"kind\":\"Node\",\"shortNames\":[\"no\",3]}]}";
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct resource_find find = begin(rows[i].name);
        assert_int_equal(answer(&find, "/api/v1", 200, listed), RESOURCE_FIND_ABSENT);
        assert_string_equal(find.nearest, rows[i].nearest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resource_of_the_core_group_is_found),
        cmocka_unit_test(an_absent_resource_has_a_near_one),
        cmocka_unit_test(the_preferred_version_is_asked_first),
        cmocka_unit_test(a_version_that_was_asked_for_is_the_only_one),
        cmocka_unit_test(a_resource_that_is_nowhere_is_absent),
        cmocka_unit_test(what_cannot_be_used_is_a_failure),
        cmocka_unit_test(versions_are_bounded),
        cmocka_unit_test(a_lack_of_memory_is_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
