/* src/kube/render.c */
#include "kube/render.h"

#include <assert.h>
#include <stdio.h>
#include <time.h>

#include "kube/columns.h"
#include "json/json.h"

#define DIGITS_MAX 24 /* of a revision */
#define PARTS_MAX  8

#define META_API     "\"apiVersion\":\"meta.k8s.io/v1\""
#define PARTIAL_HEAD "{\"kind\":\"PartialObjectMetadata\"," META_API ",\"metadata\":"
#define TABLE_HEAD   "{\"kind\":\"Table\"," META_API

/* ---- text in parts ---- */

/* Parts that are written together: room for all of them is reserved first. */
struct text {
    struct belfry_bytes parts[PARTS_MAX]; /* lent */
    size_t n;
    char digits[DIGITS_MAX];
};

static void text_add(struct text *text, struct belfry_bytes part)
{
    assert(text->n < PARTS_MAX);
    text->parts[text->n++] = part;
}

static void add_str(struct text *text, const char *part)
{
    text_add(text, belfry_bytes_str(part));
}

/* No printf here: this runs once per event. */
static void text_add_rev(struct text *text, int64_t rev)
{
    char *end = text->digits + DIGITS_MAX, *at = end;
    uint64_t rest = (uint64_t)rev;
    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    text_add(text, belfry_bytes_of(at, (size_t)(end - at)));
}

static enum belfry_err write_text(const struct text *text, struct belfry_buf *out)
{
    uint8_t *at;
    size_t len = 0;
    for (size_t i = 0; i < text->n; i++)
        len += text->parts[i].len;
    enum belfry_err err = belfry_buf_reserve(out, len, &at);
    if (err != BELFRY_OK)
        return err;
    for (size_t i = 0; i < text->n; i++) {
        memcpy(at, text->parts[i].data, text->parts[i].len);
        at += text->parts[i].len;
    }
    belfry_buf_grown(out, len);
    return BELFRY_OK;
}

static enum belfry_err write_str(struct belfry_buf *out, const char *text)
{
    return belfry_buf_append(out, text, strlen(text));
}

/* On error, removes everything that was appended. */
static enum belfry_err undo_if_failed(struct belfry_buf *out, size_t len_before, enum belfry_err err)
{
    if (err != BELFRY_OK)
        out->end = out->start + len_before;
    return err;
}

/* ---- one object ---- */

static void text_add_metadata(struct text *text, const struct kube_object *object, int64_t rev)
{
    const struct belfry_bytes *head = &object->head;
    assert(object->tail.data != NULL);
    add_str(text, PARTIAL_HEAD);
    text_add(text, belfry_bytes_of(head->data + object->metadata_at, head->len - object->metadata_at));
    text_add_rev(text, rev);
    text_add(text, belfry_bytes_of(object->tail.data, object->metadata_bytes));
    add_str(text, "}");
}

static void add_object(struct text *text, const struct kube_object *object, int64_t rev)
{
    text_add(text, object->head);
    if (object->tail.data == NULL)
        return;
    text_add_rev(text, rev);
    text_add(text, object->tail);
}

/* As an item of a list, which may omit the beginning of the object. */
static void text_add_item(struct text *text, const char *omitted, const struct kube_object *object, int64_t rev)
{
    struct kube_object rest = *object;
    size_t len = omitted == NULL ? 0 : strlen(omitted);
    if (len > 0 && belfry_bytes_begins(object->head, belfry_bytes_of(omitted, len))) {
        add_str(text, "{");
        rest.head = belfry_bytes_of(object->head.data + len, object->head.len - len);
    }
    add_object(text, &rest, rev);
}

/* For the views that are copied, not for tables. */
static void text_add_view(struct text *text, enum kube_view view, const struct kube_object *object, int64_t rev)
{
    if (view == KUBE_VIEW_METADATA)
        text_add_metadata(text, object, rev);
    else
        add_object(text, object, rev);
}

static void add_in_row(struct text *text, enum kube_include include, const struct kube_object *object, int64_t rev)
{
    switch (include) {
    case KUBE_INCLUDE_METADATA:
        text_add_metadata(text, object, rev);
        break;
    case KUBE_INCLUDE_OBJECT:
        add_object(text, object, rev);
        break;
    case KUBE_INCLUDE_NONE:
        add_str(text, "null");
        break;
    }
}

static enum belfry_err write_row(const struct kube_render *render, const struct kube_object *object, int64_t rev,
                                 struct belfry_buf *out)
{
    struct text text = {.n = 0};
    int64_t now_s = render->now_s != 0 ? render->now_s : (int64_t)time(NULL);
    enum belfry_err err = write_str(out, "{\"cells\":");
    if (err == BELFRY_OK)
        err = kube_table_cells(render->version, object, rev, now_s, out);
    if (err != BELFRY_OK)
        return err;
    add_str(&text, ",\"object\":");
    add_in_row(&text, render->include, object, rev);
    add_str(&text, "}");
    return write_text(&text, out);
}

enum columns { COLUMNS_NULL, COLUMNS_DEFINED };

/* A table up to its first row. Lists have their metadata at the end instead. */
static enum belfry_err write_table_head(const struct kube_render *render, int64_t rev, enum columns columns,
                                        struct belfry_buf *out)
{
    struct text text = {.n = 0};
    add_str(&text, TABLE_HEAD ",\"metadata\":{\"resourceVersion\":\"");
    text_add_rev(&text, rev);
    add_str(&text, "\"},\"columnDefinitions\":");
    enum belfry_err err = write_text(&text, out);
    if (err == BELFRY_OK)
        err = columns == COLUMNS_DEFINED ? kube_table_columns(render->version, out) : write_str(out, "null");
    return err == BELFRY_OK ? write_str(out, ",\"rows\":[") : err;
}

static enum belfry_err write_table(const struct kube_render *render, const struct kube_object *object, int64_t rev,
                                   enum columns columns, struct belfry_buf *out)
{
    enum belfry_err err = write_table_head(render, rev, columns, out);
    if (err == BELFRY_OK)
        err = write_row(render, object, rev, out);
    return err == BELFRY_OK ? write_str(out, "]}") : err;
}

/* ---- objects and lists ---- */

enum belfry_err kube_render_object(const struct kube_render *render, const struct kube_object *object, int64_t rev,
                                   struct belfry_buf *out)
{
    size_t before = belfry_buf_len(out);
    struct text text = {.n = 0};
    if (render->view == KUBE_VIEW_TABLE)
        return undo_if_failed(out, before, write_table(render, object, rev, COLUMNS_DEFINED, out));
    text_add_view(&text, render->view, object, rev);
    return write_text(&text, out);
}

enum belfry_err kube_render_item(const struct kube_render *render, const struct kube_object *object, int64_t rev,
                                 struct belfry_buf *out)
{
    size_t before = belfry_buf_len(out);
    struct text text = {.n = 0};
    if (render->view == KUBE_VIEW_TABLE)
        return undo_if_failed(out, before, write_row(render, object, rev, out));
    if (render->view == KUBE_VIEW_METADATA)
        text_add_metadata(&text, object, rev);
    else
        text_add_item(&text, render->resource->omitted, object, rev);
    return write_text(&text, out);
}

/* API servers sort the members of lists of custom resources. Lists of built-in types have their kind first, and their
 * metadata before the items; here it comes after them if it has more than a version. */
static bool is_sorted(const struct kube_render *render)
{
    const struct kube_resource *resource = render->resource;
    return render->view == KUBE_VIEW_OBJECT && resource->is_verbatim && resource->omitted == NULL;
}

static enum belfry_err begin_objects(const struct kube_render *render, struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '{');
    if (!is_sorted(render))
        belfry_json_str(&json, "kind", render->resource->list_kind);
    belfry_json_str(&json, "apiVersion", render->version->api_version);
    belfry_json_open(&json, "items", '[');
    return belfry_json_finish(&json);
}

static enum belfry_err begin_table(const struct kube_render *render, struct belfry_buf *out)
{
    enum belfry_err err = write_str(out, TABLE_HEAD ",\"columnDefinitions\":");
    if (err == BELFRY_OK)
        err = kube_table_columns(render->version, out);
    return err == BELFRY_OK ? write_str(out, ",\"rows\":[") : err;
}

enum belfry_err kube_render_list_begin(const struct kube_render *render, struct belfry_buf *out)
{
    size_t before = belfry_buf_len(out);
    switch (render->view) {
    case KUBE_VIEW_OBJECT:
        return undo_if_failed(out, before, begin_objects(render, out));
    case KUBE_VIEW_METADATA:
        return write_str(out, "{\"kind\":\"PartialObjectMetadataList\"," META_API ",\"items\":[");
    case KUBE_VIEW_TABLE:
        break;
    }
    return undo_if_failed(out, before, begin_table(render, out));
}

/* The end of a list of custom resources: its metadata always has a token. */
static enum belfry_err end_sorted(const struct kube_render *render, const char *rev, struct belfry_bytes continue_with,
                                  int64_t remaining, struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_close(&json, ']');
    belfry_json_str(&json, "kind", render->resource->list_kind);
    belfry_json_open(&json, "metadata", '{');
    belfry_json_text(&json, "continue", continue_with.len > 0 ? continue_with : belfry_bytes_str(""));
    if (remaining >= 0)
        belfry_json_int(&json, "remainingItemCount", remaining);
    belfry_json_str(&json, "resourceVersion", rev);
    belfry_json_close(&json, '}');
    belfry_json_close(&json, '}');
    return belfry_json_finish(&json);
}

static enum belfry_err end_plain(const char *rev, struct belfry_bytes continue_with, int64_t remaining,
                                 struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_close(&json, ']');
    belfry_json_open(&json, "metadata", '{');
    belfry_json_str(&json, "resourceVersion", rev);
    if (continue_with.len > 0)
        belfry_json_text(&json, "continue", continue_with);
    if (remaining >= 0)
        belfry_json_int(&json, "remainingItemCount", remaining);
    belfry_json_close(&json, '}');
    belfry_json_close(&json, '}');
    return belfry_json_finish(&json);
}

enum belfry_err kube_render_list_end(const struct kube_render *render, int64_t rev, struct belfry_bytes continue_with,
                                     int64_t remaining, struct belfry_buf *out)
{
    size_t before = belfry_buf_len(out);
    char digits[DIGITS_MAX];
    snprintf(digits, sizeof(digits), "%lld", (long long)rev);
    enum belfry_err err = is_sorted(render) ? end_sorted(render, digits, continue_with, remaining, out)
                                            : end_plain(digits, continue_with, remaining, out);
    if (err == BELFRY_OK && render->resource->is_verbatim)
        err = write_str(out, "\n");
    return undo_if_failed(out, before, err);
}

/* ---- lists whose metadata comes first ---- */

#define GAP 20 /* digits of a version */

bool kube_render_may_lead(const struct kube_render *render)
{
    return render->resource->is_verbatim && render->view != KUBE_VIEW_TABLE && !is_sorted(render);
}

enum belfry_err kube_render_led_begin(const struct kube_render *render, struct belfry_buf *out, size_t *gap)
{
    static const char digits[GAP + 1] = "00000000000000000000";
    size_t before = belfry_buf_len(out);
    bool whole = render->view == KUBE_VIEW_OBJECT;
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '{');
    belfry_json_str(&json, "kind", whole ? render->resource->list_kind : "PartialObjectMetadataList");
    belfry_json_str(&json, "apiVersion", whole ? render->version->api_version : "meta.k8s.io/v1");
    belfry_json_open(&json, "metadata", '{');
    belfry_json_str(&json, "resourceVersion", digits);
    *gap = belfry_buf_len(out) - GAP - 1;
    belfry_json_close(&json, '}');
    belfry_json_open(&json, "items", '[');
    return undo_if_failed(out, before, belfry_json_finish(&json));
}

void kube_render_led_version(struct belfry_buf *out, size_t gap, int64_t rev)
{
    char digits[DIGITS_MAX];
    size_t n = (size_t)snprintf(digits, sizeof(digits), "%lld", (long long)rev), shift = GAP - n;
    uint8_t *text = out->data + out->start;
    assert(n <= GAP);
    memcpy(text + gap + shift, digits, n);
    memmove(text + shift, text, gap);
    belfry_buf_take(out, shift);
}

enum belfry_err kube_render_led_end(struct belfry_buf *out)
{
    return write_str(out, "]}\n");
}

/* ---- lines of a watch ---- */

static const char *const event_heads[] = {
    [KUBE_ADDED] = "{\"type\":\"ADDED\",\"object\":",
    [KUBE_MODIFIED] = "{\"type\":\"MODIFIED\",\"object\":",
    [KUBE_DELETED] = "{\"type\":\"DELETED\",\"object\":",
};

static enum belfry_err write_table_event(const struct kube_render *render, enum kube_event event,
                                         const struct kube_object *object, int64_t rev, enum columns columns,
                                         struct belfry_buf *out)
{
    enum belfry_err err = write_str(out, event_heads[event]);
    if (err == BELFRY_OK)
        err = write_table(render, object, rev, columns, out);
    return err == BELFRY_OK ? write_str(out, "}\n") : err;
}

enum belfry_err kube_render_event(const struct kube_render *render, enum kube_event event,
                                  const struct kube_object *object, int64_t rev, bool first, struct belfry_buf *out)
{
    size_t before = belfry_buf_len(out);
    struct text text = {.n = 0};
    if (render->view == KUBE_VIEW_TABLE)
        return undo_if_failed(
            out, before, write_table_event(render, event, object, rev, first ? COLUMNS_DEFINED : COLUMNS_NULL, out));
    add_str(&text, event_heads[event]);
    text_add_view(&text, render->view, object, rev);
    add_str(&text, "}\n");
    return write_text(&text, out);
}

/* ---- bookmarks ---- */

static enum belfry_err write_mark_metadata(int64_t rev, bool initial_end, struct belfry_buf *out)
{
    struct text text = {.n = 0};
    add_str(&text, ",\"metadata\":{\"resourceVersion\":\"");
    text_add_rev(&text, rev);
    add_str(&text, initial_end ? "\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}" : "\"}}");
    return write_text(&text, out);
}

static enum belfry_err write_mark_object(const struct kube_render *render, int64_t rev, bool initial_end,
                                         struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '{');
    belfry_json_str(&json, "kind", render->resource->kind);
    belfry_json_str(&json, "apiVersion", render->version->api_version);
    enum belfry_err err = belfry_json_finish(&json);
    return err == BELFRY_OK ? write_mark_metadata(rev, initial_end, out) : err;
}

static enum belfry_err write_mark_partial(int64_t rev, bool initial_end, struct belfry_buf *out)
{
    enum belfry_err err = write_str(out, "{\"kind\":\"PartialObjectMetadata\"," META_API);
    return err == BELFRY_OK ? write_mark_metadata(rev, initial_end, out) : err;
}

static enum belfry_err write_mark_row(const struct kube_render *render, int64_t rev, bool initial_end,
                                      struct belfry_buf *out)
{
    enum belfry_err err = write_str(out, "{\"cells\":");
    if (err == BELFRY_OK)
        err = kube_table_no_cells(render->version, out);
    if (err == BELFRY_OK)
        err = write_str(out, ",\"object\":");
    if (err != BELFRY_OK)
        return err;
    switch (render->include) {
    case KUBE_INCLUDE_METADATA:
        return write_mark_partial(rev, initial_end, out);
    case KUBE_INCLUDE_OBJECT:
        return write_mark_object(render, rev, initial_end, out);
    case KUBE_INCLUDE_NONE:
        break;
    }
    return write_str(out, "null");
}

static enum belfry_err write_mark_table(const struct kube_render *render, int64_t rev, bool initial_end,
                                        struct belfry_buf *out)
{
    enum belfry_err err = write_table_head(render, rev, COLUMNS_NULL, out);
    if (err == BELFRY_OK)
        err = write_mark_row(render, rev, initial_end, out);
    return err == BELFRY_OK ? write_str(out, "}]}") : err;
}

static enum belfry_err write_mark(const struct kube_render *render, int64_t rev, bool initial_end,
                                  struct belfry_buf *out)
{
    switch (render->view) {
    case KUBE_VIEW_OBJECT:
        return write_mark_object(render, rev, initial_end, out);
    case KUBE_VIEW_METADATA:
        return write_mark_partial(rev, initial_end, out);
    case KUBE_VIEW_TABLE:
        break;
    }
    return write_mark_table(render, rev, initial_end, out);
}

enum belfry_err kube_render_bookmark(const struct kube_render *render, int64_t rev, bool initial_end,
                                     struct belfry_buf *out)
{
    size_t before = belfry_buf_len(out);
    enum belfry_err err = write_str(out, "{\"type\":\"BOOKMARK\",\"object\":");
    if (err == BELFRY_OK)
        err = write_mark(render, rev, initial_end, out);
    if (err == BELFRY_OK)
        err = write_str(out, "}\n");
    return undo_if_failed(out, before, err);
}

enum belfry_err kube_render_error(const struct kube_status *status, struct belfry_buf *out)
{
    size_t before = belfry_buf_len(out);
    enum belfry_err err = write_str(out, "{\"type\":\"ERROR\",\"object\":");
    if (err == BELFRY_OK)
        err = kube_status_write(status, out);
    if (err == BELFRY_OK)
        err = write_str(out, "}\n");
    return undo_if_failed(out, before, err);
}
