/* src/kube/request_options.c: the query. */
#include <strings.h>

#include "base/query.h"
#include "kube/request.h"

enum param {
    PARAM_WATCH,
    PARAM_BOOKMARKS,
    PARAM_PRETTY,
    PARAM_SEND_INITIAL,
    PARAM_MATCH,
    PARAM_INCLUDE,
    PARAM_LABELS,
    PARAM_FIELDS,
    PARAM_SHARD,
    PARAM_CONTINUE,
    PARAM_VERSION,
    PARAM_LIMIT,
    PARAM_TIMEOUT,
    N_PARAMS
};

/* clang-format off */
#define NAME(text) {(text), sizeof(text) - 1}
/* clang-format on */
static const struct belfry_bytes names[N_PARAMS] = {
    [PARAM_WATCH] = NAME("watch"),
    [PARAM_BOOKMARKS] = NAME("allowWatchBookmarks"),
    [PARAM_PRETTY] = NAME("pretty"),
    [PARAM_SEND_INITIAL] = NAME("sendInitialEvents"),
    [PARAM_MATCH] = NAME("resourceVersionMatch"),
    [PARAM_INCLUDE] = NAME("includeObject"),
    [PARAM_LABELS] = NAME("labelSelector"),
    [PARAM_FIELDS] = NAME("fieldSelector"),
    [PARAM_SHARD] = NAME("shardSelector"),
    [PARAM_CONTINUE] = NAME("continue"),
    [PARAM_VERSION] = NAME("resourceVersion"),
    [PARAM_LIMIT] = NAME("limit"),
    [PARAM_TIMEOUT] = NAME("timeoutSeconds"),
};
#define NAME_MAX_RAW 64 /* the longest name, with every byte escaped */

struct reader {
    struct kube_options *options;
    struct kube_status *status;
    unsigned seen; /* 1u << param */
};

static enum belfry_err refuse_query(struct kube_status *status, const char *name, const char *why)
{
    kube_status_set(status, KUBE_BAD_REQUEST, "%s: %s", name, why);
    return BELFRY_ERR_INVALID;
}

/* ---- names ---- */

/* N_PARAMS: unknown. */
static enum param find_param(struct belfry_bytes raw)
{
    char name[NAME_MAX_RAW];
    size_t len;
    if (raw.len == 0 || raw.len > sizeof(name) || !belfry_query_decode(raw, name, &len))
        return N_PARAMS;
    for (enum param param = 0; param < N_PARAMS; param++)
        if (belfry_bytes_equal(belfry_bytes_of(name, len), names[param]))
            return param;
    return N_PARAMS;
}

/* ---- values ---- */

static bool is_word(struct belfry_bytes value, const char *word)
{
    return belfry_bytes_equal(value, belfry_bytes_str(word));
}

/* Kubernetes has two words for false; anything else, even an empty value, is true. */
static bool is_true(struct belfry_bytes value)
{
    bool no = is_word(value, "0") || (value.len == 5 && strncasecmp(value.data, "false", 5) == 0);
    return !no;
}

/* False: not a decimal number of 64 bits. */
static bool read_number(struct belfry_bytes value, int64_t *out)
{
    int64_t number = 0;
    bool negative = value.len > 0 && value.data[0] == '-';
    size_t i = negative || (value.len > 0 && value.data[0] == '+') ? 1 : 0;
    if (i == value.len)
        return false;
    for (; i < value.len; i++) {
        int digit = value.data[i] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, negative ? -digit : digit, &number))
            return false;
    }
    *out = number;
    return true;
}

/* In Kubernetes a negative limit means none, and a negative timeout ends the watch immediately, so that its client
 * reconnects in a loop. Here a negative timeout means none, too. */
static enum belfry_err set_number(struct reader *reader, enum param param, struct belfry_bytes value, int64_t *out)
{
    int64_t number;
    if (!read_number(value, &number))
        return refuse_query(reader->status, names[param].data, "must be a decimal number of 64 bits");
    *out = number > 0 ? number : 0;
    return BELFRY_OK;
}

static enum belfry_err set_include(struct reader *reader, struct belfry_bytes value)
{
    if (is_word(value, "None"))
        reader->options->include = KUBE_INCLUDE_NONE;
    else if (is_word(value, "Object"))
        reader->options->include = KUBE_INCLUDE_OBJECT;
    else if (value.len > 0 && !is_word(value, "Metadata"))
        return refuse_query(reader->status, names[PARAM_INCLUDE].data, "must be None, Metadata or Object");
    return BELFRY_OK;
}

static enum kube_match match_of(struct belfry_bytes value)
{
    if (value.len == 0)
        return KUBE_MATCH_UNSET;
    if (is_word(value, "Exact"))
        return KUBE_MATCH_EXACT;
    return is_word(value, "NotOlderThan") ? KUBE_MATCH_NOT_OLDER : KUBE_MATCH_UNKNOWN;
}

static enum belfry_err set_option(struct reader *reader, enum param param, struct belfry_bytes value)
{
    struct kube_options *options = reader->options;
    switch (param) {
    case PARAM_WATCH:
        options->watch = is_true(value);
        break;
    case PARAM_BOOKMARKS:
        options->bookmarks = is_true(value);
        break;
    case PARAM_PRETTY:
        options->pretty = value.len == 0 ? KUBE_FLAG_UNSET : is_true(value) ? KUBE_FLAG_TRUE : KUBE_FLAG_FALSE;
        break;
    case PARAM_SEND_INITIAL:
        options->send_initial = is_true(value) ? KUBE_FLAG_TRUE : KUBE_FLAG_FALSE;
        break;
    case PARAM_MATCH:
        options->match = match_of(value);
        options->match_text = value;
        break;
    case PARAM_INCLUDE:
        return set_include(reader, value);
    case PARAM_LABELS:
        options->label_selector = value;
        break;
    case PARAM_FIELDS:
        options->field_selector = value;
        break;
    case PARAM_SHARD:
        options->shard_selector = value;
        break;
    case PARAM_CONTINUE:
        options->continue_token = value;
        break;
    case PARAM_VERSION:
        options->resource_version = value;
        break;
    case PARAM_LIMIT:
        return set_number(reader, param, value, &options->limit);
    case PARAM_TIMEOUT:
        return set_number(reader, param, value, &options->timeout_s);
    case N_PARAMS:
        break;
    }
    return BELFRY_OK;
}

/* ---- the whole ---- */

/* Decodes the value into the text, which has room for the whole query; decoding never makes it longer. */
static bool take_value(struct belfry_buf *text, struct belfry_bytes raw, struct belfry_bytes *out)
{
    char *to = (char *)text->data + text->end;
    size_t len;
    if (!belfry_query_decode(raw, to, &len))
        return false;
    belfry_buf_grown(text, len);
    *out = belfry_bytes_of(to, len);
    return true;
}

static enum belfry_err take_pair(struct reader *reader, struct belfry_bytes name, struct belfry_bytes raw)
{
    enum param param = find_param(name);
    if (param == N_PARAMS || (reader->seen & 1u << param) != 0)
        return BELFRY_OK;
    reader->seen |= 1u << param;

    struct belfry_bytes value;
    if (!take_value(&reader->options->text, raw, &value))
        return refuse_query(reader->status, names[param].data, "a percent escape in its value is broken");
    return set_option(reader, param, value);
}

enum belfry_err kube_options_read(struct belfry_bytes query, struct kube_options *out, struct kube_status *status)
{
    *out = (struct kube_options){.send_initial = KUBE_FLAG_UNSET};
    belfry_buf_init(&out->text);
    if (query.len > KUBE_QUERY_MAX)
        return refuse_query(status, "query", "is too long");
    uint8_t *room;
    enum belfry_err err = belfry_buf_reserve(&out->text, query.len + 1, &room); /* + 1: also for an empty query */

    struct reader reader = {.options = out, .status = status};
    struct belfry_bytes name, value;
    while (err == BELFRY_OK && belfry_query_next(&query, &name, &value))
        err = take_pair(&reader, name, value);
    return err;
}

void kube_options_fini(struct kube_options *options)
{
    belfry_buf_fini(&options->text);
    *options = (struct kube_options){.send_initial = KUBE_FLAG_UNSET};
}
