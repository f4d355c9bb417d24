/* src/kube/render.c */
#include "kube/render.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "json/document.h"
#include "json/json.h"
#include "json/json_alc.h"
#include "json/path.h"

#define DIGITS_MAX 24 /* of a revision */
#define PARTS_MAX  8
#define UNKNOWN    "<unknown>"

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

/* ---- columns of a table ---- */

/* The real server's descriptions of the two built-in columns; clients show them unchanged. */
#define NAME_DESCRIPTION                                                                                               \
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow "  \
    "a client to request the generation of an appropriate name automatically. Name is primarily intended for "         \
    "creation idempotence and configuration definition. Cannot be updated. More info: "                                \
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
#define AGE_DESCRIPTION                                                                                                \
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not "           \
    "guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is "  \
    "represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: "    \
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"

struct column {
    const char *name, *type, *format, *description;
    int64_t priority;
};

static void write_column(struct belfry_json *json, const struct column *column)
{
    belfry_json_open(json, NULL, '{');
    belfry_json_str(json, "name", column->name);
    belfry_json_str(json, "type", column->type);
    belfry_json_str(json, "format", column->format != NULL ? column->format : "");
    belfry_json_str(json, "description", column->description != NULL ? column->description : "");
    belfry_json_int(json, "priority", column->priority);
    belfry_json_close(json, '}');
}

/* The first column is the name. Then come those of the version or, if it has none, the age. */
static enum belfry_err write_columns(const struct kube_version *version, struct belfry_buf *out)
{
    static const struct column name = {"Name", "string", "name", NAME_DESCRIPTION, 0};
    static const struct column age = {"Age", "date", "", AGE_DESCRIPTION, 0};
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '[');
    write_column(&json, &name);
    for (size_t i = 0; i < version->n_columns; i++) {
        const struct kube_column *own = &version->columns[i];
        write_column(&json, &(struct column){own->name, own->type, own->format, own->description, own->priority});
    }
    if (version->n_columns == 0)
        write_column(&json, &age);
    belfry_json_close(&json, ']');
    return belfry_json_finish(&json);
}

/* ---- ages: the time since a timestamp, "45s", "5m30s", "3d4h", "2y" ---- */

#define AGE_MAX 64
#define MINUTE  60
#define HOUR    (60 * MINUTE)
#define DAY     (24 * HOUR)
#define YEAR    (365 * DAY)

#define ZERO_TIME (-62135596800) /* 0001-01-01T00:00:00Z: a time that was never set */

/* Takes `n` digits from the front. */
static bool take_number(struct belfry_bytes *text, size_t n, int64_t *out)
{
    if (text->len < n)
        return false;
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        char digit = text->data[i];
        if (digit < '0' || digit > '9')
            return false;
        *out = *out * 10 + (digit - '0');
    }
    *text = belfry_bytes_of(text->data + n, text->len - n);
    return true;
}

static bool take_char(struct belfry_bytes *text, char expected)
{
    if (text->len == 0 || text->data[0] != expected)
        return false;
    *text = belfry_bytes_of(text->data + 1, text->len - 1);
    return true;
}

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Days since 1970-01-01. Years begin in March here, so that a leap day is the last day of its year. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    int64_t y = month > 2 ? year : year - 1;
    int64_t from_march = (month + 9) % 12;
    int64_t leap_days = (y + 400) / 4 - (y + 400) / 100 + (y + 400) / 400; /* + 400 keeps it positive */
    return (y + 400) * 365 + leap_days + (from_march * 153 + 2) / 5 + day - 1 - (719468 + 146097);
}

/* Seconds since 1970 of an RFC 3339 timestamp. False: it is malformed. */
static bool time_read(struct belfry_bytes text, int64_t *out)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t year, month, day, h, m, s, ignored, offset_s = 0;

    /* the day */
    if (!take_number(&text, 4, &year) || !take_char(&text, '-') || !take_number(&text, 2, &month) ||
        !take_char(&text, '-') || !take_number(&text, 2, &day))
        return false;
    if (month < 1 || month > 12 || day < 1 || day > lengths[month - 1] + (month == 2 && is_leap(year)))
        return false;

    /* the time of the day; a fraction of a second does not count */
    if (!take_char(&text, 'T') || !take_number(&text, 2, &h) || !take_char(&text, ':') || !take_number(&text, 2, &m) ||
        !take_char(&text, ':') || !take_number(&text, 2, &s) || h > 23 || m > 59 || s > 59)
        return false;
    int64_t seconds = h * HOUR + m * MINUTE + s;
    if (take_char(&text, '.')) {
        if (!take_number(&text, 1, &ignored))
            return false;
        while (take_number(&text, 1, &ignored))
            ;
    }

    /* the zone */
    if (!take_char(&text, 'Z')) {
        int sign = take_char(&text, '+') ? 1 : take_char(&text, '-') ? -1 : 0;
        if (sign == 0 || !take_number(&text, 2, &h) || !take_char(&text, ':') || !take_number(&text, 2, &m) || h > 23 ||
            m > 59)
            return false;
        offset_s = sign * (h * HOUR + m * MINUTE);
    }
    if (text.len > 0)
        return false;
    *out = days_of(year, month, day) * DAY + seconds - offset_s;
    return true;
}

/* The longer the time, the fewer details; the limits are kubectl's. "<invalid>": the timestamp is malformed, or in the
 * future. "<unknown>": it is Go's zero time. */
static void age_write(struct belfry_bytes timestamp, int64_t now_s, char out[AGE_MAX])
{
    static const struct {
        int64_t below, unit, part;
        char unit_name, part_name;
    } forms[] = {
        {2 * MINUTE, 1, 1, 's', 's'},       {10 * MINUTE, MINUTE, 1, 'm', 's'}, {3 * HOUR, MINUTE, MINUTE, 'm', 'm'},
        {8 * HOUR, HOUR, MINUTE, 'h', 'm'}, {2 * DAY, HOUR, HOUR, 'h', 'h'},    {8 * DAY, DAY, HOUR, 'd', 'h'},
        {2 * YEAR, DAY, DAY, 'd', 'd'},     {8 * YEAR, YEAR, DAY, 'y', 'd'},    {INT64_MAX, YEAR, YEAR, 'y', 'y'},
    };
    int64_t then;
    size_t i = 0;

    bool is_time = time_read(timestamp, &then);
    const char *word = NULL;
    if (is_time && then == ZERO_TIME)
        word = UNKNOWN;
    else if (!is_time || now_s - then < -1) /* tolerate clocks that differ by a second */
        word = "<invalid>";
    if (word != NULL) {
        snprintf(out, AGE_MAX, "%s", word);
        return;
    }

    int64_t s = now_s > then ? now_s - then : 0;
    while (s >= forms[i].below)
        i++;
    int64_t whole = s / forms[i].unit, rest = s % forms[i].unit / forms[i].part;
    if (rest == 0) /* "3d" */
        snprintf(out, AGE_MAX, "%" PRId64 "%c", whole, forms[i].unit_name);
    else /* "3d4h" */
        snprintf(out, AGE_MAX, "%" PRId64 "%c%" PRId64 "%c", whole, forms[i].unit_name, rest, forms[i].part_name);
}

/* ---- cells of a row ---- */

static enum belfry_err write_string(struct belfry_buf *out, struct belfry_bytes text)
{
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_text(&json, NULL, text);
    return belfry_json_finish(&json);
}

/* Shows any value: objects and arrays as JSON. */
static enum belfry_err string_cell(struct belfry_buf *out, yyjson_val *val)
{
    size_t len;
    if (yyjson_is_str(val) || yyjson_is_raw(val))
        return write_string(out, belfry_kube_document_bytes(val));
    if (yyjson_is_bool(val))
        return write_str(out, yyjson_get_bool(val) ? "\"true\"" : "\"false\"");
    if (!yyjson_is_ctn(val))
        return write_str(out, "null");
    char *text = yyjson_val_write_opts(val, YYJSON_WRITE_NOFLAG, &belfry_json_alc, &len, NULL);
    enum belfry_err err = text == NULL ? BELFRY_ERR_NOMEM : write_string(out, belfry_bytes_of(text, len));
    free(text);
    return err;
}

/* A number with a fraction is truncated, if the result is an int64. */
static enum belfry_err integer_cell(struct belfry_buf *out, yyjson_val *val)
{
    char text[32];
    if (belfry_kube_document_is_integer(val))
        return belfry_buf_append(out, belfry_kube_document_bytes(val).data, belfry_kube_document_bytes(val).len);
    if (!yyjson_is_raw(val))
        return write_str(out, "null");
    double number = strtod(belfry_kube_document_bytes(val).data, NULL);
    if (!(number > -9.2e18 && number < 9.2e18))
        return write_str(out, "null");
    snprintf(text, sizeof(text), "%" PRId64, (int64_t)number);
    return write_str(out, text);
}

static enum belfry_err date_cell(struct belfry_buf *out, yyjson_val *val, int64_t now_s)
{
    char age[AGE_MAX];
    if (val == NULL || yyjson_is_null(val))
        return write_str(out, "\"" UNKNOWN "\"");
    if (!yyjson_is_str(val))
        return write_str(out, "null");
    age_write(belfry_kube_document_bytes(val), now_s, age);
    return write_string(out, belfry_bytes_str(age));
}

/* null, which kubectl shows as empty, if the path led nowhere or to another type; a missing date is "<unknown>". */
static enum belfry_err write_cell(struct belfry_buf *out, const char *type, yyjson_val *val, int64_t now_s)
{
    if (strcmp(type, "date") == 0)
        return date_cell(out, val, now_s);
    if (strcmp(type, "integer") == 0)
        return integer_cell(out, val);
    if (strcmp(type, "boolean") == 0)
        return write_str(out, !yyjson_is_bool(val) ? "null" : yyjson_get_bool(val) ? "true" : "false");
    if (strcmp(type, "number") != 0)
        return string_cell(out, val);
    if (!yyjson_is_raw(val))
        return write_str(out, "null");
    return belfry_buf_append(out, belfry_kube_document_bytes(val).data, belfry_kube_document_bytes(val).len);
}

/* `root` NULL: a row without an object. Of several values that a path leads to, the first is shown. */
static enum belfry_err write_cells(const struct kube_version *version, struct belfry_bytes name, yyjson_val *root,
                                   int64_t now_s, struct belfry_buf *out)
{
    enum belfry_err err = write_str(out, "[");
    if (err == BELFRY_OK)
        err = write_string(out, name);
    for (size_t i = 0; i < version->n_columns && err == BELFRY_OK; i++) {
        const struct kube_column *column = &version->columns[i];
        yyjson_val *val = root == NULL ? NULL : belfry_kube_path_get(column->path, root, 0);
        err = write_str(out, ",");
        if (err == BELFRY_OK)
            err = write_cell(out, column->type, val, now_s);
    }
    if (err == BELFRY_OK && version->n_columns == 0) {
        err = write_str(out, ",");
        if (err == BELFRY_OK)
            err = date_cell(out, yyjson_obj_get(yyjson_obj_get(root, "metadata"), "creationTimestamp"), now_s);
    }
    return err == BELFRY_OK ? write_str(out, "]") : err;
}

/* ---- tables ---- */

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

/* Parses the object's JSON again, which is acceptable because people read tables. */
static enum belfry_err write_row(const struct kube_render *render, const struct kube_object *object, int64_t rev,
                                 struct belfry_buf *out)
{
    struct text text = {.n = 0};
    int64_t now_s = render->now_s != 0 ? render->now_s : (int64_t)time(NULL);
    enum belfry_err err = write_str(out, "{\"cells\":");
    if (err != BELFRY_OK)
        return err;

    char digits[DIGITS_MAX];
    struct belfry_kube_document document;
    snprintf(digits, sizeof(digits), "%" PRId64, rev);
    struct belfry_bytes parts[] = {object->head, belfry_bytes_str(digits), object->tail};
    err = belfry_kube_document_read(parts, 3, &document);
    assert(err != BELFRY_ERR_INVALID); /* we wrote this JSON */
    if (err != BELFRY_OK)
        return err;
    err = write_cells(render->version, object->attributes.name, document.root, now_s, out);
    belfry_kube_document_fini(&document);
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
        err = columns == COLUMNS_DEFINED ? write_columns(render->version, out) : write_str(out, "null");
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

enum belfry_err kube_render_list_begin(const struct kube_render *render, struct belfry_buf *out)
{
    size_t before = belfry_buf_len(out);
    enum belfry_err err;
    struct belfry_json json;
    switch (render->view) {
    case KUBE_VIEW_OBJECT:
        json = belfry_json_begin(out);
        belfry_json_open(&json, NULL, '{');
        if (!is_sorted(render))
            belfry_json_str(&json, "kind", render->resource->list_kind);
        belfry_json_str(&json, "apiVersion", render->version->api_version);
        belfry_json_open(&json, "items", '[');
        return undo_if_failed(out, before, belfry_json_finish(&json));
    case KUBE_VIEW_METADATA:
        return write_str(out, "{\"kind\":\"PartialObjectMetadataList\"," META_API ",\"items\":[");
    case KUBE_VIEW_TABLE:
        break;
    }
    err = write_str(out, TABLE_HEAD ",\"columnDefinitions\":");
    if (err == BELFRY_OK)
        err = write_columns(render->version, out);
    if (err == BELFRY_OK)
        err = write_str(out, ",\"rows\":[");
    return undo_if_failed(out, before, err);
}

enum belfry_err kube_render_list_end(const struct kube_render *render, int64_t rev, struct belfry_bytes continue_with,
                                     int64_t remaining, struct belfry_buf *out)
{
    size_t before = belfry_buf_len(out);
    bool sorted = is_sorted(render);
    char digits[DIGITS_MAX];
    snprintf(digits, sizeof(digits), "%" PRId64, rev);

    struct belfry_json json = belfry_json_begin(out);
    belfry_json_close(&json, ']');
    if (sorted)
        belfry_json_str(&json, "kind", render->resource->list_kind);
    belfry_json_open(&json, "metadata", '{');
    if (!sorted)
        belfry_json_str(&json, "resourceVersion", digits);
    if (continue_with.len > 0)
        belfry_json_text(&json, "continue", continue_with);
    else if (sorted) /* the metadata of a list of custom resources always has a token */
        belfry_json_str(&json, "continue", "");
    if (remaining >= 0)
        belfry_json_int(&json, "remainingItemCount", remaining);
    if (sorted)
        belfry_json_str(&json, "resourceVersion", digits);
    belfry_json_close(&json, '}');
    belfry_json_close(&json, '}');

    enum belfry_err err = belfry_json_finish(&json);
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

enum belfry_err kube_render_event(const struct kube_render *render, enum kube_event event,
                                  const struct kube_object *object, int64_t rev, bool first, struct belfry_buf *out)
{
    size_t before = belfry_buf_len(out);
    if (render->view == KUBE_VIEW_TABLE) {
        enum belfry_err err = write_str(out, event_heads[event]);
        if (err == BELFRY_OK)
            err = write_table(render, object, rev, first ? COLUMNS_DEFINED : COLUMNS_NULL, out);
        if (err == BELFRY_OK)
            err = write_str(out, "}\n");
        return undo_if_failed(out, before, err);
    }
    struct text text = {.n = 0};
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
        err = write_cells(render->version, belfry_bytes_str(""), NULL, 0, out);
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

static enum belfry_err write_mark(const struct kube_render *render, int64_t rev, bool initial_end,
                                  struct belfry_buf *out)
{
    enum belfry_err err;
    switch (render->view) {
    case KUBE_VIEW_OBJECT:
        return write_mark_object(render, rev, initial_end, out);
    case KUBE_VIEW_METADATA:
        return write_mark_partial(rev, initial_end, out);
    case KUBE_VIEW_TABLE:
        break;
    }
    err = write_table_head(render, rev, COLUMNS_NULL, out);
    if (err == BELFRY_OK)
        err = write_mark_row(render, rev, initial_end, out);
    return err == BELFRY_OK ? write_str(out, "}]}") : err;
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
