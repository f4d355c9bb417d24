/* tests/sim/dialect.h
 *
 * dialect: what streams of lines say in the simulator. A line is a WatchResponse of its own, with gRPC's prefix: one
 * event, or none (a bookmark), or canceled with a compact revision (the last one). So the checker reads them as it
 * reads everything else, and judges their events byte for byte.
 *
 * A page is the same for several events of a revision, with `fragment` if it is not the last of that revision.
 *
 * A line carries its revision (header.revision), and that is all that a client resumes from.
 *
 * A value has attributes, made of its first bytes, so that each write may give a key others; a watch may have pinned
 * one. Pins are numbered from 1; a create request on a stream of lines has the number where others have a watch id, and
 * `fragment` where it resumes from its start revision.
 *
 * Thread: the one thread of the simulator. Pure.
 */
#ifndef BELFRY_SIM_DIALECT_H
#define BELFRY_SIM_DIALECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/blob.h"
#include "base/bytes.h"
#include "core/batch.h"
#include "core/lines.h"

#define DIALECT_PINS     5
#define DIALECT_KEY_PINS 2 /* of pages, after these: they are of keys */

struct dialect_watch {
    bool prev_kv;
    unsigned pin; /* 0: none */
};

/* As in core/lines.h. A watch that needs what was before, to show it or to know whether the event is its own, is lost
 * without it. */
enum belfry_err dialect_event(const struct dialect_watch *watch, const struct batch *batch, uint32_t event,
                              struct belfry_blob **out);
/* At most `most` events to a page. *part_rev: the last revision of which a page was open; moved. */
enum belfry_err dialect_revision(const struct dialect_watch *watch, const struct lines_part *part, uint32_t most,
                                 int64_t *part_rev, uint32_t *used, struct belfry_blob **out);
enum belfry_err dialect_progress(int64_t rev, struct belfry_blob **out);
/* Of a message without events; false: it is the last page of a revision. */
bool dialect_is_progress(const struct belfry_wire_watch *watch);
enum belfry_err dialect_lost(int64_t compact_rev, struct belfry_blob **out);
void dialect_attribute(const struct batch *batch, uint32_t event, struct belfry_bytes name, struct belfry_bytes *before,
                       struct belfry_bytes *after);

struct belfry_bytes dialect_pin_name(unsigned pin);
struct belfry_bytes dialect_pin_value(unsigned pin);

/* Has a KeyValue (empty: there is none) what was pinned? */
bool dialect_pinned(unsigned pin, struct belfry_bytes kv);
/* Has a value? Its first DIALECT_MARK bytes decide: its past, its revision and its place. */
#define DIALECT_MARK 12
bool dialect_value_pinned(unsigned pin, struct belfry_bytes value);
bool dialect_key_pinned(unsigned pin, struct belfry_bytes key);

#endif
