/* fuzz/kube_object.c: any bytes as a value in etcd that is to be shown as a Kubernetes object.
 *
 * The first byte says whether the value is wrapped and whether the resource has namespaces; the rest is the value. What
 * comes of it is one line of JSON that says of itself what key and resource say, and of the rest exactly what the value
 * says, numbers byte for byte; shown once more it is the same. Every view of it is JSON, too.
 *
 * Or the value is an API server's: then it is shown byte for byte, but for its version. Its text is looked through
 * without being parsed, also if it is no JSON.
 *
 * An object that a selector matches has the selector's needle.
 */
#include <stdint.h>

#include "fuzz/check.h"
#include "kube/needle.h"
#include "kube/object.h"
#include "kube/render.h"
#include "json/document.h"
#include "json/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define INPUT_MAX 16384 /* checks go as deep as it nests */
#define NOW_S     1700000000

static char kind[] = "Widget", list_kind[] = "WidgetList", api_version[] = "demo.example.com/v1", prefix[] = "/w/",
            wrap_key[] = "{namespace}/{name}", wrap_name[] = "{name}", wrap_field[] = "spec", string[] = "string",
            date[] = "date", integer[] = "integer", number[] = "number", boolean[] = "boolean", label[] = "X";
static char field_a[] = "spec.a", field_c[] = "spec.b.c";
static struct kube_field fields[2] = {{.name = field_a}, {.name = field_c}};
static struct kube_selector *selectors[3];
static struct kube_column columns[] = {{.name = label, .type = string},
                                       {.name = label, .type = date},
                                       {.name = label, .type = integer},
                                       {.name = label, .type = number},
                                       {.name = label, .type = boolean}};
static struct kube_version version = {
    .api_version = api_version, .fields = fields, .n_fields = 2, .columns = columns, .n_columns = 5};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char *const field_paths[] = {".spec.a", ".spec.b.c"};
    (void)argc;
    (void)argv;
    for (size_t i = 0; i < version.n_fields; i++)
        check(belfry_kube_path_read(belfry_bytes_str(field_paths[i]), &fields[i].path) == BELFRY_OK);
    for (size_t i = 0; i < version.n_columns; i++)
        check(belfry_kube_path_read(belfry_bytes_str(".spec.a"), &columns[i].path) == BELFRY_OK);
    static const char *const texts[][2] = {{"", "spec.a=n1"}, {"app=p1", ""}, {"", "spec.b.c=x/y"}};
    for (size_t i = 0; i < 3; i++) {
        struct kube_resource of = {.namespaced = true};
        struct kube_status status;
        check(kube_selector_read(belfry_bytes_str(texts[i][0]), belfry_bytes_str(texts[i][1]), &of, &version,
                                 &selectors[i], &status) == BELFRY_OK);
    }
    return 0;
}

/* ---- comparing ---- */

static bool is_one_of(yyjson_val *name, const char *const *names)
{
    for (size_t i = 0; names != NULL && names[i] != NULL; i++) {
        if (belfry_bytes_equal(belfry_kube_document_bytes(name), belfry_bytes_str(names[i])))
            return true;
    }
    return false;
}

static void check_same(yyjson_val *a, yyjson_val *b);

/* `b` has what `a` has but for `dropped`, in the same order, behind its first `skip` members. */
static void check_members(yyjson_val *a, yyjson_val *b, const char *const *dropped, size_t skip)
{
    yyjson_obj_iter in = yyjson_obj_iter_with(a), out = yyjson_obj_iter_with(b);
    for (size_t i = 0; i < skip; i++)
        check(yyjson_obj_iter_next(&out) != NULL);
    for (yyjson_val *name; (name = yyjson_obj_iter_next(&in)) != NULL;) {
        if (is_one_of(name, dropped))
            continue;
        yyjson_val *shown = yyjson_obj_iter_next(&out);
        check(shown != NULL && belfry_bytes_equal(belfry_kube_document_bytes(name), belfry_kube_document_bytes(shown)));
        check_same(yyjson_obj_iter_get_val(name), yyjson_obj_iter_get_val(shown));
    }
    check(yyjson_obj_iter_next(&out) == NULL);
}

static void check_same(yyjson_val *a, yyjson_val *b)
{
    check(yyjson_get_tag(a) == yyjson_get_tag(b) || yyjson_is_str(a)); /* type, and length or size */
    if (yyjson_is_obj(a)) {
        check_members(a, b, NULL, 0);
    } else if (yyjson_is_arr(a)) {
        yyjson_arr_iter in = yyjson_arr_iter_with(a), out = yyjson_arr_iter_with(b);
        for (yyjson_val *val; (val = yyjson_arr_iter_next(&in)) != NULL;)
            check_same(val, yyjson_arr_iter_next(&out));
    } else if (yyjson_is_str(a) || yyjson_is_raw(a)) {
        check(yyjson_get_type(a) == yyjson_get_type(b));
        check(belfry_bytes_equal(belfry_kube_document_bytes(a), belfry_kube_document_bytes(b)));
    }
}

static yyjson_val *last_member(yyjson_val *object, const char *wanted)
{
    const char *const names[] = {wanted, NULL};
    yyjson_val *found = NULL;
    yyjson_obj_iter members = yyjson_obj_iter_with(object);
    for (yyjson_val *name; (name = yyjson_obj_iter_next(&members)) != NULL;) {
        yyjson_val *val = yyjson_obj_iter_get_val(name);
        if (is_one_of(name, names))
            found = val;
    }
    return found;
}

static size_t depth_of(yyjson_val *val)
{
    size_t deepest = 0;
    yyjson_arr_iter values = yyjson_arr_iter_with(val);
    yyjson_obj_iter members = yyjson_obj_iter_with(val);
    for (yyjson_val *name; (name = yyjson_obj_iter_next(&members)) != NULL;) {
        size_t depth = depth_of(yyjson_obj_iter_get_val(name));
        deepest = depth > deepest ? depth : deepest;
    }
    for (yyjson_val *inner; (inner = yyjson_arr_iter_next(&values)) != NULL;) {
        size_t depth = depth_of(inner);
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest + (yyjson_is_ctn(val) ? 1 : 0);
}

/* ---- what must be so ---- */

static void check_needles(const struct kube_object *object, struct belfry_bytes value)
{
    for (size_t i = 0; i < 3; i++) {
        struct kube_needle needle = kube_needle_of(selectors[i], &version);
        check(needle.len > 0);
        check(!kube_selector_matches(selectors[i], &object->attributes) || kube_needle_may_match(&needle, value));
    }
}

static void check_shown(const struct kube_resource *resource, yyjson_val *in, yyjson_val *out)
{
    static const char *const ours[] = {"apiVersion", "kind", "metadata", NULL};
    static const char *const ours_in_metadata[] = {"resourceVersion", "name", "namespace", "selfLink", NULL};
    yyjson_val *metadata = yyjson_obj_get(out, "metadata");
    size_t names = resource->namespaced ? 3 : 2;
    check(yyjson_equals_str(yyjson_obj_get(out, "apiVersion"), api_version));
    check(yyjson_equals_str(yyjson_obj_get(out, "kind"), kind));
    check(yyjson_equals_str(yyjson_obj_get(metadata, "resourceVersion"), "12"));
    check(yyjson_equals_str(yyjson_obj_get(metadata, "name"), "a"));
    check((yyjson_obj_get(metadata, "namespace") != NULL) == resource->namespaced);
    if (resource->wrap_key != NULL) {
        check(yyjson_obj_size(out) == 4 && yyjson_obj_size(metadata) == names + 2);
        check_same(in, yyjson_obj_get(out, wrap_field));
    } else {
        check_members(in, out, ours, 3);
        check_members(last_member(in, "metadata"), metadata, ours_in_metadata, names);
    }
}

static void check_attributes(const struct kube_attributes *attributes)
{
    check(attributes->name.len == 1 && attributes->namespace.data != NULL);
    for (size_t i = 0; i < attributes->n_labels; i++) {
        check(attributes->labels[i].key.data != NULL && attributes->labels[i].value.data != NULL);
        check(i == 0 || belfry_bytes_cmp(attributes->labels[i - 1].key, attributes->labels[i].key) < 0);
    }
    for (size_t i = 0; i < version.n_fields; i++)
        check(attributes->fields[i].data != NULL);
}

static void check_line(struct belfry_bytes text)
{
    struct belfry_kube_document document;
    check(text.len > 0 && memchr(text.data, '\n', text.len) == text.data + text.len - 1);
    check(belfry_kube_document_read(&text, 1, &document) == BELFRY_OK);
    belfry_kube_document_fini(&document);
}

static void check_views(const struct kube_resource *resource, const struct kube_object *object)
{
    for (unsigned i = 0; i < 5; i++) {
        static const enum kube_view views[] = {KUBE_VIEW_OBJECT, KUBE_VIEW_METADATA, KUBE_VIEW_TABLE, KUBE_VIEW_TABLE,
                                               KUBE_VIEW_TABLE};
        static const enum kube_include includes[] = {0, 0, KUBE_INCLUDE_METADATA, KUBE_INCLUDE_NONE,
                                                     KUBE_INCLUDE_OBJECT};
        struct kube_render render = {
            .resource = resource, .version = &version, .view = views[i], .include = includes[i], .now_s = NOW_S};
        struct belfry_buf out;
        belfry_buf_init(&out);
        check(kube_render_event(&render, KUBE_DELETED, object, 13, i == 3, &out) == BELFRY_OK);
        check_line(belfry_buf_bytes(&out));
        belfry_buf_fini(&out);
    }
}

static void join(const struct kube_object *object, struct belfry_buf *text)
{
    belfry_buf_init(text);
    check(belfry_buf_append(text, object->head.data, object->head.len) == BELFRY_OK);
    check(belfry_buf_append(text, "12", 2) == BELFRY_OK);
    check(belfry_buf_append(text, object->tail.data, object->tail.len) == BELFRY_OK);
}

static void check_again(const struct kube_resource *resource, struct belfry_bytes key, struct belfry_bytes text)
{
    struct kube_stored stored = {.key = key, .value = text};
    struct kube_object *again;
    struct belfry_buf shown;
    check(kube_object_make(resource, &version, &stored, &again) == BELFRY_OK);
    join(again, &shown);
    check(belfry_bytes_equal(belfry_buf_bytes(&shown), text));
    belfry_buf_fini(&shown);
    kube_object_unref(again);
}

static void check_object(const struct kube_resource *resource, const struct kube_stored *stored,
                         const struct kube_object *object)
{
    struct belfry_kube_document in, out;
    struct belfry_buf text;
    join(object, &text);
    struct belfry_bytes bytes = belfry_buf_bytes(&text);
    for (size_t i = 0; i < bytes.len; i++)
        check((unsigned char)bytes.data[i] >= 0x20);
    check(belfry_kube_document_read(&stored->value, 1, &in) == BELFRY_OK);
    check(belfry_kube_document_read(&bytes, 1, &out) == BELFRY_OK);
    check_shown(resource, in.root, out.root);
    check_attributes(&object->attributes);
    check_needles(object, stored->value);
    check_views(resource, object);
    if (resource->wrap_key == NULL)
        check_again(resource, stored->key, bytes);
    belfry_kube_document_fini(&in);
    belfry_kube_document_fini(&out);
    belfry_buf_fini(&text);
}

/* What is refused is no JSON, no object of the kind that is wanted, or too deep. */
static void check_refused(const struct kube_resource *resource, struct belfry_bytes value)
{
    struct belfry_kube_document document;
    if (belfry_kube_document_read(&value, 1, &document) != BELFRY_OK)
        return;
    size_t depth = depth_of(document.root);
    if (resource->wrap_key != NULL)
        check(!yyjson_is_obj(document.root) || depth + 1 > KUBE_OBJECT_DEPTH_MAX);
    else
        check(!yyjson_is_obj(last_member(document.root, "metadata")) || depth > KUBE_OBJECT_DEPTH_MAX);
    belfry_kube_document_fini(&document);
}

/* ---- an API server's ---- */

static bool is_inside(struct belfry_bytes part, struct belfry_bytes whole)
{
    return part.data >= whole.data && part.len <= whole.len && part.data + part.len <= whole.data + whole.len;
}

/* head, version and tail are the value; the metadata is a part of it. */
static void check_lent(const struct kube_object *object, struct belfry_bytes value)
{
    check(is_inside(object->head, value) && is_inside(object->tail, value));
    check(object->head.data == value.data && object->head.data + object->head.len <= object->tail.data);
    check(object->tail.data + object->tail.len == value.data + value.len);
    check(object->metadata_at < object->head.len && object->metadata_bytes <= object->tail.len);
}

static void check_bytes(const struct kube_object *object, struct belfry_bytes value)
{
    size_t gap = value.len - object->head.len - object->tail.len;
    check(gap <= value.len && memcmp(object->head.data, value.data, object->head.len) == 0);
    check(memcmp(object->tail.data, value.data + object->head.len + gap, object->tail.len) == 0);
}

static void check_metadata(const struct kube_resource *resource, const struct kube_object *object)
{
    struct kube_render render = {.resource = resource, .version = &version, .view = KUBE_VIEW_METADATA};
    struct belfry_kube_document document;
    struct belfry_buf out;
    belfry_buf_init(&out);
    check(kube_render_item(&render, object, 13, &out) == BELFRY_OK);
    struct belfry_bytes bytes = belfry_buf_bytes(&out);
    check(belfry_kube_document_read(&bytes, 1, &document) == BELFRY_OK);
    yyjson_val *metadata = yyjson_obj_get(document.root, "metadata");
    check(yyjson_equals_str(yyjson_obj_get(metadata, "resourceVersion"), "13"));
    belfry_kube_document_fini(&document);
    belfry_buf_fini(&out);
}

static void check_verbatim(struct belfry_bytes value)
{
    static char nothing[] = "", omitted[] = "{\"kind\":\"Widget\",";
    struct kube_resource resource = {
        .kind = kind, .list_kind = list_kind, .prefix = nothing, .omitted = omitted, .is_verbatim = true};
    struct kube_stored stored = {.key = belfry_bytes_str("a"), .value = value};
    struct kube_object lent, *object, *text;
    bool is_lent = kube_object_lend(value, &lent);
    enum belfry_err err = kube_object_make_text(&resource, &stored, &text);
    check(is_lent == (err == BELFRY_OK));
    if (is_lent) {
        check_lent(&lent, value);
        check_bytes(text, value);
        kube_object_unref(text);
    }
    err = kube_object_make(&resource, &version, &stored, &object);
    check(err == BELFRY_ERR_INVALID || (err == BELFRY_OK && is_lent));
    if (err != BELFRY_OK)
        return;
    check_attributes(&object->attributes);
    check_needles(object, value);
    check_bytes(object, value);
    check_metadata(&resource, object);
    kube_object_unref(object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > INPUT_MAX)
        return 0;
    if ((data[0] & 4) != 0) {
        check_verbatim(belfry_bytes_of(data + 1, size - 1));
        return 0;
    }
    bool wrap = (data[0] & 1) != 0, namespaced = (data[0] & 2) != 0;
    struct kube_resource resource = {.kind = kind,
                                     .list_kind = list_kind,
                                     .namespaced = namespaced,
                                     .prefix = prefix,
                                     .wrap_key = !wrap        ? NULL
                                                 : namespaced ? wrap_key
                                                              : wrap_name,
                                     .wrap_field = wrap ? wrap_field : NULL};
    struct kube_stored stored = {.key = belfry_bytes_str(namespaced ? "/w/ns/a" : "/w/a"),
                                 .value = belfry_bytes_of(data + 1, size - 1),
                                 .create_rev = 5,
                                 .mod_rev = 12,
                                 .version = 2};
    struct kube_object *object;
    enum belfry_err err = kube_object_make(&resource, &version, &stored, &object);
    check(err == BELFRY_OK || err == BELFRY_ERR_INVALID);
    if (err == BELFRY_OK) {
        check_object(&resource, &stored, object);
        kube_object_unref(object);
    } else {
        check_refused(&resource, stored.value);
    }
    return 0;
}
