/* src/kube/render_test.c */
#include "kube/render.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kube/columns.h"
#include "support/refuse.h"

#define NOW 1700000000 /* 2023-11-14T22:13:20Z */

static char kind[] = "Widget", list_kind[] = "WidgetList", api_version[] = "demo.example.com/v1", prefix[] = "/w/";
static const struct kube_version version = {.api_version = api_version};
static const struct kube_resource resource = {.kind = kind, .list_kind = list_kind, .prefix = prefix};

static struct kube_object *object; /* of every test */
static struct belfry_buf out;

#define METADATA(rev)                                                                                                  \
    "\"metadata\":{\"resourceVersion\":\"" rev "\",\"name\":\"a\","                                                    \
    "\"creationTimestamp\":\"2023-11-14T22:13:15Z\"}"
#define OBJECT(rev)                                                                                                    \
    "{\"apiVersion\":\"demo.example.com/v1\",\"kind\":\"Widget\"," METADATA(rev) ",\"spec\":{\"size\":1.10}}"
#define PARTIAL(rev) "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\"," METADATA(rev) "}"
#define TABLE        "{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\""

static int begin(void **state)
{
    (void)state;
    static const char value[] =
        "{\"metadata\":{\"creationTimestamp\":\"2023-11-14T22:13:15Z\"},\"spec\":{\"size\":1.10}}";
    struct kube_stored stored = {.key = belfry_bytes_str("/w/a"), .value = belfry_bytes_str(value)};
    belfry_buf_init(&out);
    return kube_object_make(&resource, &version, &stored, &object) == BELFRY_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    kube_object_unref(object);
    belfry_buf_fini(&out);
    return 0;
}

static struct kube_render render_of(enum kube_view view)
{
    return (struct kube_render){.resource = &resource, .version = &version, .view = view, .now_s = NOW};
}

/* What was written since the last time. */
static void assert_written(const char *expected)
{
    assert_int_equal(belfry_buf_append(&out, "", 1), BELFRY_OK);
    assert_string_equal(belfry_buf_bytes(&out).data, expected);
    belfry_buf_clear(&out);
}

/* The definitions of Name and Age are the table's own; here it counts where they stand. */
static void cut_definitions(void)
{
    struct belfry_buf columns;
    belfry_buf_init(&columns);
    assert_int_equal(kube_table_columns(&version, &columns), BELFRY_OK);
    struct belfry_bytes text = belfry_buf_bytes(&out), cut = belfry_buf_bytes(&columns);
    uint8_t *at = memmem(out.data + out.start, text.len, cut.data, cut.len);
    assert_non_null(at);
    memcpy(at, "COL", 3);
    memmove(at + 3, at + cut.len, (size_t)(out.data + out.end - (at + cut.len)));
    out.end -= cut.len - 3;
    belfry_buf_fini(&columns);
}

static void an_object_has_the_revision_it_is_asked_with(void **state)
{
    (void)state;
    struct kube_render render = render_of(KUBE_VIEW_OBJECT);
    assert_int_equal(kube_render_object(&render, object, 12, &out), BELFRY_OK);
    assert_written(OBJECT("12"));
    assert_int_equal(kube_render_object(&render, object, INT64_MAX, &out), BELFRY_OK);
    assert_written(OBJECT("9223372036854775807"));
}

static void metadata_alone_is_a_kind_of_its_own(void **state)
{
    (void)state;
    struct kube_render render = render_of(KUBE_VIEW_METADATA);
    assert_int_equal(kube_render_object(&render, object, 12, &out), BELFRY_OK);
    assert_written(PARTIAL("12"));
}

static void a_table_of_one_object_has_columns_and_a_row(void **state)
{
    (void)state;
    struct kube_render render = render_of(KUBE_VIEW_TABLE);
    assert_int_equal(kube_render_object(&render, object, 12, &out), BELFRY_OK);
    cut_definitions();
    assert_written(TABLE ",\"metadata\":{\"resourceVersion\":\"12\"},\"columnDefinitions\":COL,"
                         "\"rows\":[{\"cells\":[\"a\",\"5s\"],\"object\":" PARTIAL("12") "}]}");
}

static void a_row_includes_what_was_asked_for(void **state)
{
    (void)state;
    struct kube_render render = render_of(KUBE_VIEW_TABLE);
    render.include = KUBE_INCLUDE_NONE;
    assert_int_equal(kube_render_item(&render, object, 12, &out), BELFRY_OK);
    assert_written("{\"cells\":[\"a\",\"5s\"],\"object\":null}");
    render.include = KUBE_INCLUDE_OBJECT;
    assert_int_equal(kube_render_item(&render, object, 12, &out), BELFRY_OK);
    assert_written("{\"cells\":[\"a\",\"5s\"],\"object\":" OBJECT("12") "}");
}

static void ages_are_counted_by_the_clock_unless_a_time_is_given(void **state)
{
    (void)state;
    struct kube_render render = render_of(KUBE_VIEW_TABLE);
    render.now_s = 0;
    render.include = KUBE_INCLUDE_NONE;
    assert_int_equal(kube_render_item(&render, object, 12, &out), BELFRY_OK);
    struct belfry_bytes text = belfry_buf_bytes(&out);
    assert_null(memmem(text.data, text.len, "\"5s\"", 4)); /* years have passed since */
    assert_null(memmem(text.data, text.len, "<", 1));
}

static void assert_list(enum kube_view view, struct belfry_bytes continue_with, int64_t remaining, const char *expected)
{
    struct kube_render render = render_of(view);
    render.include = KUBE_INCLUDE_NONE;
    assert_int_equal(kube_render_list_begin(&render, &out), BELFRY_OK);
    assert_int_equal(kube_render_item(&render, object, 12, &out), BELFRY_OK);
    assert_int_equal(belfry_buf_append(&out, ",", 1), BELFRY_OK);
    assert_int_equal(kube_render_item(&render, object, 13, &out), BELFRY_OK);
    assert_int_equal(kube_render_list_end(&render, 20, continue_with, remaining, &out), BELFRY_OK);
    if (view == KUBE_VIEW_TABLE)
        cut_definitions();
    assert_written(expected);
}

static void lists_say_their_revision_and_how_to_go_on(void **state)
{
    (void)state;
    assert_list(KUBE_VIEW_OBJECT, belfry_bytes_str(""), -1,
                "{\"kind\":\"WidgetList\",\"apiVersion\":\"demo.example.com/v1\",\"items\":[" OBJECT("12") "," OBJECT(
                    "13") "],\"metadata\":{\"resourceVersion\":\"20\"}}");
    assert_list(KUBE_VIEW_METADATA, belfry_bytes_str("eyJ2"), 0,
                "{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\",\"items\":[" PARTIAL(
                    "12") "," PARTIAL("13") "],\"metadata\":{\"resourceVersion\":\"20\",\"continue\":\"eyJ2\","
                                            "\"remainingItemCount\":0}}");
    assert_list(KUBE_VIEW_TABLE, belfry_bytes_str("eyJ2"), -1,
                TABLE ",\"columnDefinitions\":COL,\"rows\":[{\"cells\":[\"a\",\"5s\"],\"object\":null},"
                      "{\"cells\":[\"a\",\"5s\"],\"object\":null}],"
                      "\"metadata\":{\"resourceVersion\":\"20\",\"continue\":\"eyJ2\"}}");
}

static void a_list_of_nothing_has_items(void **state)
{
    (void)state;
    struct kube_render render = render_of(KUBE_VIEW_OBJECT);
    assert_int_equal(kube_render_list_begin(&render, &out), BELFRY_OK);
    assert_int_equal(kube_render_list_end(&render, 20, belfry_bytes_str(""), -1, &out), BELFRY_OK);
    assert_written("{\"kind\":\"WidgetList\",\"apiVersion\":\"demo.example.com/v1\",\"items\":[],"
                   "\"metadata\":{\"resourceVersion\":\"20\"}}");
}

static void an_event_is_one_line_with_the_revision_of_the_change(void **state)
{
    (void)state;
    struct kube_render render = render_of(KUBE_VIEW_OBJECT);
    assert_int_equal(kube_render_event(&render, KUBE_ADDED, object, 12, true, &out), BELFRY_OK);
    assert_written("{\"type\":\"ADDED\",\"object\":" OBJECT("12") "}\n");
    assert_int_equal(kube_render_event(&render, KUBE_MODIFIED, object, 12, false, &out), BELFRY_OK);
    assert_written("{\"type\":\"MODIFIED\",\"object\":" OBJECT("12") "}\n");
    assert_int_equal(kube_render_event(&render, KUBE_DELETED, object, 30, false, &out), BELFRY_OK);
    assert_written("{\"type\":\"DELETED\",\"object\":" OBJECT("30") "}\n");
    render.view = KUBE_VIEW_METADATA;
    assert_int_equal(kube_render_event(&render, KUBE_DELETED, object, 30, false, &out), BELFRY_OK);
    assert_written("{\"type\":\"DELETED\",\"object\":" PARTIAL("30") "}\n");
}

static void only_the_first_event_defines_the_columns(void **state)
{
    (void)state;
    struct kube_render render = render_of(KUBE_VIEW_TABLE);
    assert_int_equal(kube_render_event(&render, KUBE_ADDED, object, 12, true, &out), BELFRY_OK);
    cut_definitions();
    assert_written("{\"type\":\"ADDED\",\"object\":" TABLE ",\"metadata\":{\"resourceVersion\":\"12\"},"
                   "\"columnDefinitions\":COL,\"rows\":[{\"cells\":[\"a\",\"5s\"],\"object\":" PARTIAL("12") "}]}}\n");
    assert_int_equal(kube_render_event(&render, KUBE_DELETED, object, 30, false, &out), BELFRY_OK);
    assert_written("{\"type\":\"DELETED\",\"object\":" TABLE ",\"metadata\":{\"resourceVersion\":\"30\"},"
                   "\"columnDefinitions\":null,\"rows\":[{\"cells\":[\"a\",\"5s\"],\"object\":" PARTIAL("30") "}]}}\n");
}

#define MARK_METADATA "\"metadata\":{\"resourceVersion\":\"40\"}}"
#define MARK_OBJECT   "{\"kind\":\"Widget\",\"apiVersion\":\"demo.example.com/v1\"," MARK_METADATA
#define MARK_PARTIAL  "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\"," MARK_METADATA

static void a_bookmark_has_kind_and_revision_and_nothing_else(void **state)
{
    (void)state;
    struct kube_render render = render_of(KUBE_VIEW_OBJECT);
    assert_int_equal(kube_render_bookmark(&render, 40, false, &out), BELFRY_OK);
    assert_written("{\"type\":\"BOOKMARK\",\"object\":" MARK_OBJECT "}\n");
    render.view = KUBE_VIEW_METADATA;
    assert_int_equal(kube_render_bookmark(&render, 40, false, &out), BELFRY_OK);
    assert_written("{\"type\":\"BOOKMARK\",\"object\":" MARK_PARTIAL "}\n");
}

static void the_bookmark_at_the_end_of_the_state_says_so(void **state)
{
    (void)state;
    struct kube_render render = render_of(KUBE_VIEW_OBJECT);
    assert_int_equal(kube_render_bookmark(&render, 40, true, &out), BELFRY_OK);
    assert_written("{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Widget\",\"apiVersion\":\"demo.example.com/v1\","
                   "\"metadata\":{\"resourceVersion\":\"40\","
                   "\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n");
}

static void a_bookmark_in_a_table_is_a_row_without_a_name(void **state)
{
    (void)state;
    struct kube_render render = render_of(KUBE_VIEW_TABLE);
#define MARK_ROW(object)                                                                                               \
    "{\"type\":\"BOOKMARK\",\"object\":" TABLE ",\"metadata\":{\"resourceVersion\":\"40\"},"                           \
    "\"columnDefinitions\":null,\"rows\":[{\"cells\":[\"\",\"<unknown>\"],\"object\":" object "}]}}\n"
    assert_int_equal(kube_render_bookmark(&render, 40, false, &out), BELFRY_OK);
    assert_written(MARK_ROW(MARK_PARTIAL));
    render.include = KUBE_INCLUDE_OBJECT;
    assert_int_equal(kube_render_bookmark(&render, 40, false, &out), BELFRY_OK);
    assert_written(MARK_ROW(MARK_OBJECT));
    render.include = KUBE_INCLUDE_NONE;
    assert_int_equal(kube_render_bookmark(&render, 40, false, &out), BELFRY_OK);
    assert_written(MARK_ROW("null"));
}

static void an_error_is_a_line_with_its_status(void **state)
{
    (void)state;
    struct kube_status status;
    kube_status_expired(&status, 5, 812);
    assert_int_equal(kube_render_error(&status, &out), BELFRY_OK);
    assert_written("{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},"
                   "\"status\":\"Failure\",\"message\":\"too old resource version: 5 (812)\","
                   "\"reason\":\"Expired\",\"code\":410}}\n");
}

/* ---- memory ---- */

static enum belfry_err write_nth(unsigned n, const struct kube_render *render, struct belfry_buf *buf)
{
    struct kube_status status;
    switch (n) {
    case 0:
        return kube_render_object(render, object, 12, buf);
    case 1:
        return kube_render_list_begin(render, buf);
    case 2:
        return kube_render_item(render, object, 12, buf);
    case 3:
        return kube_render_list_end(render, 12, belfry_bytes_str("eyJ2"), 5, buf);
    case 4:
        return kube_render_event(render, KUBE_ADDED, object, 12, true, buf);
    case 5:
        return kube_render_bookmark(render, 12, true, buf);
    default:
        kube_status_expired(&status, 5, 812);
        return kube_render_error(&status, buf);
    }
}

/* Every call begins with 200 bytes in a buffer of 256: of what it writes some parts fit and some do not. */
static enum belfry_err scenario(void)
{
    char before[200];
    enum belfry_err err = BELFRY_OK;
    memset(before, 'x', sizeof(before));
    for (unsigned n = 0; n < 21 && err == BELFRY_OK; n++) {
        struct kube_render render = render_of((enum kube_view)(n / 7));
        struct belfry_buf buf;
        belfry_buf_init(&buf);
        err = belfry_buf_append(&buf, before, sizeof(before));
        if (err != BELFRY_OK)
            return err;
        err = write_nth(n % 7, &render, &buf);
        struct belfry_bytes text = belfry_buf_bytes(&buf);
        assert_memory_equal(text.data, before, sizeof(before));
        if (err == BELFRY_OK)
            assert_true(text.len > sizeof(before));
        else
            assert_int_equal(text.len, sizeof(before));
        belfry_buf_fini(&buf);
    }
    return err;
}

static void a_refused_allocation_leaves_the_buffer_as_it_was(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 40);
}

static void an_event_of_an_object_makes_room_once(void **state)
{
    (void)state;
    struct kube_render render = render_of(KUBE_VIEW_OBJECT);
    size_t before = refuse_held();
    refuse_begin(1); /* the second */
    assert_int_equal(kube_render_event(&render, KUBE_MODIFIED, object, 12, false, &out), BELFRY_OK);
    assert_false(refuse_end());
    assert_int_equal(refuse_held(), before + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_object_has_the_revision_it_is_asked_with, begin, end),
        cmocka_unit_test_setup_teardown(metadata_alone_is_a_kind_of_its_own, begin, end),
        cmocka_unit_test_setup_teardown(a_table_of_one_object_has_columns_and_a_row, begin, end),
        cmocka_unit_test_setup_teardown(a_row_includes_what_was_asked_for, begin, end),
        cmocka_unit_test_setup_teardown(ages_are_counted_by_the_clock_unless_a_time_is_given, begin, end),
        cmocka_unit_test_setup_teardown(lists_say_their_revision_and_how_to_go_on, begin, end),
        cmocka_unit_test_setup_teardown(a_list_of_nothing_has_items, begin, end),
        cmocka_unit_test_setup_teardown(an_event_is_one_line_with_the_revision_of_the_change, begin, end),
        cmocka_unit_test_setup_teardown(only_the_first_event_defines_the_columns, begin, end),
        cmocka_unit_test_setup_teardown(a_bookmark_has_kind_and_revision_and_nothing_else, begin, end),
        cmocka_unit_test_setup_teardown(the_bookmark_at_the_end_of_the_state_says_so, begin, end),
        cmocka_unit_test_setup_teardown(a_bookmark_in_a_table_is_a_row_without_a_name, begin, end),
        cmocka_unit_test_setup_teardown(an_error_is_a_line_with_its_status, begin, end),
        cmocka_unit_test_setup_teardown(a_refused_allocation_leaves_the_buffer_as_it_was, begin, end),
        cmocka_unit_test_setup_teardown(an_event_of_an_object_makes_room_once, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
