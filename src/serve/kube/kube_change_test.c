/* src/serve/kube/kube_change_test.c: the table of transitions, with real objects and selectors. */
#include "serve/kube/kube_change.h"

#include "serve/kube/kube_fixture.h"

struct bed {
    struct kube_resource *resource;
    struct kube_object *red, *blue, *named; /* by their label */
    struct kube_selector *selector;         /* color=red */
};

static struct kube_object *make(const struct bed *bed, const char *value)
{
    struct kube_stored stored = {.key = belfry_bytes_str(WIDGETS_PREFIX "prod/a"),
                                 .value = belfry_bytes_str(value),
                                 .create_rev = 2,
                                 .mod_rev = 3,
                                 .version = 1};
    struct kube_object *object = NULL;
    assert_int_equal(kube_object_make(bed->resource, &bed->resource->versions[0], &stored, &object), BELFRY_OK);
    return object;
}

static int bed_open(void **state)
{
    struct bed *bed = calloc(1, sizeof(*bed));
    struct kube_status status;
    assert_int_equal(widgets_read(NULL, &bed->resource), BELFRY_OK);
    bed->red = make(bed, "{\"metadata\":{\"labels\":{\"color\":\"red\"}}}");
    bed->blue = make(bed, "{\"metadata\":{\"labels\":{\"color\":\"blue\"}}}");
    bed->named = make(bed, "{\"metadata\":{}}");
    assert_int_equal(kube_selector_read(belfry_bytes_str("color=red"), (struct belfry_bytes){0}, bed->resource,
                                        &bed->resource->versions[0], &bed->selector, &status),
                     BELFRY_OK);
    *state = bed;
    return 0;
}

static int bed_close(void **state)
{
    struct bed *bed = *state;
    kube_object_unref(bed->red);
    kube_object_unref(bed->blue);
    kube_object_unref(bed->named);
    kube_selector_unref(bed->selector);
    kube_resource_unref(bed->resource);
    free(bed);
    return 0;
}

static void assert_told(const struct kube_object *before, const struct kube_object *after,
                        const struct kube_selector *selector, enum kube_event expected)
{
    struct kube_change change = {.before = before, .after = after, .rev = 7};
    enum kube_event event;
    bool told = false;
    assert_int_equal(kube_change_told(&change, selector, false, &told, &event), BELFRY_OK);
    assert_true(told);
    assert_int_equal(event, expected);
}

static void assert_silent(const struct kube_object *before, const struct kube_object *after,
                          const struct kube_selector *selector)
{
    struct kube_change change = {.before = before, .after = after, .rev = 7};
    enum kube_event event;
    bool told = true;
    assert_int_equal(kube_change_told(&change, selector, false, &told, &event), BELFRY_OK);
    assert_false(told);
}

static void who_watches_everything_is_told_what_happened(void **state)
{
    const struct bed *bed = *state;
    assert_told(NULL, bed->red, NULL, KUBE_ADDED);
    assert_told(bed->red, bed->blue, NULL, KUBE_MODIFIED);
    assert_told(bed->blue, NULL, NULL, KUBE_DELETED);
    assert_silent(NULL, NULL, NULL);
}

static void who_selects_is_told_what_it_means_to_him(void **state)
{
    const struct bed *bed = *state;
    assert_told(NULL, bed->red, bed->selector, KUBE_ADDED);
    assert_told(bed->blue, bed->red, bed->selector, KUBE_ADDED);
    assert_told(bed->red, bed->red, bed->selector, KUBE_MODIFIED);
    assert_told(bed->red, bed->blue, bed->selector, KUBE_DELETED);
    assert_told(bed->red, NULL, bed->selector, KUBE_DELETED);
    assert_silent(bed->blue, bed->blue, bed->selector);
    assert_silent(NULL, bed->blue, bed->selector);
    assert_silent(bed->blue, NULL, bed->selector);
}

static void forgotten_past_is_told_only_where_it_does_not_matter(void **state)
{
    const struct bed *bed = *state;
    struct kube_change change = {.after = bed->red, .rev = 7, .blind = true};
    enum kube_event event;
    bool told = false;
    assert_int_equal(kube_change_told(&change, NULL, false, &told, &event), BELFRY_OK);
    assert_true(told);
    assert_int_equal(event, KUBE_MODIFIED);
    assert_int_equal(kube_change_told(&change, bed->selector, false, &told, &event), BELFRY_ERR_COMPACTED);
    change.after = NULL;
    assert_int_equal(kube_change_told(&change, NULL, false, &told, &event), BELFRY_ERR_COMPACTED);
}

/* Where a client would list at the very revision, and be told to list again. */
static void forgotten_past_of_where_one_resumes_takes_out_what_may_have_been_there(void **state)
{
    const struct bed *bed = *state;
    const struct {
        const struct kube_object *after;
        const struct kube_selector *selector;
        enum kube_event event;
        const struct kube_object *shown;
    } rows[] = {{bed->red, NULL, KUBE_MODIFIED, bed->red},
                {bed->red, bed->selector, KUBE_MODIFIED, bed->red},
                {bed->blue, bed->selector, KUBE_DELETED, bed->named},
                {NULL, bed->selector, KUBE_DELETED, bed->named},
                {NULL, NULL, KUBE_DELETED, bed->named}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kube_change change = {.after = rows[i].after, .rev = 7, .blind = true, .named = bed->named};
        enum kube_event event;
        bool told = false;
        assert_int_equal(kube_change_told(&change, rows[i].selector, true, &told, &event), BELFRY_OK);
        assert_true(told);
        assert_int_equal(event, rows[i].event);
        assert_ptr_equal(kube_change_shown(&change, event), rows[i].shown);
        change.named = NULL; /* what has no name cannot be shown */
        assert_int_equal(kube_change_told(&change, rows[i].selector, true, &told, &event),
                         i == 0 ? BELFRY_OK : BELFRY_ERR_COMPACTED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_watches_everything_is_told_what_happened, bed_open, bed_close),
        cmocka_unit_test_setup_teardown(who_selects_is_told_what_it_means_to_him, bed_open, bed_close),
        cmocka_unit_test_setup_teardown(forgotten_past_is_told_only_where_it_does_not_matter, bed_open, bed_close),
        cmocka_unit_test_setup_teardown(forgotten_past_of_where_one_resumes_takes_out_what_may_have_been_there,
                                        bed_open, bed_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
