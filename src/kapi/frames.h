/* src/kapi/frames.h
 *
 * frames: finds where values begin and end in a stream of JSON that arrives in pieces, without parsing them.
 *
 *     BELFRY_FRAMES_VALUES   {"type":...}\n{"type":...}\n      each value is a frame; white space separates them
 *     BELFRY_FRAMES_ITEMS    {"kind":...,"metadata":{...},"items":[{...},{...}]}
 *                            each element of the top object's "items" is a frame, wherever "items" appears; the rest of
 *                            the object, with "items":[] in their place, is the last frame (the envelope)
 *
 * It looks only at quotes, backslashes, brackets and commas. It cuts valid JSON correctly; the parser of a frame finds
 * out whether it is JSON. In ITEMS, a top value that is not an object, or whose items are not an array (null counts as
 * empty), is returned whole as the envelope. In VALUES, a number, true, false or null is complete when another byte
 * follows it.
 *
 * Thread: owner. Pure.
 * Memory: the bytes of the incomplete frame, and bytes fed but not taken; a frame has at most max_bytes.
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

/* Appends a copy of `bytes`; drops them after TOO_LARGE and PROTOCOL. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_frames_feed(struct belfry_frames *frames, struct belfry_bytes bytes);

/* The next frame, lent until the next call. *out_envelope: it is the envelope of ITEMS.
 * Errors: BELFRY_ERR_AGAIN (incomplete), BELFRY_ERR_TOO_LARGE, BELFRY_ERR_PROTOCOL (no value can begin like this),
 * BELFRY_ERR_NOMEM (call it again). TOO_LARGE and PROTOCOL are permanent. */
BELFRY_NODISCARD enum belfry_err belfry_frames_next(struct belfry_frames *frames, struct belfry_bytes *out,
                                                    bool *out_envelope);

/* The next call of next() returns the last frame once more. */
void belfry_frames_again(struct belfry_frames *frames);

/* Bytes fed but not taken; after TOO_LARGE and PROTOCOL they begin with the error. Lent until the next call. */
struct belfry_bytes belfry_frames_rest(const struct belfry_frames *frames);

/* In ITEMS: the members of the top object so far, as they will appear in the envelope, without a closing bracket:
 * `{"kind":"PodList","apiVersion":"v1"`. Lent until the next call. */
struct belfry_bytes belfry_frames_passed(const struct belfry_frames *frames);

/* Whether the stream may end here: only white space since the last frame (ITEMS: since the envelope). */
bool belfry_frames_clean(const struct belfry_frames *frames);

size_t belfry_frames_held(const struct belfry_frames *frames); /* bytes of memory */

#endif
