/* src/server/h1_server_head.c */
#include <stdlib.h>
#include <string.h>

#include "server/h1_server_private.h"

#define FIELDS_MAX 256 /* as many as Apache and nginx put up with, and twice */

void h1_head_clear(struct h1_head *head)
{
    belfry_buf_fini(&head->text);
    free(head->fields);
    free(head->presented);
    *head = (struct h1_head){0};
}

enum belfry_err h1_head_add(struct h1_head *head, const char *bytes, size_t len)
{
    return belfry_buf_append(&head->text, bytes, len);
}

static struct h1_span end_part(struct h1_head *head)
{
    uint32_t end = (uint32_t)belfry_buf_len(&head->text);
    struct h1_span span = {head->open_at, end - head->open_at};
    head->open_at = end;
    return span;
}

void h1_head_end_method(struct h1_head *head)
{
    head->method = end_part(head);
}

void h1_head_end_target(struct h1_head *head)
{
    head->target = end_part(head);
}

static void lower(char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] >= 'A' && text[i] <= 'Z')
            text[i] = (char)(text[i] - 'A' + 'a');
    }
}

static char *text_at(const struct h1_head *head, struct h1_span span)
{
    return head->text.data == NULL ? NULL : (char *)head->text.data + span.at;
}

static enum belfry_err grow_fields(struct h1_head *head)
{
    size_t cap = head->cap_fields == 0 ? 16 : head->cap_fields * 2;
    struct h1_head_field *fields = realloc(head->fields, cap * sizeof(*fields));
    if (fields == NULL)
        return BELFRY_ERR_NOMEM;
    head->fields = fields;
    head->cap_fields = cap;
    return BELFRY_OK;
}

enum belfry_err h1_head_end_name(struct h1_head *head)
{
    if (head->n_fields == FIELDS_MAX)
        return BELFRY_ERR_TOO_LARGE;
    if (head->n_fields == head->cap_fields) {
        enum belfry_err err = grow_fields(head);
        if (err != BELFRY_OK)
            return err;
    }
    struct h1_span name = end_part(head);
    lower(text_at(head, name), name.len);
    head->fields[head->n_fields++] = (struct h1_head_field){.name = name};
    return BELFRY_OK;
}

void h1_head_end_value(struct h1_head *head)
{
    struct h1_span value = end_part(head);
    const char *text = text_at(head, value);
    while (value.len > 0 && (text[value.len - 1] == ' ' || text[value.len - 1] == '\t'))
        value.len--;
    head->fields[head->n_fields - 1].value = value;
}

static struct belfry_bytes bytes_at(const struct h1_head *head, struct h1_span span)
{
    return belfry_bytes_of(text_at(head, span), span.len);
}

/* "http://host/path" (RFC 9112, 3.2.2) names the host better than Host does. */
static void take_apart(struct exchange_head *out)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(schemes[i]);
        if (out->path.len < n || strncasecmp(out->path.data, schemes[i], n) != 0)
            continue;
        const char *host = out->path.data + n, *end = out->path.data + out->path.len, *slash = host;
        while (slash < end && *slash != '/' && *slash != '?')
            slash++;
        out->authority = belfry_bytes_of(host, (size_t)(slash - host));
        out->path = slash < end ? belfry_bytes_of(slash, (size_t)(end - slash)) : belfry_bytes_str("/");
    }
}

enum belfry_err h1_head_present(struct h1_head *head, bool host_needed, struct exchange_head *out)
{
    size_t n_hosts = 0;
    head->presented = calloc(head->n_fields + 1, sizeof(*head->presented));
    if (head->presented == NULL)
        return BELFRY_ERR_NOMEM;
    *out = (struct exchange_head){.method = bytes_at(head, head->method),
                                  .path = bytes_at(head, head->target),
                                  .fields = head->presented,
                                  .n_fields = head->n_fields};
    for (size_t i = 0; i < head->n_fields; i++) {
        struct exchange_field *field = &head->presented[i];
        field->name = bytes_at(head, head->fields[i].name);
        field->value = bytes_at(head, head->fields[i].value);
        if (belfry_bytes_equal(field->name, belfry_bytes_str("host"))) {
            out->authority = field->value;
            n_hosts++;
        }
    }
    take_apart(out);
    return n_hosts > 1 || (n_hosts == 0 && host_needed) ? BELFRY_ERR_PROTOCOL : BELFRY_OK;
}
