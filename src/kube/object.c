/* src/kube/object.c */
#include "kube/object.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "json/document.h"
#include "json/escape.h"
#include "json/path.h"
#include "json/shallow.h"

#define ESCAPE_MAX 6   /* bytes for one escaped byte of a string */
#define FRAME_MAX  512 /* room for the names, quotes and numbers around a value */

/* One allocation: this struct, the labels, the strings of the attributes, the text. */
struct shared {
    struct kube_object object;
    atomic_size_t refs; /* release on unref, acquire before free: all other holders' reads end before the free */
    size_t bytes;
    struct kube_label labels[];
};

/* A parsed value, before its object exists. Everything but the document is lent. */
struct source {
    const struct kube_resource *resource;
    const struct kube_version *version;
    const struct kube_stored *stored;
    struct belfry_bytes namespace, name;
    bool is_copied;                       /* the text is the value; otherwise it is made of the document */
    struct belfry_kube_document document; /* with a wrap: {"spec": the value}; none if only the text is wanted */
    yyjson_val *metadata;                 /* NULL with a wrap */
    yyjson_val *labels;                   /* NULL: none */
    size_t n_labels;                      /* only labels whose value is a string */
    struct belfry_bytes fields[KUBE_FIELDS_MAX];
    size_t string_bytes; /* of all attributes */
};

/* ---- text ---- */

/* Writes without checks: text_max() computed the room. */
struct pen {
    char *at;
};

static void pen_put(struct pen *pen, struct belfry_bytes bytes)
{
    if (bytes.len > 0)
        memcpy(pen->at, bytes.data, bytes.len);
    pen->at += bytes.len;
}

static void pen_put_str(struct pen *pen, const char *text)
{
    pen_put(pen, belfry_bytes_str(text));
}

static void pen_put_string(struct pen *pen, struct belfry_bytes text)
{
    size_t from = 0;
    *pen->at++ = '"';
    for (size_t i = 0; i < text.len; i++) {
        if (!belfry_escape_needed(text.data[i]))
            continue;
        pen_put(pen, belfry_bytes_of(text.data + from, i - from));
        pen->at += belfry_escape_write(text.data[i], pen->at);
        from = i + 1;
    }
    if (from < text.len)
        pen_put(pen, belfry_bytes_of(text.data + from, text.len - from));
    *pen->at++ = '"';
}

/* A string of the value, or a member's name. yyjson knows whether it contains anything to escape; usually not. */
static void put_val_string(struct pen *pen, yyjson_val *val)
{
    if (yyjson_get_subtype(val) != YYJSON_SUBTYPE_NOESC) {
        pen_put_string(pen, belfry_kube_document_bytes(val));
        return;
    }
    *pen->at++ = '"';
    pen_put(pen, belfry_kube_document_bytes(val));
    *pen->at++ = '"';
}

typedef bool (*skip_fn)(struct belfry_bytes name);

static bool object_put_value(struct pen *pen, yyjson_val *val, unsigned depth);

/* The members of an object except those that `skip` (NULL: none) names, with a comma before each; if `first`, not
 * before the first one. */
static bool put_members(struct pen *pen, yyjson_val *object, unsigned depth, skip_fn skip, bool first)
{
    yyjson_obj_iter members = yyjson_obj_iter_with(object);
    for (yyjson_val *name; (name = yyjson_obj_iter_next(&members)) != NULL;) {
        if (skip != NULL && skip(belfry_kube_document_bytes(name)))
            continue;
        if (!first)
            *pen->at++ = ',';
        first = false;
        put_val_string(pen, name);
        *pen->at++ = ':';
        if (!object_put_value(pen, yyjson_obj_iter_get_val(name), depth))
            return false;
    }
    return true;
}

/* `depth`: the number of enclosing objects and arrays. False: too deep. */
static bool object_put_value(struct pen *pen, yyjson_val *val, unsigned depth)
{
    yyjson_arr_iter values;
    if (yyjson_is_ctn(val) && depth >= KUBE_OBJECT_DEPTH_MAX)
        return false;
    switch (yyjson_get_type(val)) {
    case YYJSON_TYPE_OBJ:
        *pen->at++ = '{';
        if (!put_members(pen, val, depth + 1, NULL, true))
            return false;
        *pen->at++ = '}';
        return true;
    case YYJSON_TYPE_ARR:
        values = yyjson_arr_iter_with(val);
        *pen->at++ = '[';
        for (yyjson_val *element; (element = yyjson_arr_iter_next(&values)) != NULL;) {
            if (values.idx > 1)
                *pen->at++ = ',';
            if (!object_put_value(pen, element, depth + 1))
                return false;
        }
        *pen->at++ = ']';
        return true;
    case YYJSON_TYPE_STR:
        put_val_string(pen, val);
        return true;
    case YYJSON_TYPE_BOOL:
        pen_put_str(pen, yyjson_get_bool(val) ? "true" : "false");
        return true;
    case YYJSON_TYPE_NULL:
        pen_put_str(pen, "null");
        return true;
    default: /* numbers are raw */
        pen_put(pen, belfry_kube_document_bytes(val));
        return true;
    }
}

/* ---- the object's text ---- */

static bool is_named(struct belfry_bytes name, const char *expected)
{
    return belfry_bytes_equal(name, belfry_bytes_str(expected));
}

static bool is_ours(struct belfry_bytes name)
{
    return is_named(name, "apiVersion") || is_named(name, "kind") || is_named(name, "metadata");
}

static bool is_ours_in_metadata(struct belfry_bytes name)
{
    return is_named(name, "resourceVersion") || is_named(name, "name") || is_named(name, "namespace") ||
           is_named(name, "selfLink");
}

static size_t text_max(const struct source *source)
{
    if (source->is_copied)
        return source->stored->value.len;
    const char *wrap_field = source->resource->wrap_field != NULL ? source->resource->wrap_field : "";
    size_t escaped = strlen(source->version->api_version) + strlen(source->resource->kind) + strlen(wrap_field) +
                     source->namespace.len + source->name.len;
    return FRAME_MAX + ESCAPE_MAX * escaped + source->stored->value.len;
}

#define MADE_METADATA "{\"resourceVersion\":\"" /* the end of a head that is made */

/* A name-based UUID of our own (RFC 9562, version 8), for clients that expect a uid. A key that is deleted and put
 * again is another object, with another uid. */
static void put_made_metadata(struct pen *pen, const struct kube_stored *stored)
{
    struct belfry_hash_key high = {0x6b7562652d756964, (uint64_t)stored->create_rev};
    struct belfry_hash_key low = {0x6f626a6563742d31, (uint64_t)stored->create_rev};
    uint64_t a = belfry_hash(high, stored->key), b = belfry_hash(low, stored->key);
    a = (a & ~(uint64_t)0xF000) | 0x8000;
    b = (b & ~((uint64_t)3 << 62)) | (uint64_t)1 << 63;
    char text[128];
    snprintf(text, sizeof(text),
             ",\"uid\":\"%08" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%012" PRIx64
             "\",\"generation\":%" PRId64,
             a >> 32, a >> 16 & 0xFFFF, a & 0xFFFF, b >> 48, b & 0xFFFFFFFFFFFF, stored->version);
    pen_put_str(pen, text);
}

/* Writes the whole text and stores the lengths of head, tail and the metadata in both in `lens`. False: nested too
 * deep. */
static bool object_put_made(struct pen *pen, const struct source *source, struct kube_object *lens)
{
    char *start = pen->at;
    pen_put_str(pen, "{\"apiVersion\":");
    pen_put_string(pen, belfry_bytes_str(source->version->api_version));
    pen_put_str(pen, ",\"kind\":");
    pen_put_string(pen, belfry_bytes_str(source->resource->kind));
    pen_put_str(pen, ",\"metadata\":" MADE_METADATA);

    /* the gap for the version; the names of the key, and the other metadata */
    char *tail = pen->at;
    pen_put_str(pen, "\",\"name\":");
    pen_put_string(pen, source->name);
    if (source->namespace.len > 0) {
        pen_put_str(pen, ",\"namespace\":");
        pen_put_string(pen, source->namespace);
    }
    if (source->metadata == NULL)
        put_made_metadata(pen, source->stored);
    else if (!put_members(pen, source->metadata, 2, is_ours_in_metadata, false))
        return false;
    *pen->at++ = '}';
    char *metadata_end = pen->at;

    if (!put_members(pen, source->document.root, 1, is_ours, false))
        return false;
    *pen->at++ = '}';

    lens->head.len = (size_t)(tail - start);
    lens->tail.len = (size_t)(pen->at - tail);
    lens->metadata_at = lens->head.len - strlen(MADE_METADATA);
    lens->metadata_bytes = (size_t)(metadata_end - tail);
    return true;
}

/* The value of the first member of that name: API servers write none twice. */
static bool find_member(struct belfry_bytes object, const char *name, struct belfry_bytes *value)
{
    struct belfry_shallow_member member;
    if (!belfry_shallow_is_object(object))
        return false;
    struct belfry_shallow walk = belfry_shallow_walk(object);
    while (belfry_shallow_next(&walk, &member)) {
        if (belfry_bytes_equal(member.name, belfry_bytes_str(name))) {
            *value = member.value;
            return true;
        }
    }
    return false;
}

/* The text is searched, not parsed, up to the end of the metadata. If it is not JSON, the result is wrong or false. */
bool kube_object_lend(struct belfry_bytes value, struct kube_object *out)
{
    struct belfry_bytes metadata, version;
    if (!find_member(value, "metadata", &metadata) || !find_member(metadata, "resourceVersion", &version))
        return false;
    if (version.len < 2 || !belfry_shallow_is_string(version))
        return false;
    version = belfry_shallow_text(version);

    const char *gap = version.data, *rest = gap + version.len;
    const char *metadata_end = metadata.data + metadata.len;
    *out = (struct kube_object){.head = belfry_bytes_of(value.data, (size_t)(gap - value.data)),
                                .tail = belfry_bytes_of(rest, (size_t)(value.data + value.len - rest)),
                                .metadata_at = (size_t)(metadata.data - value.data),
                                .metadata_bytes = (size_t)(metadata_end - rest)};
    return true;
}

/* Copies the value with its version: the gap has bytes that neither head nor tail has. */
static bool object_put_copy(struct pen *pen, const struct source *source, struct kube_object *lens)
{
    struct belfry_bytes copy = belfry_bytes_of(pen->at, source->stored->value.len);
    pen_put(pen, source->stored->value);
    return kube_object_lend(copy, lens);
}

/* ---- reading ---- */

static enum belfry_err read_wrapped(struct source *source)
{
    const char *field = source->resource->wrap_field;
    size_t len = strlen(field);
    char *lead = malloc(ESCAPE_MAX * len + 8);
    if (lead == NULL)
        return BELFRY_ERR_NOMEM;
    struct pen pen = {.at = lead};
    pen_put_str(&pen, "{");
    pen_put_string(&pen, belfry_bytes_of(field, len));
    pen_put_str(&pen, ":");
    struct belfry_bytes parts[] = {belfry_bytes_of(lead, (size_t)(pen.at - lead)), source->stored->value,
                                   belfry_bytes_str("}")};
    enum belfry_err err = belfry_kube_document_read(parts, 3, &source->document);
    free(lead);
    if (err != BELFRY_OK)
        return err;
    /* A value such as {},"more":{} would close the field and add another: by itself it is not JSON. */
    yyjson_val *root = source->document.root;
    bool whole = yyjson_obj_size(root) == 1 && yyjson_is_obj(yyjson_obj_getn(root, field, len));
    return whole ? BELFRY_OK : BELFRY_ERR_INVALID;
}

static yyjson_val *last_member(yyjson_val *object, const char *wanted)
{
    yyjson_val *found = NULL;
    yyjson_obj_iter members = yyjson_obj_iter_with(object);
    for (yyjson_val *name; (name = yyjson_obj_iter_next(&members)) != NULL;) {
        if (is_named(belfry_kube_document_bytes(name), wanted))
            found = yyjson_obj_iter_get_val(name);
    }
    return found;
}

static enum belfry_err read_value(struct source *source)
{
    if (source->resource->wrap_key != NULL)
        return read_wrapped(source);
    enum belfry_err err = belfry_kube_document_read(&source->stored->value, 1, &source->document);
    if (err != BELFRY_OK)
        return err;
    source->metadata = last_member(source->document.root, "metadata");
    return yyjson_is_obj(source->metadata) ? BELFRY_OK : BELFRY_ERR_INVALID;
}

/* ---- attributes ---- */

static struct belfry_bytes field_of(yyjson_val *val)
{
    if (yyjson_is_str(val) || belfry_kube_document_is_integer(val))
        return belfry_kube_document_bytes(val);
    if (yyjson_is_bool(val))
        return belfry_bytes_str(yyjson_get_bool(val) ? "true" : "false");
    return belfry_bytes_str("");
}

/* Finds the labels and the fields, and how many bytes they have. */
static void find_attributes(struct source *source)
{
    const struct kube_version *version = source->version;
    yyjson_val *root = source->document.root;
    assert(version->n_fields <= KUBE_FIELDS_MAX);

    if (source->metadata != NULL)
        source->labels = last_member(source->metadata, "labels");
    yyjson_obj_iter members = yyjson_obj_iter_with(source->labels);
    for (yyjson_val *name; (name = yyjson_obj_iter_next(&members)) != NULL;) {
        yyjson_val *val = yyjson_obj_iter_get_val(name);
        if (!yyjson_is_str(val))
            continue;
        source->n_labels++;
        source->string_bytes += yyjson_get_len(name) + yyjson_get_len(val);
    }

    for (size_t i = 0; i < version->n_fields; i++) {
        const struct kube_field *field = &version->fields[i];
        struct belfry_bytes value = belfry_bytes_str("");
        if (field->path != NULL) {
            yyjson_val *val = belfry_kube_path_get(field->path, root, 0);
            if (field->otherwise != NULL && field_of(val).len == 0)
                val = belfry_kube_path_get(field->otherwise, root, 0);
            bool is_missing = (val == NULL || yyjson_is_null(val)) && field->missing != NULL;
            value = is_missing ? belfry_bytes_str(field->missing) : field_of(val);
        }
        source->fields[i] = value;
        source->string_bytes += value.len;
    }
}

/* By key; equal keys, which lie in one text, in their original order. */
static int label_cmp(const void *a, const void *b)
{
    const struct kube_label *x = a, *y = b;
    int order = belfry_bytes_cmp(x->key, y->key);
    return order != 0 ? order : (x->key.data > y->key.data) - (x->key.data < y->key.data);
}

/* Sorted by key, and of one key only the last. Returns how many there are. */
static size_t list_labels(const struct source *source, struct kube_label *labels)
{
    size_t n = 0, kept = 0;
    bool is_sorted = true; /* as Kubernetes stores them */
    yyjson_obj_iter members = yyjson_obj_iter_with(source->labels);
    for (yyjson_val *name; (name = yyjson_obj_iter_next(&members)) != NULL;) {
        yyjson_val *val = yyjson_obj_iter_get_val(name);
        if (!yyjson_is_str(val))
            continue;
        labels[n] = (struct kube_label){belfry_kube_document_bytes(name), belfry_kube_document_bytes(val)};
        is_sorted = is_sorted && (n == 0 || belfry_bytes_cmp(labels[n - 1].key, labels[n].key) < 0);
        n++;
    }
    if (is_sorted)
        return n;

    qsort(labels, n, sizeof(labels[0]), label_cmp);
    for (size_t i = 0; i < n; i++) {
        if (i + 1 == n || !belfry_bytes_equal(labels[i].key, labels[i + 1].key))
            labels[kept++] = labels[i];
    }
    return kept;
}

/* Copies; the result is never NULL, because an empty attribute is not absent. */
static struct belfry_bytes pen_keep(struct pen *pen, struct belfry_bytes bytes)
{
    struct belfry_bytes copy = belfry_bytes_of(pen->at, bytes.len);
    pen_put(pen, bytes);
    return copy;
}

static void set_attributes(struct shared *shared, const struct source *source)
{
    struct kube_attributes *attributes = &shared->object.attributes;
    struct pen pen = {.at = (char *)(shared->labels + source->n_labels)};
    attributes->namespace = pen_keep(&pen, source->namespace);
    attributes->name = pen_keep(&pen, source->name);
    attributes->n_labels = list_labels(source, shared->labels);
    attributes->labels = shared->labels;
    if (source->document.root == NULL)
        return;
    shared->object.is_selectable = true;
    for (size_t i = 0; i < attributes->n_labels; i++) {
        struct kube_label *label = &shared->labels[i];
        *label = (struct kube_label){pen_keep(&pen, label->key), pen_keep(&pen, label->value)};
    }
    for (size_t i = 0; i < source->version->n_fields; i++)
        attributes->fields[i] = pen_keep(&pen, source->fields[i]);
}

/* ---- the object ---- */

static struct shared *shared_of(const struct kube_object *object)
{
    union {
        const struct kube_object *in;
        struct shared *out;
    } cast = {.in = object};
    return cast.out;
}

/* Returns unused memory, if the value had much white space. The block may move: nothing that is kept points into it
 * yet. */
static struct shared *trim_shared(struct shared *shared, size_t bytes)
{
    if (shared->bytes - bytes <= shared->bytes / 8 + FRAME_MAX)
        return shared;
    struct shared *moved = realloc(shared, bytes);
    if (moved == NULL)
        return shared;
    moved->bytes = bytes;
    return moved;
}

static enum belfry_err build(const struct source *source, struct kube_object **out)
{
    size_t before_text = sizeof(struct shared) + source->n_labels * sizeof(struct kube_label) + source->string_bytes;
    size_t bytes = before_text + text_max(source);
    struct shared *shared = malloc(bytes);
    if (shared == NULL)
        return BELFRY_ERR_NOMEM;
    memset(shared, 0, sizeof(*shared));
    atomic_init(&shared->refs, 1);
    shared->bytes = bytes;

    struct pen pen = {.at = (char *)shared + before_text};
    bool is_put = source->is_copied ? object_put_copy(&pen, source, &shared->object)
                                    : object_put_made(&pen, source, &shared->object);
    if (!is_put) {
        free(shared);
        return BELFRY_ERR_INVALID;
    }
    size_t used = (size_t)(pen.at - (char *)shared);
    assert(used <= bytes);
    shared = trim_shared(shared, used);
    struct kube_object *object = &shared->object;
    object->head.data = (char *)shared + before_text;
    object->tail.data = (char *)shared + used - object->tail.len;
    set_attributes(shared, source);
    *out = &shared->object;
    return BELFRY_OK;
}

/* `read` NULL: the text alone is wanted. */
static enum belfry_err make_object(struct source *source, enum belfry_err (*read)(struct source *),
                                   struct kube_object **out)
{
    if (!kube_resource_parts(source->resource, source->stored->key, &source->namespace, &source->name))
        return BELFRY_ERR_NOT_FOUND;
    enum belfry_err err = read == NULL ? BELFRY_OK : read(source);
    source->string_bytes = source->namespace.len + source->name.len;
    if (err == BELFRY_OK && read != NULL)
        find_attributes(source);
    if (err == BELFRY_OK)
        err = build(source, out);
    belfry_kube_document_fini(&source->document);
    return err;
}

enum belfry_err kube_object_make(const struct kube_resource *resource, const struct kube_version *version,
                                 const struct kube_stored *stored, struct kube_object **out)
{
    struct source source = {
        .resource = resource, .version = version, .stored = stored, .is_copied = resource->is_verbatim};
    return make_object(&source, read_value, out);
}

enum belfry_err kube_object_make_text(const struct kube_resource *resource, const struct kube_stored *stored,
                                      struct kube_object **out)
{
    struct source source = {.resource = resource, .stored = stored, .is_copied = true};
    assert(resource->is_verbatim);
    return make_object(&source, NULL, out);
}

enum belfry_err kube_object_make_named(const struct kube_resource *resource, const struct kube_version *version,
                                       const struct kube_stored *stored, struct kube_object **out)
{
    struct kube_stored bare = *stored;
    struct source source = {.resource = resource, .version = version, .stored = &bare};
    bare.value = belfry_bytes_str(resource->wrap_key != NULL ? "{}" : "{\"metadata\":{}}");
    return make_object(&source, read_value, out);
}

struct kube_object *kube_object_ref(const struct kube_object *object)
{
    struct shared *shared = shared_of(object);
    size_t before = atomic_fetch_add_explicit(&shared->refs, 1, memory_order_relaxed);
    assert(before > 0);
    (void)before;
    return &shared->object;
}

void kube_object_unref(const struct kube_object *object)
{
    if (object == NULL)
        return;
    struct shared *shared = shared_of(object);
    if (atomic_fetch_sub_explicit(&shared->refs, 1, memory_order_acq_rel) == 1)
        free(shared);
}

size_t kube_object_bytes(const struct kube_object *object)
{
    return shared_of(object)->bytes;
}
