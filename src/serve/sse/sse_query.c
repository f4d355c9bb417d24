/* src/serve/sse/sse_query.c */
#include "serve/sse/sse_query.h"

#include <string.h>

#include "base/query.h"

#define KNOWN "known are prefix, key, from, to, snapshot, value, last-event-id and ticket\n"

struct reader {
    struct sse_query *query;
    const char *why;
    bool awaits_to; /* the last range is a from= whose to= may follow */
};

static enum belfry_err refuse(struct reader *reader, const char *why)
{
    reader->why = why;
    return BELFRY_ERR_INVALID;
}

static bool is_word(struct belfry_bytes text, const char *word)
{
    return belfry_bytes_equal(text, belfry_bytes_str(word));
}

/* ---- ranges ---- */

/* etcd's wire has "\0" where there is no key, and where there is no end. */
static struct belfry_bytes or_zero(struct belfry_bytes bytes)
{
    return bytes.len == 0 ? belfry_bytes_of("", 1) : bytes;
}

static enum belfry_err add_range(struct reader *reader, struct belfry_bytes key, struct belfry_bytes end)
{
    struct sse_query *query = reader->query;
    if (query->n_ranges == SSE_RANGES)
        return refuse(reader, "at most 16 ranges: open another stream for the others\n");
    struct sse_range *range = &query->ranges[query->n_ranges];
    *range = (struct sse_range){.key = or_zero(key), .end = end};
    if (!range_read(range->key, range->end, &range->range))
        return refuse(reader, "a range is empty: from must be below to\n");
    query->n_ranges++;
    return BELFRY_OK;
}

static enum belfry_err add_prefix(struct reader *reader, struct belfry_bytes prefix)
{
    struct sse_query *query = reader->query;
    uint8_t *end = query->text.data + query->text.end;
    size_t len = prefix.len;
    while (len > 0 && (uint8_t)prefix.data[len - 1] == 0xff) /* the next larger text of at most this length */
        len--;
    if (len > 0) {
        memcpy(end, prefix.data, len);
        end[len - 1]++;
        belfry_buf_grown(&query->text, len);
    }
    return add_range(reader, prefix, or_zero(belfry_bytes_of(end, len)));
}

static enum belfry_err set_to(struct reader *reader, struct belfry_bytes to)
{
    struct sse_query *query = reader->query;
    if (!reader->awaits_to)
        return refuse(reader, "to= must follow its from=\n");
    reader->awaits_to = false;
    struct belfry_bytes from = query->ranges[--query->n_ranges].key;
    return add_range(reader, from, or_zero(to));
}

/* ---- the rest ---- */

static enum belfry_err set_value(struct reader *reader, struct belfry_bytes value)
{
    static const char *const words[] = {[SSE_VALUE_AUTO] = "auto",
                                        [SSE_VALUE_TEXT] = "text",
                                        [SSE_VALUE_JSON] = "json",
                                        [SSE_VALUE_BASE64] = "base64",
                                        [SSE_VALUE_NONE] = "none"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (is_word(value, words[i])) {
            reader->query->value = (enum sse_value)i;
            return BELFRY_OK;
        }
    }
    return refuse(reader, "value must be auto, text, json, base64 or none\n");
}

static enum belfry_err set_id(struct reader *reader, struct belfry_bytes value)
{
    reader->query->has_id = true;
    return sse_id_read(value, &reader->query->id)
               ? BELFRY_OK
               : refuse(reader, "last-event-id must be the id of a message of this stream, or a revision\n");
}

static enum belfry_err set_snapshot(struct reader *reader, struct belfry_bytes value)
{
    reader->query->snapshot = is_word(value, "1");
    return is_word(value, "1") || is_word(value, "0") ? BELFRY_OK : refuse(reader, "snapshot must be 1 or 0\n");
}

static enum belfry_err take_pair(struct reader *reader, struct belfry_bytes name, struct belfry_bytes raw)
{
    struct sse_query *query = reader->query;
    char *to = (char *)query->text.data + query->text.end;
    size_t len;
    if (!belfry_query_decode(raw, to, &len))
        return refuse(reader, "a percent escape is broken\n");
    belfry_buf_grown(&query->text, len);
    struct belfry_bytes value = belfry_bytes_of(to, len);
    if (is_word(name, "to"))
        return set_to(reader, value);
    reader->awaits_to = is_word(name, "from");
    if (reader->awaits_to)
        return add_range(reader, value, belfry_bytes_of("", 1));
    if (is_word(name, "prefix"))
        return add_prefix(reader, value);
    if (is_word(name, "key"))
        return len == 0 ? refuse(reader, "key= needs a key\n") : add_range(reader, value, (struct belfry_bytes){0});
    if (is_word(name, "value"))
        return set_value(reader, value);
    if (is_word(name, "snapshot"))
        return set_snapshot(reader, value);
    if (is_word(name, "last-event-id"))
        return set_id(reader, value);
    if (!is_word(name, "ticket"))
        return refuse(reader, "a parameter has an unknown name: " KNOWN);
    query->ticket = value;
    return BELFRY_OK;
}

enum belfry_err sse_query_read(struct belfry_bytes query, struct sse_query *out, const char **why)
{
    struct reader reader = {.query = out};
    struct belfry_bytes name, value;
    uint8_t *room;
    *out = (struct sse_query){.value = SSE_VALUE_AUTO};
    belfry_buf_init(&out->text);
    enum belfry_err err = belfry_buf_reserve(&out->text, 2 * query.len + 1, &room); /* each prefix is kept twice */
    while (err == BELFRY_OK && belfry_query_next(&query, &name, &value))
        err = take_pair(&reader, name, value);
    if (err == BELFRY_OK && out->n_ranges == 0)
        err =
            refuse(&reader, "say what to watch: prefix=, key= or from=&to=, for example /v1/events?prefix=/config/\n");
    *why = reader.why;
    return err;
}

void sse_query_fini(struct sse_query *query)
{
    belfry_buf_fini(&query->text);
}
