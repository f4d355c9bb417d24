/* src/kfollow/resource_backlog.c */
#include "kfollow/resource_backlog.h"

#include <stdlib.h>
#include <string.h>

void resource_backlog_init(struct resource_backlog *backlog)
{
    belfry_list_init(&backlog->events);
    backlog->bytes = 0;
}

void resource_backlog_clear(struct resource_backlog *backlog)
{
    while (!resource_backlog_is_empty(backlog))
        resource_backlog_drop_first(backlog);
}

static struct belfry_bytes copy_to(char **to, struct belfry_bytes bytes)
{
    char *at = *to;
    if (bytes.len > 0)
        memcpy(at, bytes.data, bytes.len);
    *to += bytes.len;
    return belfry_bytes_of(at, bytes.len);
}

enum belfry_err resource_backlog_add(struct resource_backlog *backlog, enum resource_change change,
                                     const struct resource_object *object)
{
    size_t bytes = sizeof(struct resource_event) + object->key.len + object->uid.len + object->json.len;
    if (bytes > RESOURCE_BACKLOG_BYTES - backlog->bytes)
        return BELFRY_ERR_LIMIT;
    struct resource_event *event = malloc(bytes);
    if (event == NULL)
        return BELFRY_ERR_NOMEM;
    char *to = (char *)(event + 1);
    event->bytes = bytes;
    event->change = change;
    event->object.rv = object->rv;
    event->object.key = copy_to(&to, object->key);
    event->object.uid = copy_to(&to, object->uid);
    event->object.json = copy_to(&to, object->json);
    belfry_list_append(&backlog->events, &event->node);
    backlog->bytes += bytes;
    return BELFRY_OK;
}

const struct resource_event *resource_backlog_first(const struct resource_backlog *backlog)
{
    return belfry_container(backlog->events.next, struct resource_event, node);
}

void resource_backlog_drop_first(struct resource_backlog *backlog)
{
    struct resource_event *event = belfry_container(belfry_list_pop(&backlog->events), struct resource_event, node);
    backlog->bytes -= event->bytes;
    free(event);
}
