/* src/kapi/envelope.h
 *
 * envelope: the object that a list is, without its items, collected from pieces: it knows when it comes to the array of
 * "items" and when the object ends, and leaves the elements to somebody else.
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
    BELFRY_ENVELOPE_MORE,  /* it goes on, with what is left of the piece first */
    BELFRY_ENVELOPE_ITEMS, /* behind the bracket that opens the items; the one that closes them is to come next */
    BELFRY_ENVELOPE_ENDED
};

/* Where the walk is; small, to go back to when the text cannot be kept. Places are those of the text. */
struct belfry_envelope_walk {
    struct belfry_nest nest;
    size_t name;   /* behind the quote that opens the member's name; 0: none yet */
    size_t behind; /* the string, object or array that was passed last */
    size_t passed; /* so much are whole members */
    bool is_value; /* a colon was passed: what comes is no name */
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

/* Takes from the front of `piece`, *out_len bytes of it; the first piece of all begins with '{'. Items that stand there
 * twice come twice: that there is only one is for the reader of the text to find out.
 * Errors: BELFRY_ERR_TOO_LARGE; BELFRY_ERR_NOMEM (nothing was taken). */
BELFRY_NODISCARD enum belfry_err belfry_envelope_take(struct belfry_envelope *envelope, struct belfry_bytes piece,
                                                      size_t *out_len, enum belfry_envelope_at *out_at);

/* The members that were passed, not closed. */
static inline struct belfry_bytes belfry_envelope_passed(const struct belfry_envelope *envelope)
{
    return belfry_bytes_of(belfry_buf_bytes(&envelope->text).data, envelope->walk.passed);
}

#endif
