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
    resource_find_init(&find, &name, strcmp(name.group, "demo.example.com") == 0);
    assert_int_equal(find.state, RESOURCE_FIND_ASKING);
    return find;
}

static enum resource_find_state answer(struct resource_find *find, const char *path, int status, const char *body)
{
    assert_string_equal(resource_find_path(find), path);
    return resource_find_take(find, status, belfry_bytes_str(body));
}

#define DEFINITION "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.demo.example.com"
static const char v31[] = "{\"major\":\"1\",\"minor\":\"31\",\"gitVersion\":\"v1.31.4\"}";

static void a_resource_of_the_core_group_is_found(void **state)
{
    struct resource_find find = begin("pods");
    (void)state;
    assert_int_equal(answer(&find, "/api/v1", 200, core), RESOURCE_FIND_ASKING);
    assert_int_equal(answer(&find, "/version", 200, v31), RESOURCE_FIND_FOUND);
    assert_string_equal(find.facts.group_version, "v1");
    assert_string_equal(find.facts.kind, "Pod");
    assert_string_equal(find.facts.singular, "pod");
    assert_true(find.facts.is_namespaced);

    find = begin("nodes");
    assert_int_equal(answer(&find, "/api/v1", 200, core), RESOURCE_FIND_ASKING);
    assert_int_equal(answer(&find, "/version", 200, v31), RESOURCE_FIND_FOUND);
    assert_string_equal(find.facts.singular, "");
    assert_false(find.facts.is_namespaced);
}

static void the_preferred_version_is_asked_first(void **state)
{
    struct resource_find find = begin("widgets.demo.example.com");
    (void)state;
    assert_int_equal(answer(&find, "/apis/demo.example.com", 200, group), RESOURCE_FIND_ASKING);
    assert_int_equal(answer(&find, "/apis/demo.example.com/v1", 200, "{\"resources\":[]}"), RESOURCE_FIND_ASKING);
    assert_int_equal(answer(&find, "/apis/demo.example.com/v2", 200, widgets), RESOURCE_FIND_ASKING);
    assert_int_equal(answer(&find, "/version", 200, v31), RESOURCE_FIND_ASKING);
    assert_int_equal(answer(&find, DEFINITION, 404, ""), RESOURCE_FIND_FOUND);
    assert_string_equal(find.facts.group_version, "demo.example.com/v2");
    assert_string_equal(find.facts.version, "v2");
}

static void a_version_that_was_asked_for_is_the_only_one(void **state)
{
    struct resource_find find = begin("widgets.v2.demo.example.com");
    (void)state;
    assert_int_equal(answer(&find, "/apis/demo.example.com/v2", 404, ""), RESOURCE_FIND_ABSENT);
    find = begin("widgets.v2.demo.example.com");
    assert_int_equal(answer(&find, "/apis/demo.example.com/v2", 200, widgets), RESOURCE_FIND_ASKING);
    assert_string_equal(resource_find_path(&find), "/version");
}

/* ---- by which fields it can be selected ---- */

static void the_version_is_the_servers(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *body;
        unsigned minor;
        bool is_unsure;
    } rows[] = {{200, v31, 31, false},
                {200, "{\"major\":\"1\",\"minor\":\"27+\"}", 27, false},
                {200, "{\"major\":\"2\",\"minor\":\"1\"}", 0, false},
                {200, "{\"major\":1,\"minor\":31}", 0, false},
                {200, "{}", 0, false},
                {200, "x", 0, true},
                {403, "", 0, false},
                {404, "", 0, false},
                {503, "", 0, true}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct resource_find find = begin("pods");
        assert_int_equal(answer(&find, "/api/v1", 200, core), RESOURCE_FIND_ASKING);
        assert_int_equal(answer(&find, "/version", rows[i].status, rows[i].body), RESOURCE_FIND_FOUND);
        assert_int_equal(find.facts.selectable.minor, rows[i].minor);
        assert_int_equal(find.is_unsure, rows[i].is_unsure);
    }
}

static struct resource_find begin_definition(void)
{
    struct resource_find find = begin("widgets.v2.demo.example.com");
    assert_int_equal(answer(&find, "/apis/demo.example.com/v2", 200, widgets), RESOURCE_FIND_ASKING);
    assert_int_equal(answer(&find, "/version", 200, v31), RESOURCE_FIND_ASKING);
    return find;
}

static void fields_of_a_custom_resource_are_those_of_its_version(void **state)
{
    (void)state;
    static const char definition[] =
        "{\"spec\":{\"versions\":[{\"name\":\"v1\",\"selectableFields\":[{\"jsonPath\":\".spec.old\"}]},{\"name\":"
        "\"v2\","
        "\"selectableFields\":[{\"jsonPath\":\".spec.color\"},{\"jsonPath\":7},7,{\"jsonPath\":\".spec.size\"}]},7]}}";
    struct resource_find find = begin_definition();
    assert_int_equal(answer(&find, DEFINITION, 200, definition), RESOURCE_FIND_FOUND);
    const struct resource_selectable *selectable = &find.facts.selectable;
    assert_int_equal(selectable->n_fields, 2);
    assert_string_equal(selectable->fields[0], ".spec.color");
    assert_string_equal(selectable->fields[1], ".spec.size");
    assert_false(find.is_unsure);
}

static void fields_of_a_definition_are_bounded(void **state)
{
    (void)state;
    char body[4096] = "{\"spec\":{\"versions\":[{\"name\":\"v2\",\"selectableFields\":[";
    struct resource_find find = begin_definition();
    char name[RESOURCE_FIND_FIELD + 1];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    snprintf(body + strlen(body), sizeof(body) - strlen(body), "{\"jsonPath\":\"%s\"}", name);
    for (int i = 0; i < RESOURCE_FIND_FIELDS + 4; i++)
        snprintf(body + strlen(body), sizeof(body) - strlen(body), ",{\"jsonPath\":\".f%d\"}", i);
    strcat(body, "]}]}}");
    assert_int_equal(answer(&find, DEFINITION, 200, body), RESOURCE_FIND_FOUND);
    assert_int_equal(find.facts.selectable.n_fields, RESOURCE_FIND_FIELDS);
    assert_string_equal(find.facts.selectable.fields[0], ".f0"); /* the long one is left out */
}

static void a_definition_that_is_not_shown_has_no_fields(void **state)
{
    (void)state;
    static const struct {
        int status;
        bool is_unsure;
    } rows[] = {{401, false}, {403, false}, {404, false}, {500, true}, {200, true}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct resource_find find = begin_definition();
        assert_int_equal(answer(&find, DEFINITION, rows[i].status, ""), RESOURCE_FIND_FOUND);
        assert_int_equal(find.facts.selectable.n_fields, 0);
        assert_int_equal(find.is_unsure, rows[i].is_unsure);
    }
}

static void what_was_found_is_selected_anew(void **state)
{
    (void)state;
    struct resource_find find = begin_definition(), again;
    assert_int_equal(answer(&find, DEFINITION, 503, ""), RESOURCE_FIND_FOUND);
    resource_find_init_selectable(&again, &find);
    assert_int_equal(answer(&again, "/version", 200, "{\"major\":\"1\",\"minor\":\"32\"}"), RESOURCE_FIND_ASKING);
    assert_int_equal(answer(&again, DEFINITION, 200, "{\"spec\":{}}"), RESOURCE_FIND_FOUND);
    assert_int_equal(again.facts.selectable.minor, 32);
    assert_false(again.is_unsure);
    assert_string_equal(again.facts.group_version, find.facts.group_version);
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
        if (now == RESOURCE_FIND_ASKING)
            now = resource_find_take(&find, 200, belfry_bytes_str(v31));
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
        cmocka_unit_test(the_version_is_the_servers),
        cmocka_unit_test(fields_of_a_custom_resource_are_those_of_its_version),
        cmocka_unit_test(fields_of_a_definition_are_bounded),
        cmocka_unit_test(a_definition_that_is_not_shown_has_no_fields),
        cmocka_unit_test(what_was_found_is_selected_anew),
        cmocka_unit_test(a_resource_that_is_nowhere_is_absent),
        cmocka_unit_test(what_cannot_be_used_is_a_failure),
        cmocka_unit_test(versions_are_bounded),
        cmocka_unit_test(a_lack_of_memory_is_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
