/* src/kfollow/resource_backlog.h
 *
 * resource_backlog: events of a watch that were taken and are not published yet, because the past that they belong to
 * is not proven (resource_follow.h). In order, as copies.
 *
 * Thread: owner. Pure.
 * Memory: at most RESOURCE_BACKLOG_BYTES; an event more is refused.
 */
#ifndef BELFRY_KFOLLOW_RESOURCE_BACKLOG_H
#define BELFRY_KFOLLOW_RESOURCE_BACKLOG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/list.h"
#include "kfollow/resource_kv.h"

#define RESOURCE_BACKLOG_BYTES (16 * 1024 * 1024)

enum resource_change { RESOURCE_ADDED, RESOURCE_MODIFIED, RESOURCE_DELETED };

struct resource_backlog {
    struct belfry_list events;
    size_t bytes;
};

/* An event in it. */
struct resource_event {
    struct belfry_list node;
    size_t bytes;
    enum resource_change change;
    struct resource_object object; /* its bytes are behind this structure */
};

void resource_backlog_init(struct resource_backlog *backlog);
void resource_backlog_clear(struct resource_backlog *backlog);

static inline bool resource_backlog_is_empty(const struct resource_backlog *backlog)
{
    return belfry_list_empty(&backlog->events);
}

/* Errors: BELFRY_ERR_LIMIT, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err resource_backlog_add(struct resource_backlog *backlog, enum resource_change change,
                                                      const struct resource_object *object);

/* The oldest; there is one. drop_first() frees it. */
const struct resource_event *resource_backlog_first(const struct resource_backlog *backlog);
void resource_backlog_drop_first(struct resource_backlog *backlog);

#endif
