/* tests/storm/objects.h
 *
 * objects: what a list or a line of a watch of Kubernetes says. `who` is the reader, for findings.
 *
 * Thread: any.
 */
#ifndef BELFRY_STORM_OBJECTS_H
#define BELFRY_STORM_OBJECTS_H

#include <stdint.h>

#include "base/bytes.h"

/* The text after `name` up to the next quote; empty: there is none. */
struct belfry_bytes objects_text(struct belfry_bytes in, const char *name);

/* Of the first object in it. */
int64_t objects_revision(const char *who, struct belfry_bytes in);

/* Of the list itself, which is whole. */
int64_t objects_list_revision(const char *who, struct belfry_bytes list);

#endif
