/* src/kube/render_test.c */
#include "kube/render.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "support/refuse.h"
#include "json/document.h"
#include "json/path.h"

#define NOW 1700000000 /* 2023-11-14T22:13:20Z */

static char kind[] = "Widget", list_kind[] = "WidgetList", api_version[] = "demo.example.com/v1", prefix[] = "/w/";
static struct kube_column columns[KUBE_COLUMNS_MAX];
static struct kube_version version = {.api_version = api_version, .columns = columns};
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

static struct kube_object *make(const char *value)
{
    struct kube_object *made = NULL;
    struct kube_stored stored = {.key = belfry_bytes_str("/w/a"), .value = belfry_bytes_str(value)};
    assert_int_equal(kube_object_make(&resource, &version, &stored, &made), BELFRY_OK);
    return made;
}

static int begin(void **state)
{
    (void)state;
    belfry_buf_init(&out);
    object = make("{\"metadata\":{\"creationTimestamp\":\"2023-11-14T22:13:15Z\"},\"spec\":{\"size\":1.10}}");
    return 0;
}

static int end(void **state)
{
    (void)state;
    kube_object_unref(object);
    belfry_buf_fini(&out);
    while (version.n_columns > 0)
        belfry_kube_path_free(columns[--version.n_columns].path);
    return 0;
}

static void add_column(char *name, char *type, const char *path)
{
    struct kube_column *column = &columns[version.n_columns];
    *column = (struct kube_column){.name = name, .type = type};
    assert_int_equal(belfry_kube_path_read(belfry_bytes_str(path), &column->path), BELFRY_OK);
    version.n_columns++;
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

/* The array of a table's columns in what was written. */
static struct belfry_bytes definitions(void)
{
    static const char before[] = "\"columnDefinitions\":", after[] = "],\"rows\":[";
    struct belfry_bytes text = belfry_buf_bytes(&out);
    const char *begins = memmem(text.data, text.len, before, strlen(before));
    const char *ends = memmem(text.data, text.len, after, strlen(after));
    assert_true(begins != NULL && ends != NULL && begins < ends);
    return belfry_bytes_of(begins + strlen(before), (size_t)(ends + 1 - begins) - strlen(before));
}

/* Where only their place matters. */
static void cut_definitions(void)
{
    struct belfry_bytes cut = definitions();
    uint8_t *at = out.data + out.start + (cut.data - belfry_buf_bytes(&out).data);
    memcpy(at, "COL", 3);
    memmove(at + 3, at + cut.len, (size_t)(out.data + out.end - (at + cut.len)));
    out.end -= cut.len - 3;
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

/* ---- columns ---- */

static char string[] = "string", integer[] = "integer", number[] = "number", boolean[] = "boolean", date[] = "date";
static char x[] = "X";

static void the_columns_of_the_version_are_described(void **state)
{
    (void)state;
    struct belfry_kube_document document;
    struct kube_render render = render_of(KUBE_VIEW_TABLE);
    char description[] = "how \"large\"", format[] = "int32", size[] = "Size";
    add_column(size, integer, ".spec.size");
    columns[0].description = description;
    columns[0].format = format;
    columns[0].priority = 1;
    assert_int_equal(kube_render_list_begin(&render, &out), BELFRY_OK);
    struct belfry_bytes text = definitions();
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
}

static void without_columns_the_age_is_a_date(void **state)
{
    (void)state;
    struct kube_render render = render_of(KUBE_VIEW_TABLE);
    assert_int_equal(kube_render_list_begin(&render, &out), BELFRY_OK);
    struct belfry_bytes text = definitions();
    const char age[] = "{\"name\":\"Age\",\"type\":\"date\",\"format\":\"\",\"description\":\"CreationTimestamp is";
    assert_non_null(memmem(text.data, text.len, age, strlen(age)));
}

/* ---- cells ---- */

static void assert_cells(const char *value, const char *expected)
{
    char row[512];
    struct kube_object *made = make(value);
    struct kube_render render = render_of(KUBE_VIEW_TABLE);
    render.include = KUBE_INCLUDE_NONE;
    assert_int_equal(kube_render_item(&render, made, 12, &out), BELFRY_OK);
    kube_object_unref(made);
    snprintf(row, sizeof(row), "{\"cells\":%s,\"object\":null}", expected);
    assert_written(row);
}

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

static void a_bookmark_has_as_many_cells(void **state)
{
    (void)state;
    struct kube_render render = render_of(KUBE_VIEW_TABLE);
    render.include = KUBE_INCLUDE_NONE;
    add_column(x, string, ".spec.s");
    add_column(x, integer, ".spec.i");
    assert_int_equal(kube_render_bookmark(&render, 40, false, &out), BELFRY_OK);
    assert_written("{\"type\":\"BOOKMARK\",\"object\":" TABLE ",\"metadata\":{\"resourceVersion\":\"40\"},"
                   "\"columnDefinitions\":null,\"rows\":[{\"cells\":[\"\",null,null],\"object\":null}]}}\n");
}

/* ---- ages ---- */

static void assert_age(const char *timestamp, int64_t now_s, const char *expected)
{
    static const char head[] = "{\"metadata\":{\"resourceVersion\":\"";
    char tail[128], row[128];
    struct kube_render render = render_of(KUBE_VIEW_TABLE);
    render.include = KUBE_INCLUDE_NONE;
    render.now_s = now_s;
    snprintf(tail, sizeof(tail), "\",\"creationTimestamp\":\"%s\"}}", timestamp);
    snprintf(row, sizeof(row), "{\"cells\":[\"a\",\"%s\"],\"object\":null}", expected);
    const struct kube_object made = {
        .head = belfry_bytes_str(head), .tail = belfry_bytes_str(tail), .attributes.name = belfry_bytes_str("a")};
    assert_int_equal(kube_render_item(&render, &made, 12, &out), BELFRY_OK);
    assert_written(row);
}

static void assert_duration(int64_t s, const char *expected)
{
    assert_age("2023-11-14T22:13:20Z", NOW + s, expected);
}

static void an_age_has_fewer_details_the_larger_it_is(void **state)
{
    (void)state;
    const int64_t m = 60, h = 60 * m, d = 24 * h, y = 365 * d;
    assert_duration(0, "0s");
    assert_duration(119, "119s");
    assert_duration(120, "2m");
    assert_duration(5 * m + 30, "5m30s");
    assert_duration(10 * m - 1, "9m59s");
    assert_duration(10 * m + 59, "10m");
    assert_duration(3 * h - 1, "179m");
    assert_duration(3 * h, "3h");
    assert_duration(7 * h + 59 * m, "7h59m");
    assert_duration(8 * h + 59 * m, "8h");
    assert_duration(2 * d - 1, "47h");
    assert_duration(2 * d, "2d");
    assert_duration(3 * d + 4 * h, "3d4h");
    assert_duration(8 * d + 23 * h, "8d");
    assert_duration(2 * y - 1, "729d");
    assert_duration(2 * y, "2y");
    assert_duration(3 * y + 5 * d, "3y5d");
    assert_duration(8 * y + 300 * d, "8y");
}

static void a_clock_that_is_a_second_behind_is_forgiven(void **state)
{
    (void)state;
    assert_duration(-1, "0s");
    assert_duration(-2, "<invalid>");
}

static void fractions_and_offsets_are_understood(void **state)
{
    (void)state;
    assert_age("2023-11-14T22:13:20.123456Z", NOW + 5, "5s");
    assert_age("2023-11-15T00:13:20+02:00", NOW + 5, "5s");
    assert_age("2023-11-14T16:43:20-05:30", NOW + 5, "5s");
}

/* Each 31st day of 10,000 years: most of the days of the 400 years after which the calendar repeats. */
static void every_day_is_where_the_c_library_has_it(void **state)
{
    (void)state;
    for (time_t t = -(time_t)62135596800 + 86400; t < 253402300800; t += 86400 * 31) {
        struct tm tm;
        char text[64];
        assert_non_null(gmtime_r(&t, &tm));
        tm.tm_hour = 0;
        assert_true(
            snprintf(text, sizeof(text), "%04d-%02d-%02dT00:00:00Z", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday) > 0);
        assert_age(text, t + 7, "7s");
    }
}

static void what_is_no_time_is_invalid(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "yesterday",
                                        "2023-11-14",
                                        "2023-11-14T22:13:20",
                                        "2023-11-14 22:13:20Z",
                                        "2023-11-14T22:13:20z",
                                        "2023-11-14T22:13:20Zx",
                                        "2023-11-14T22:13:20.Z",
                                        "2023-11-14T22:13:20+0200",
                                        "2023-11-14T22:13:20+24:00",
                                        "2023-13-14T22:13:20Z",
                                        "2023-00-14T22:13:20Z",
                                        "2023-02-29T22:13:20Z",
                                        "2023-11-31T22:13:20Z",
                                        "2023-11-14T24:13:20Z",
                                        "2023-11-14T22:60:20Z",
                                        "2023-11-14T22:13:60Z"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_age(texts[i], NOW, "<invalid>");
}

static void a_leap_day_is_a_day_in_leap_years_alone(void **state)
{
    (void)state;
    assert_age("2000-02-29T00:00:00Z", 951782400, "0s");
    assert_age("1900-02-29T00:00:00Z", NOW, "<invalid>");
}

static void a_time_that_was_never_set_is_unknown(void **state)
{
    (void)state;
    assert_age("0001-01-01T00:00:00Z", NOW, "<unknown>");
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

static enum belfry_err table_scenario(void)
{
    struct kube_render render = render_of(KUBE_VIEW_TABLE);
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    enum belfry_err err = kube_render_object(&render, object, 12, &buf);
    belfry_buf_fini(&buf);
    return err;
}

static void a_refused_allocation_is_told_by_cells_that_are_json(void **state)
{
    (void)state;
    add_column(x, string, ".spec");
    add_column(x, date, ".d");
    assert_true(refuse_sweep(table_scenario) >= 5); /* two buffers, the document's two, the cell that is JSON */
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
        cmocka_unit_test_setup_teardown(the_columns_of_the_version_are_described, begin, end),
        cmocka_unit_test_setup_teardown(without_columns_the_age_is_a_date, begin, end),
        cmocka_unit_test_setup_teardown(without_columns_there_are_name_and_age, begin, end),
        cmocka_unit_test_setup_teardown(the_columns_of_the_version_come_behind_the_name, begin, end),
        cmocka_unit_test_setup_teardown(what_is_missing_or_of_another_type_is_null, begin, end),
        cmocka_unit_test_setup_teardown(a_column_of_strings_shows_anything, begin, end),
        cmocka_unit_test_setup_teardown(a_column_of_integers_drops_fractions, begin, end),
        cmocka_unit_test_setup_teardown(a_bookmark_has_as_many_cells, begin, end),
        cmocka_unit_test_setup_teardown(an_age_has_fewer_details_the_larger_it_is, begin, end),
        cmocka_unit_test_setup_teardown(a_clock_that_is_a_second_behind_is_forgiven, begin, end),
        cmocka_unit_test_setup_teardown(fractions_and_offsets_are_understood, begin, end),
        cmocka_unit_test_setup_teardown(every_day_is_where_the_c_library_has_it, begin, end),
        cmocka_unit_test_setup_teardown(what_is_no_time_is_invalid, begin, end),
        cmocka_unit_test_setup_teardown(a_leap_day_is_a_day_in_leap_years_alone, begin, end),
        cmocka_unit_test_setup_teardown(a_time_that_was_never_set_is_unknown, begin, end),
        cmocka_unit_test_setup_teardown(a_refused_allocation_leaves_the_buffer_as_it_was, begin, end),
        cmocka_unit_test_setup_teardown(a_refused_allocation_is_told_by_cells_that_are_json, begin, end),
        cmocka_unit_test_setup_teardown(an_event_of_an_object_makes_room_once, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
