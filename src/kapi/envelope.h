/* src/kapi/envelope.h
 *
 * envelope: collects the list object without its items, from pieces. It reports when the array of "items" begins and
 * when the object ends; the caller handles the elements.
 *
 *     {"kind":"PodList","metadata":{...},"items":[   |   ],"more":1}
 *                                                ITEMS             ENDED
 *
 * Thread: owner. Pure.
 * Memory: its text, at most max_bytes.
 */
#ifndef BELFRY_KAPI_ENVELOPE_H
#define BELFRY_KAPI_ENVELOPE_H

#include "base/buf.h"
#include "json/nest.h"

enum belfry_envelope_at {
    BELFRY_ENVELOPE_MORE,  /* needs more, beginning with the rest of this piece */
    BELFRY_ENVELOPE_ITEMS, /* after the bracket that opens the items; continue with the closing one */
    BELFRY_ENVELOPE_ENDED
};

/* The position of the walk; small, so that it can be restored if the text cannot be stored. Offsets are in the text. */
struct belfry_envelope_walk {
    struct belfry_nest nest;
    size_t name;   /* after the quote that opens the member's name; 0: none yet */
    size_t behind; /* after the last string, object or array */
    size_t passed; /* length of the complete members */
    bool is_value; /* after a colon: a value comes next, not a name */
};

struct belfry_envelope {
    struct belfry_buf text;
    struct belfry_envelope_walk walk;
    size_t max_bytes;
};

static inline void belfry_envelope_init(struct belfry_envelope *envelope, size_t max_bytes)
{
    *envelope = (struct belfry_envelope){.max_bytes = max_bytes};
}

static inline void belfry_envelope_fini(struct belfry_envelope *envelope)
{
    belfry_buf_fini(&envelope->text);
}

/* Takes *out_len bytes from the front of `piece`; the very first piece begins with '{'. If "items" appears twice, both
 * are reported; the parser of the text rejects that.
 * Errors: BELFRY_ERR_TOO_LARGE; BELFRY_ERR_NOMEM (nothing was taken). */
BELFRY_NODISCARD enum belfry_err belfry_envelope_take(struct belfry_envelope *envelope, struct belfry_bytes piece,
                                                      size_t *out_len, enum belfry_envelope_at *out_at);

/* The complete members so far, without a closing bracket. */
static inline struct belfry_bytes belfry_envelope_passed(const struct belfry_envelope *envelope)
{
    return belfry_bytes_of(belfry_buf_bytes(&envelope->text).data, envelope->walk.passed);
}

#endif
