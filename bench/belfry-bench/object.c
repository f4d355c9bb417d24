/* bench/belfry-bench/object.c */
#include "object.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "put_time.h"

static const char event_head[] = "{\"type\":\"";
static const char revision_field[] = "\"resourceVersion\":\"";
static const char time_field[] = "\"subdomain\":\"";
static const char count_field[] = "\"nodeName\":\"";

void object_name(size_t index, char *name)
{
    snprintf(name, OBJECT_NAME_MAX, "node-%zu", index);
}

size_t object_write(char *to, size_t index, size_t spec_bytes, uint64_t now_ns)
{
    static const char spec_end[] = "\"}";
    char name[OBJECT_NAME_MAX], stamp[PUT_TIME_BYTES + 1] = "";
    object_name(index, name);
    put_time_write(stamp, now_ns);
    int head =
        snprintf(to, OBJECT_EXTRA,
                 "{\"apiVersion\":\"example.apiserver.k8s.io/v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s\","
                 "\"namespace\":\"" OBJECT_NAMESPACE "\",\"uid\":\"5d3b6e34-7c1f-4d1e-9f7a-%012zx\","
                 "\"creationTimestamp\":\"2024-01-01T00:00:00Z\",\"labels\":{\"app\":\"bench\"}},\"spec\":",
                 name, index);
    int spec = snprintf(to + head, OBJECT_EXTRA - (size_t)head,
                        "{\"nodeName\":\"%s\",\"subdomain\":\"%s\",\"hostname\":\"", name, stamp);
    size_t len = (size_t)(head + spec), fixed = (size_t)spec + sizeof(spec_end) - 1;
    assert(len + sizeof(spec_end) + 1 <= OBJECT_EXTRA);
    if (spec_bytes > fixed) {
        memset(to + len, 'x', spec_bytes - fixed);
        len += spec_bytes - fixed;
    }
    memcpy(to + len, "\"}}", 3);
    return len + 3;
}

size_t object_event_bytes(size_t object_bytes)
{
    /* what a server adds; a revision of seven digits */
    size_t line =
        object_bytes + strlen("{\"type\":\"MODIFIED\",\"object\":}\n") + strlen("\"resourceVersion\":\"1000000\",");
    return line + (size_t)snprintf(NULL, 0, "%zx\r\n\r\n", line);
}

/* What lies behind the next `field` in `text`; {NULL, 0} when it is not there. */
static struct belfry_bytes behind(struct belfry_bytes text, const char *field, size_t len)
{
    const char *at = text.len == 0 ? NULL : memmem(text.data, text.len, field, len);
    if (at == NULL)
        return (struct belfry_bytes){0};
    at += len;
    return belfry_bytes_of(at, (size_t)(text.data + text.len - at));
}

static int64_t number(struct belfry_bytes text)
{
    int64_t value = 0;
    for (size_t i = 0; i < text.len && i < 18 && text.data[i] >= '0' && text.data[i] <= '9'; i++)
        value = value * 10 + (text.data[i] - '0');
    return value;
}

static enum belfry_err read_type(struct belfry_bytes line, enum object_event_type *out)
{
    static const struct {
        const char *name;
        enum object_event_type type;
    } rows[] = {{"MODIFIED\"", OBJECT_PUT},
                {"ADDED\"", OBJECT_PUT},
                {"DELETED\"", OBJECT_DELETED},
                {"BOOKMARK\"", OBJECT_BOOKMARK},
                {"ERROR\"", OBJECT_ERROR}};
    struct belfry_bytes head = belfry_bytes_str(event_head);
    if (!belfry_bytes_begins(line, head))
        return BELFRY_ERR_PROTOCOL;
    struct belfry_bytes type = belfry_bytes_of(line.data + head.len, line.len - head.len);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!belfry_bytes_begins(type, belfry_bytes_str(rows[i].name)))
            continue;
        *out = rows[i].type;
        return BELFRY_OK;
    }
    return BELFRY_ERR_PROTOCOL;
}

enum belfry_err object_read_event(struct belfry_bytes line, struct object_event *out)
{
    struct object_event event = {0};
    enum belfry_err err = read_type(line, &event.type);
    if (err != BELFRY_OK)
        return err;
    event.rev = number(behind(line, revision_field, sizeof(revision_field) - 1));
    if (event.rev == 0 && event.type != OBJECT_ERROR)
        return BELFRY_ERR_PROTOCOL;
    event.put_at = put_time_read(behind(line, time_field, sizeof(time_field) - 1));
    *out = event;
    return BELFRY_OK;
}

int64_t object_read_revision(struct belfry_bytes list)
{
    int64_t most = 0;
    while ((list = behind(list, revision_field, sizeof(revision_field) - 1)).data != NULL) {
        int64_t rev = number(list);
        most = rev > most ? rev : most;
    }
    return most;
}

static uint64_t occurrences(struct belfry_bytes text)
{
    uint64_t n = 0;
    while ((text = behind(text, count_field, sizeof(count_field) - 1)).data != NULL)
        n++;
    return n;
}

/* One that was cut lies in the tail and as many bytes of the piece; both are shorter than the field, so that nothing
 * else does. */
void object_count(struct object_count *count, struct belfry_bytes piece)
{
    const size_t keep = sizeof(count_field) - 2;
    static_assert(sizeof(count_field) - 2 <= sizeof(((struct object_count *)0)->tail), "the tail must fit");
    char joint[2 * sizeof(count_field)];
    size_t fresh = piece.len < keep ? piece.len : keep;
    memcpy(joint, count->tail, count->tail_len);
    memcpy(joint + count->tail_len, piece.data, fresh);
    size_t joined = count->tail_len + fresh;
    count->n += occurrences(belfry_bytes_of(joint, joined)) + occurrences(piece);
    const char *end = piece.len >= keep ? piece.data + piece.len : joint + joined;
    count->tail_len = piece.len >= keep || joined >= keep ? keep : joined;
    memcpy(count->tail, end - count->tail_len, count->tail_len);
}
