/* src/serve/kube/kube_forms_test.c */
#include "serve/kube/kube_forms.h"

#include "serve/kube/kube_fixture.h"
#include "support/refuse.h"

#define KEY WIDGETS_PREFIX "prod/a"
#define RED "{\"metadata\":{\"labels\":{\"color\":\"red\"}},\"spec\":{\"node\":\"n1\"}}"
#define BLU "{\"metadata\":{\"labels\":{\"color\":\"blu\",\"size\":\"9\"}},\"spec\":{\"node\":\"n2\"}}"

struct bed {
    struct kube_resource *resource;
    struct kube_forms *forms;
    const struct kube_lens *lens;
};

static enum belfry_err bed_open_with(struct bed *bed, size_t max_bytes, struct kube_resource *resource)
{
    *bed = (struct bed){.resource = resource};
    enum belfry_err err = kube_forms_create(max_bytes, 5, &bed->forms);
    if (err == BELFRY_OK)
        err = kube_lens_open(bed->forms, bed->resource, &bed->resource->versions[0], &bed->lens);
    return err;
}

static enum belfry_err bed_open(struct bed *bed, size_t max_bytes)
{
    struct kube_resource *resource;
    *bed = (struct bed){0};
    enum belfry_err err = widgets_read(NULL, &resource);
    return err == BELFRY_OK ? bed_open_with(bed, max_bytes, resource) : err;
}

static void bed_close(struct bed *bed)
{
    if (bed->lens != NULL)
        kube_lens_close(bed->forms, bed->lens);
    kube_forms_destroy(bed->forms);
    kube_resource_unref(bed->resource);
}

#define BED(name)                                                                                                      \
    struct bed name;                                                                                                   \
    assert_int_equal(bed_open(&name, KUBE_FORMS_BYTES), BELFRY_OK)

static struct batch *make_batch(int64_t rev, const char *key, const char *value, const char *before)
{
    const struct widget_event event = {key, value, before, false};
    struct batch *batch;
    assert_int_equal(widget_batch(rev, &event, 1, &batch), BELFRY_OK);
    return batch;
}

static const struct kube_change *see(struct bed *bed, const struct batch *batch, uint32_t event)
{
    const struct kube_change *change;
    assert_int_equal(kube_forms_change(bed->forms, bed->lens, batch, event, KUBE_NEED_ATTRIBUTES, &change), BELFRY_OK);
    return change;
}

static struct kube_forms_stats stats_of(const struct bed *bed)
{
    struct kube_forms_stats stats;
    kube_forms_stats(bed->forms, &stats);
    return stats;
}

static struct belfry_blob *line_of(struct bed *bed, const struct kube_change *change, enum kube_view view,
                                   enum kube_event event, bool first)
{
    struct kube_line how = {.view = view, .event = event, .first = first};
    struct belfry_blob *blob;
    assert_int_equal(kube_forms_line(bed->forms, bed->lens, change, &how, &blob), BELFRY_OK);
    return blob;
}

static void assert_line(struct bed *bed, const struct kube_change *change, enum kube_event event, const char *text)
{
    struct belfry_blob *blob = line_of(bed, change, KUBE_VIEW_OBJECT, event, true);
    struct belfry_bytes bytes = belfry_blob_bytes(blob);
    assert_int_equal(bytes.len, strlen(text));
    assert_memory_equal(bytes.data, text, bytes.len);
    belfry_blob_unref(blob);
}

#define OBJECT(rv, color)                                                                                              \
    "{\"apiVersion\":\"demo.example.com/v1\",\"kind\":\"Widget\",\"metadata\":{\"resourceVersion\":\"" rv              \
    "\",\"name\":\"a\",\"namespace\":\"prod\",\"labels\":{\"color\":\"" color "\"}}}"
#define SIMPLE(color) "{\"metadata\":{\"labels\":{\"color\":\"" color "\"}}}"

static void deleted_shows_what_was_there_at_the_revision_of_the_delete(void **state)
{
    (void)state;
    BED(bed);
    struct batch *put = make_batch(41, KEY, SIMPLE("blue"), SIMPLE("red")),
                 *gone = make_batch(42, KEY, NULL, SIMPLE("red"));
    const struct kube_change *change = see(&bed, put, 0);
    assert_non_null(change->before);
    assert_line(&bed, change, KUBE_MODIFIED, "{\"type\":\"MODIFIED\",\"object\":" OBJECT("41", "blue") "}\n");
    assert_line(&bed, change, KUBE_DELETED, "{\"type\":\"DELETED\",\"object\":" OBJECT("41", "red") "}\n");
    change = see(&bed, gone, 0);
    assert_null(change->after);
    assert_line(&bed, change, KUBE_DELETED, "{\"type\":\"DELETED\",\"object\":" OBJECT("42", "red") "}\n");
    batch_unref(put);
    batch_unref(gone);
    bed_close(&bed);
}

static void event_is_decoded_once_and_its_lines_are_shared(void **state)
{
    (void)state;
    BED(bed);
    struct batch *batch = make_batch(41, KEY, RED, NULL), *again = make_batch(41, KEY, RED, NULL);
    struct belfry_blob *one = line_of(&bed, see(&bed, batch, 0), KUBE_VIEW_OBJECT, KUBE_ADDED, true);
    struct belfry_blob *two = line_of(&bed, see(&bed, again, 0), KUBE_VIEW_OBJECT, KUBE_ADDED, false);
    assert_ptr_equal(one, two);
    struct belfry_blob *table = line_of(&bed, see(&bed, batch, 0), KUBE_VIEW_TABLE, KUBE_ADDED, true);
    struct belfry_blob *later = line_of(&bed, see(&bed, batch, 0), KUBE_VIEW_TABLE, KUBE_ADDED, false);
    assert_ptr_not_equal(one, table);
    assert_ptr_not_equal(table, later);
    assert_int_equal(stats_of(&bed).made, 1);
    assert_int_equal(stats_of(&bed).shared, 3);
    assert_int_equal(stats_of(&bed).lines, 3);
    belfry_blob_unref(one);
    belfry_blob_unref(two);
    belfry_blob_unref(table);
    belfry_blob_unref(later);
    batch_unref(batch);
    batch_unref(again);
    bed_close(&bed);
}

static void rewritten_past_is_not_taken_for_the_old_one(void **state)
{
    (void)state;
    BED(bed);
    struct batch *old = make_batch(41, KEY, SIMPLE("red"), NULL), *new = make_batch(41, KEY, SIMPLE("blue"), NULL);
    assert_line(&bed, see(&bed, old, 0), KUBE_ADDED, "{\"type\":\"ADDED\",\"object\":" OBJECT("41", "red") "}\n");
    kube_forms_next_turn(bed.forms);
    assert_line(&bed, see(&bed, new, 0), KUBE_ADDED, "{\"type\":\"ADDED\",\"object\":" OBJECT("41", "blue") "}\n");
    assert_int_equal(stats_of(&bed).made, 2);
    assert_int_equal(stats_of(&bed).changes, 1);
    batch_unref(old);
    batch_unref(new);
    bed_close(&bed);
}

static void events_of_a_revision_are_told_apart(void **state)
{
    (void)state;
    BED(bed);
    const struct widget_event events[] = {{KEY, RED, NULL, false}, {WIDGETS_PREFIX "prod/b", RED, NULL, false}};
    struct batch *batch;
    assert_int_equal(widget_batch(41, events, 2, &batch), BELFRY_OK);
    assert_memory_equal(see(&bed, batch, 0)->after->attributes.name.data, "a", 1);
    assert_memory_equal(see(&bed, batch, 1)->after->attributes.name.data, "b", 1);
    batch->first_sub = 1; /* a slice: the same events again, one further on */
    assert_memory_equal(see(&bed, batch, 1)->after->attributes.name.data, "b", 1);
    assert_int_equal(stats_of(&bed).made, 3);
    batch_unref(batch);
    bed_close(&bed);
}

/* A state of the object before may have been shown at the revision before, so that no other label is above it. */
static void every_line_of_a_revision_carries_it(void **state)
{
    (void)state;
    BED(bed);
    const struct widget_event events[] = {{KEY, SIMPLE("blue"), SIMPLE("red"), false},
                                          {WIDGETS_PREFIX "prod/b", RED, NULL, false}};
    struct batch *batch;
    assert_int_equal(widget_batch(41, events, 2, &batch), BELFRY_OK);
    for (int more = 0; more <= 1; more++) {
        batch->more = more; /* a slice that others follow */
        kube_forms_next_turn(bed.forms);
        assert_line(&bed, see(&bed, batch, 0), KUBE_MODIFIED,
                    "{\"type\":\"MODIFIED\",\"object\":" OBJECT("41", "blue") "}\n");
        assert_line(&bed, see(&bed, batch, 0), KUBE_DELETED,
                    "{\"type\":\"DELETED\",\"object\":" OBJECT("41", "red") "}\n");
        assert_int_equal(see(&bed, batch, 1)->rev, 41);
    }
    batch_unref(batch);
    bed_close(&bed);
}

static void what_cannot_be_decoded_is_absent_and_counted(void **state)
{
    (void)state;
    BED(bed);
    struct batch *bad = make_batch(41, KEY, "k8s\x01", RED),
                 *foreign = make_batch(42, WIDGETS_PREFIX "A/b/c", RED, NULL);
    const struct kube_change *change = see(&bed, bad, 0);
    assert_null(change->after);
    assert_non_null(change->before);
    assert_false(change->blind);
    assert_int_equal(stats_of(&bed).undecodable, 1);
    assert_string_equal(stats_of(&bed).undecodable_key, KEY);
    change = see(&bed, foreign, 0);
    assert_true(change->before == NULL && change->after == NULL && !change->blind);
    assert_int_equal(stats_of(&bed).skipped, 1);
    batch_unref(bad);
    batch_unref(foreign);
    bed_close(&bed);
}

static void forgotten_previous_value_makes_a_blind_change(void **state)
{
    (void)state;
    BED(bed);
    const struct widget_event events[] = {{WIDGETS_PREFIX "prod/b", RED, NULL, true}, {KEY, NULL, NULL, true}};
    struct batch *batch;
    assert_int_equal(widget_batch(41, events, 2, &batch), BELFRY_OK);
    assert_true(see(&bed, batch, 0)->blind);
    assert_line(&bed, see(&bed, batch, 0), KUBE_DELETED,
                "{\"type\":\"DELETED\",\"object\":{\"apiVersion\":\"demo.example.com/v1\",\"kind\":\"Widget\","
                "\"metadata\":{\"resourceVersion\":\"41\",\"name\":\"b\",\"namespace\":\"prod\"}}}\n");
    assert_true(see(&bed, batch, 1)->blind);
    assert_line(&bed, see(&bed, batch, 1), KUBE_DELETED,
                "{\"type\":\"DELETED\",\"object\":{\"apiVersion\":\"demo.example.com/v1\",\"kind\":\"Widget\","
                "\"metadata\":{\"resourceVersion\":\"41\",\"name\":\"a\",\"namespace\":\"prod\"}}}\n");
    batch_unref(batch);
    bed_close(&bed);
}

/* etcd's prev_kv is what was there before the revision, for each of its events. */
static void object_before_a_delete_is_the_one_that_its_revision_has_put(void **state)
{
    (void)state;
    BED(bed);
    const struct widget_event relabelled[] = {{KEY, SIMPLE("blue"), SIMPLE("red"), false},
                                              {KEY, NULL, SIMPLE("red"), false}};
    const struct widget_event created[] = {{KEY, SIMPLE("blue"), NULL, false}, {KEY, NULL, NULL, true}};
    const struct widget_event *const rows[] = {relabelled, created};
    for (size_t i = 0; i < 2; i++) {
        struct batch *batch;
        assert_int_equal(widget_batch(41 + (int64_t)i, rows[i], 2, &batch), BELFRY_OK);
        assert_int_equal(see(&bed, batch, 0)->before != NULL, i == 0);
        const struct kube_change *change = see(&bed, batch, 1);
        assert_true(!change->blind && change->before != NULL && change->after == NULL);
        assert_line(&bed, change, KUBE_DELETED,
                    i == 0 ? "{\"type\":\"DELETED\",\"object\":" OBJECT("41", "blue") "}\n"
                           : "{\"type\":\"DELETED\",\"object\":" OBJECT("42", "blue") "}\n");
        batch_unref(batch);
    }
    bed_close(&bed);
}

/* ---- what a watcher is told: the table of transitions ---- */

struct sides {
    struct kube_resource *resource;
    struct kube_object *red, *blue, *named; /* by their label */
    struct kube_selector *selector;         /* color=red */
};

static struct kube_object *make_object(const struct sides *sides, const char *value)
{
    struct kube_stored stored = {.key = belfry_bytes_str(WIDGETS_PREFIX "prod/a"),
                                 .value = belfry_bytes_str(value),
                                 .create_rev = 2,
                                 .mod_rev = 3,
                                 .version = 1};
    struct kube_object *object = NULL;
    assert_int_equal(kube_object_make(sides->resource, &sides->resource->versions[0], &stored, &object), BELFRY_OK);
    return object;
}

static int sides_open(void **state)
{
    struct sides *sides = calloc(1, sizeof(*sides));
    struct kube_status status;
    assert_int_equal(widgets_read(NULL, &sides->resource), BELFRY_OK);
    sides->red = make_object(sides, "{\"metadata\":{\"labels\":{\"color\":\"red\"}}}");
    sides->blue = make_object(sides, "{\"metadata\":{\"labels\":{\"color\":\"blue\"}}}");
    sides->named = make_object(sides, "{\"metadata\":{}}");
    assert_int_equal(kube_selector_read(belfry_bytes_str("color=red"), (struct belfry_bytes){0}, sides->resource,
                                        &sides->resource->versions[0], &sides->selector, &status),
                     BELFRY_OK);
    *state = sides;
    return 0;
}

static int sides_close(void **state)
{
    struct sides *sides = *state;
    kube_object_unref(sides->red);
    kube_object_unref(sides->blue);
    kube_object_unref(sides->named);
    kube_selector_unref(sides->selector);
    kube_resource_unref(sides->resource);
    free(sides);
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
    const struct sides *sides = *state;
    assert_told(NULL, sides->red, NULL, KUBE_ADDED);
    assert_told(sides->red, sides->blue, NULL, KUBE_MODIFIED);
    assert_told(sides->blue, NULL, NULL, KUBE_DELETED);
    assert_silent(NULL, NULL, NULL);
}

static void who_selects_is_told_what_it_means_to_him(void **state)
{
    const struct sides *sides = *state;
    assert_told(NULL, sides->red, sides->selector, KUBE_ADDED);
    assert_told(sides->blue, sides->red, sides->selector, KUBE_ADDED);
    assert_told(sides->red, sides->red, sides->selector, KUBE_MODIFIED);
    assert_told(sides->red, sides->blue, sides->selector, KUBE_DELETED);
    assert_told(sides->red, NULL, sides->selector, KUBE_DELETED);
    assert_silent(sides->blue, sides->blue, sides->selector);
    assert_silent(NULL, sides->blue, sides->selector);
    assert_silent(sides->blue, NULL, sides->selector);
}

static void forgotten_past_is_told_only_where_it_does_not_matter(void **state)
{
    const struct sides *sides = *state;
    struct kube_change change = {.after = sides->red, .rev = 7, .blind = true};
    enum kube_event event;
    bool told = false;
    assert_int_equal(kube_change_told(&change, NULL, false, &told, &event), BELFRY_OK);
    assert_true(told);
    assert_int_equal(event, KUBE_MODIFIED);
    assert_int_equal(kube_change_told(&change, sides->selector, false, &told, &event), BELFRY_ERR_COMPACTED);
    change.after = NULL;
    assert_int_equal(kube_change_told(&change, NULL, false, &told, &event), BELFRY_ERR_COMPACTED);
}

/* Where a client would list at the very revision, and be told to list again. */
static void forgotten_past_of_where_one_resumes_takes_out_what_may_have_been_there(void **state)
{
    const struct sides *sides = *state;
    const struct {
        const struct kube_object *after;
        const struct kube_selector *selector;
        enum kube_event event;
    } rows[] = {{sides->red, NULL, KUBE_MODIFIED},
                {sides->red, sides->selector, KUBE_MODIFIED},
                {sides->blue, sides->selector, KUBE_DELETED},
                {NULL, sides->selector, KUBE_DELETED},
                {NULL, NULL, KUBE_DELETED}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kube_change change = {.after = rows[i].after, .rev = 7, .blind = true, .named = sides->named};
        enum kube_event event;
        bool told = false;
        assert_int_equal(kube_change_told(&change, rows[i].selector, true, &told, &event), BELFRY_OK);
        assert_true(told);
        assert_int_equal(event, rows[i].event);
        change.named = NULL; /* what has no name cannot be shown */
        assert_int_equal(kube_change_told(&change, rows[i].selector, true, &told, &event),
                         i == 0 ? BELFRY_OK : BELFRY_ERR_COMPACTED);
    }
}

/* ---- pins ---- */

static void assert_values(struct bed *bed, const struct batch *batch, struct belfry_bytes name, const char *before,
                          const char *after)
{
    struct belfry_bytes got[2];
    const char *expected[2] = {before, after};
    assert_true(kube_forms_attribute(bed->forms, batch, 0, name, &got[0], &got[1]));
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(got[i].data == NULL, expected[i] == NULL);
        if (expected[i] != NULL)
            assert_true(belfry_bytes_equal(got[i], belfry_bytes_str(expected[i])));
    }
}

static struct belfry_buf name_of(const struct bed *bed, const struct kube_pin *pin)
{
    struct belfry_buf name;
    belfry_buf_init(&name);
    assert_int_equal(kube_lens_pin_name(bed->lens, pin, &name), BELFRY_OK);
    return name;
}

static void pins_are_read_from_both_sides(void **state)
{
    (void)state;
    BED(bed);
    struct batch *batch = make_batch(41, KEY, BLU, RED), *gone = make_batch(42, KEY, NULL, BLU);
    struct belfry_buf node = name_of(&bed, &(struct kube_pin){.is_field = true, .field = 0});
    struct belfry_buf color = name_of(&bed, &(struct kube_pin){.label = belfry_bytes_str("color")});
    struct belfry_buf size = name_of(&bed, &(struct kube_pin){.label = belfry_bytes_str("size")});
    assert_values(&bed, batch, belfry_buf_bytes(&node), "n1", "n2");
    assert_values(&bed, batch, belfry_buf_bytes(&color), "red", "blu");
    assert_values(&bed, batch, belfry_buf_bytes(&size), NULL, "9");
    assert_values(&bed, gone, belfry_buf_bytes(&node), "n2", NULL);
    belfry_buf_fini(&node);
    belfry_buf_fini(&color);
    belfry_buf_fini(&size);
    batch_unref(batch);
    batch_unref(gone);
    bed_close(&bed);
}

static void pin_of_a_closed_lens_has_no_values(void **state)
{
    (void)state;
    BED(bed);
    struct batch *batch = make_batch(41, KEY, BLU, RED);
    struct belfry_buf node = name_of(&bed, &(struct kube_pin){.is_field = true, .field = 0});
    kube_lens_close(bed.forms, bed.lens);
    assert_values(&bed, batch, belfry_buf_bytes(&node), NULL, NULL);
    assert_int_equal(kube_lens_open(bed.forms, bed.resource, &bed.resource->versions[0], &bed.lens), BELFRY_OK);
    assert_values(&bed, batch, belfry_buf_bytes(&node), NULL, NULL); /* the same version, and another lens */
    belfry_buf_fini(&node);
    batch_unref(batch);
    bed_close(&bed);
}

static void lens_is_one_for_all_who_look(void **state)
{
    (void)state;
    BED(bed);
    const struct kube_lens *other;
    assert_int_equal(kube_lens_open(bed.forms, bed.resource, &bed.resource->versions[0], &other), BELFRY_OK);
    assert_ptr_equal(other, bed.lens);
    kube_lens_close(bed.forms, other);
    kube_lens_close(bed.forms, NULL);
    struct batch *batch = make_batch(41, KEY, RED, NULL);
    assert_non_null(see(&bed, batch, 0)->after);
    batch_unref(batch);
    bed_close(&bed);
}

/* Each of them costs every event a question. */
static void labels_that_watchers_are_found_by_are_bounded(void **state)
{
    (void)state;
    BED(bed);
    char keys[KUBE_LENS_LABELS + 1][16];
    struct kube_pin pin = {0}, field = {.is_field = true};
    for (size_t i = 0; i <= KUBE_LENS_LABELS; i++) {
        snprintf(keys[i], sizeof(keys[i]), "key%zu", i);
        pin.label = belfry_bytes_str(keys[i]);
        assert_int_equal(kube_lens_pin(bed.forms, bed.lens, &pin), i < KUBE_LENS_LABELS);
    }
    pin.label = belfry_bytes_str(keys[0]);
    assert_true(kube_lens_pin(bed.forms, bed.lens, &pin)); /* one more by the same */
    assert_true(kube_lens_pin(bed.forms, bed.lens, &field));
    kube_lens_unpin(bed.forms, bed.lens, &field);
    kube_lens_unpin(bed.forms, bed.lens, &pin);
    struct kube_pin other = {.label = belfry_bytes_str(keys[KUBE_LENS_LABELS])};
    assert_false(kube_lens_pin(bed.forms, bed.lens, &other));
    kube_lens_unpin(bed.forms, bed.lens, &pin);
    assert_true(kube_lens_pin(bed.forms, bed.lens, &other));
    refuse_begin(0);
    kube_lens_unpin(bed.forms, bed.lens, &other);
    assert_false(kube_lens_pin(bed.forms, bed.lens, &other));
    assert_true(refuse_end());
    for (size_t i = 1; i < KUBE_LENS_LABELS; i++) {
        pin.label = belfry_bytes_str(keys[i]);
        kube_lens_unpin(bed.forms, bed.lens, &pin);
    }
    bed_close(&bed);
}

/* ---- bounds ---- */

static void what_is_held_is_bounded_and_the_last_used_stays(void **state)
{
    (void)state;
    struct bed bed;
    struct batch *batches[200];
    const size_t max = 16 * 1024;
    assert_int_equal(bed_open(&bed, max), BELFRY_OK);
    for (int64_t i = 0; i < 200; i++) {
        batches[i] = make_batch(41 + i, KEY, RED, NULL);
        belfry_blob_unref(line_of(&bed, see(&bed, batches[i], 0), KUBE_VIEW_OBJECT, KUBE_ADDED, true));
        see(&bed, batches[0], 0);
        assert_true(stats_of(&bed).bytes <= max);
    }
    assert_true(stats_of(&bed).changes > 1 && stats_of(&bed).changes < 100);
    assert_int_equal(stats_of(&bed).made, 200); /* the first was never made again */
    for (size_t i = 0; i < 200; i++)
        batch_unref(batches[i]);
    bed_close(&bed);
}

static void one_that_is_larger_than_the_bound_is_held_alone(void **state)
{
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open(&bed, 1), BELFRY_OK);
    struct batch *one = make_batch(41, KEY, RED, NULL), *two = make_batch(42, KEY, RED, NULL);
    see(&bed, one, 0);
    see(&bed, one, 0);
    assert_int_equal(stats_of(&bed).made, 1);
    belfry_blob_unref(line_of(&bed, see(&bed, two, 0), KUBE_VIEW_OBJECT, KUBE_ADDED, true));
    assert_int_equal(stats_of(&bed).changes, 1);
    batch_unref(one);
    batch_unref(two);
    bed_close(&bed);
}

/* ---- objects of an API server ---- */

#define POD(version, node)                                                                                             \
    "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\",\"namespace\":\"prod\",\"resourceVersion\":" \
    "\"" version "\",\"labels\":{\"color\":\"red\"}},\"spec\":{\"nodeName\":\"" node "\"}}"

static enum belfry_err make_pods(struct kube_resource **out)
{
    struct kube_api_resource of = {
        .group = "", .version = "v1", .plural = "pods", .singular = "pod", .kind = "Pod", .namespaced = true};
    return kube_resource_of_api(&of, out);
}

static struct bed pods_bed(void)
{
    struct bed bed;
    struct kube_resource *pods;
    assert_int_equal(make_pods(&pods), BELFRY_OK);
    assert_int_equal(bed_open_with(&bed, KUBE_FORMS_BYTES, pods), BELFRY_OK);
    return bed;
}

static const struct kube_change *see_text(struct bed *bed, const struct batch *batch)
{
    const struct kube_change *change;
    assert_int_equal(kube_forms_change(bed->forms, bed->lens, batch, 0, KUBE_NEED_TEXT, &change), BELFRY_OK);
    return change;
}

static void an_api_server_s_object_is_parsed_for_selectors_alone(void **state)
{
    (void)state;
    struct bed bed = pods_bed();
    struct batch *batch = make_batch(41, "prod/a", POD("41", "n2"), POD("40", "n1"));
    struct belfry_blob *line = line_of(&bed, see_text(&bed, batch), KUBE_VIEW_OBJECT, KUBE_MODIFIED, true);
    assert_false(see_text(&bed, batch)->after->is_selectable);
    assert_int_equal(stats_of(&bed).parsed, 0);
    size_t bytes = stats_of(&bed).bytes;

    const struct kube_change *change = see(&bed, batch, 0);
    assert_true(change->after->is_selectable && change->before->is_selectable);
    assert_true(belfry_bytes_equal(change->before->attributes.fields[0], belfry_bytes_str("n1")));
    assert_true(belfry_bytes_equal(change->after->attributes.fields[0], belfry_bytes_str("n2")));
    struct belfry_blob *again = line_of(&bed, change, KUBE_VIEW_OBJECT, KUBE_MODIFIED, true);
    assert_ptr_equal(line, again);
    assert_true(see_text(&bed, batch)->after->is_selectable); /* and stays so */
    assert_int_equal(stats_of(&bed).parsed, 1);
    assert_int_equal(stats_of(&bed).made, 1);
    assert_true(stats_of(&bed).bytes > bytes);
    belfry_blob_unref(line);
    belfry_blob_unref(again);
    batch_unref(batch);
    bed_close(&bed);
}

static void an_api_server_s_object_is_shown_as_it_is(void **state)
{
    (void)state;
    struct bed bed = pods_bed();
    struct batch *put = make_batch(41, "prod/a", POD("41", "n2"), POD("40", "n1")),
                 *gone = make_batch(42, "prod/a", NULL, POD("41", "n2"));
    assert_line(&bed, see_text(&bed, put), KUBE_MODIFIED, "{\"type\":\"MODIFIED\",\"object\":" POD("41", "n2") "}\n");
    assert_line(&bed, see(&bed, put, 0), KUBE_DELETED, "{\"type\":\"DELETED\",\"object\":" POD("41", "n1") "}\n");
    assert_line(&bed, see_text(&bed, gone), KUBE_DELETED, "{\"type\":\"DELETED\",\"object\":" POD("42", "n2") "}\n");
    batch_unref(put);
    batch_unref(gone);
    bed_close(&bed);
}

static enum belfry_err parse_later(void)
{
    const struct widget_event event = {"prod/a", POD("41", "n2"), POD("40", "n1"), false};
    struct bed bed = {0};
    struct batch *batch = NULL;
    struct kube_resource *pods;
    const struct kube_change *change;
    enum belfry_err err = make_pods(&pods);
    if (err == BELFRY_OK)
        err = bed_open_with(&bed, KUBE_FORMS_BYTES, pods);
    if (err == BELFRY_OK)
        err = widget_batch(41, &event, 1, &batch);
    if (err == BELFRY_OK)
        err = kube_forms_change(bed.forms, bed.lens, batch, 0, KUBE_NEED_TEXT, &change);
    if (err == BELFRY_OK)
        err = kube_forms_change(bed.forms, bed.lens, batch, 0, KUBE_NEED_ATTRIBUTES, &change);
    batch_unref(batch);
    bed_close(&bed);
    return err;
}

static enum belfry_err use(struct bed *bed, const struct batch *batch, struct belfry_buf *name)
{
    const struct kube_pin pin = {.label = belfry_bytes_str("color")};
    struct kube_line how = {.view = KUBE_VIEW_TABLE, .event = KUBE_MODIFIED, .first = true};
    const struct kube_change *change;
    struct belfry_blob *blob = NULL;
    struct belfry_bytes before, after;
    enum belfry_err err = kube_forms_change(bed->forms, bed->lens, batch, 0, KUBE_NEED_ATTRIBUTES, &change);
    if (err == BELFRY_OK)
        err = kube_forms_line(bed->forms, bed->lens, change, &how, &blob);
    belfry_blob_unref(blob);
    if (err == BELFRY_OK)
        err = kube_lens_pin_name(bed->lens, &pin, name);
    if (err == BELFRY_OK && !kube_forms_attribute(bed->forms, batch, 0, belfry_buf_bytes(name), &before, &after))
        err = BELFRY_ERR_NOMEM;
    return err;
}

static enum belfry_err scenario_of(const struct widget_event *event)
{
    struct bed bed;
    struct batch *batch = NULL;
    struct belfry_buf name;
    belfry_buf_init(&name);
    enum belfry_err err = bed_open(&bed, KUBE_FORMS_BYTES);
    if (err == BELFRY_OK)
        err = widget_batch(41, event, 1, &batch);
    if (err == BELFRY_OK)
        err = use(&bed, batch, &name);
    belfry_buf_fini(&name);
    batch_unref(batch);
    bed_close(&bed);
    return err;
}

static enum belfry_err seeing(void)
{
    return scenario_of(&(struct widget_event){KEY, BLU, RED, false});
}

static enum belfry_err blind(void)
{
    return scenario_of(&(struct widget_event){KEY, BLU, NULL, true});
}

static void every_refused_allocation_is_survived(void **state)
{
    (void)state;
    assert_true(refuse_sweep(seeing) > 8);
    assert_true(refuse_sweep(blind) > 8);
    assert_true(refuse_sweep(parse_later) > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deleted_shows_what_was_there_at_the_revision_of_the_delete),
        cmocka_unit_test(event_is_decoded_once_and_its_lines_are_shared),
        cmocka_unit_test(rewritten_past_is_not_taken_for_the_old_one),
        cmocka_unit_test(events_of_a_revision_are_told_apart),
        cmocka_unit_test(every_line_of_a_revision_carries_it),
        cmocka_unit_test(what_cannot_be_decoded_is_absent_and_counted),
        cmocka_unit_test(forgotten_previous_value_makes_a_blind_change),
        cmocka_unit_test(object_before_a_delete_is_the_one_that_its_revision_has_put),
        cmocka_unit_test(pins_are_read_from_both_sides),
        cmocka_unit_test(pin_of_a_closed_lens_has_no_values),
        cmocka_unit_test(lens_is_one_for_all_who_look),
        cmocka_unit_test(what_is_held_is_bounded_and_the_last_used_stays),
        cmocka_unit_test(one_that_is_larger_than_the_bound_is_held_alone),
        cmocka_unit_test(labels_that_watchers_are_found_by_are_bounded),
        cmocka_unit_test(an_api_server_s_object_is_parsed_for_selectors_alone),
        cmocka_unit_test(an_api_server_s_object_is_shown_as_it_is),
        cmocka_unit_test(every_refused_allocation_is_survived),
        cmocka_unit_test_setup_teardown(who_watches_everything_is_told_what_happened, sides_open, sides_close),
        cmocka_unit_test_setup_teardown(who_selects_is_told_what_it_means_to_him, sides_open, sides_close),
        cmocka_unit_test_setup_teardown(forgotten_past_is_told_only_where_it_does_not_matter, sides_open, sides_close),
        cmocka_unit_test_setup_teardown(forgotten_past_of_where_one_resumes_takes_out_what_may_have_been_there,
                                        sides_open, sides_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
