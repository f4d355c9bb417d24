/* src/kapi/frames.h
 *
 * frames: finds where values begin and end in a stream of JSON that comes in pieces of any size, without reading them.
 *
 *     BELFRY_FRAMES_VALUES   {"type":...}\n{"type":...}\n      each value is a frame; what is between may be any white space
 *     BELFRY_FRAMES_ITEMS    {"kind":...,"metadata":{...},"items":[{...},{...}]}
 *                            each element of the top object's "items" is a frame, in whatever place that stands; the rest
 *                            of the object, with "items":[] where they were, is one more frame at the end (the envelope)
 *
 * It looks at quotes, backslashes, brackets and commas only: whether a frame is JSON is for its reader to find out, and
 * nothing that is valid JSON is cut in the wrong place. A top value of ITEMS that is no object, or whose items are no
 * array (null counts as empty), comes whole as the envelope. Of VALUES a number, true, false or null is complete when
 * something stands behind it.
 *
 * Thread: owner. Pure.
 * Memory: the bytes of the frame that is not complete yet, and what was fed and not taken; a frame is at most max_bytes.
 */
#ifndef BELFRY_KAPI_FRAMES_H
#define BELFRY_KAPI_FRAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum belfry_frames_mode { BELFRY_FRAMES_VALUES, BELFRY_FRAMES_ITEMS };

struct belfry_frames;

BELFRY_NODISCARD enum belfry_err belfry_frames_create(enum belfry_frames_mode mode, size_t max_bytes,
                                                      struct belfry_frames **out);
void belfry_frames_destroy(struct belfry_frames *frames); /* NULL is fine */

/* Copies `bytes` behind what is there; drops them after TOO_LARGE and PROTOCOL. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_frames_feed(struct belfry_frames *frames, struct belfry_bytes bytes);

/* The next frame, lent until the next call. *out_envelope: it is the envelope of ITEMS.
 * Errors: BELFRY_ERR_AGAIN (not all of it is here), BELFRY_ERR_TOO_LARGE, BELFRY_ERR_PROTOCOL (no value can begin like
 * this), BELFRY_ERR_NOMEM (it may be asked again). TOO_LARGE and PROTOCOL stay. */
BELFRY_NODISCARD enum belfry_err belfry_frames_next(struct belfry_frames *frames, struct belfry_bytes *out,
                                                    bool *out_envelope);

/* The frame that was given last is given once more by the next call of next(). */
void belfry_frames_again(struct belfry_frames *frames);

/* What was fed and not taken; after TOO_LARGE and PROTOCOL it begins with what was wrong. Lent until the next call. */
struct belfry_bytes belfry_frames_rest(const struct belfry_frames *frames);

/* Of ITEMS: the members of the top object that have been passed so far, as they will stand in the envelope, not closed:
 * `{"kind":"PodList","apiVersion":"v1"`. Lent until the next call. */
struct belfry_bytes belfry_frames_passed(const struct belfry_frames *frames);

/* True when the stream may end here: nothing but white space since the last frame (ITEMS: since the envelope). */
bool belfry_frames_clean(const struct belfry_frames *frames);

size_t belfry_frames_held(const struct belfry_frames *frames); /* bytes of memory */

#endif
