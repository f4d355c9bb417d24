/* src/kapi/frames.c */
#include "kapi/frames.h"

#include <assert.h>
#include <stdlib.h>

#include "base/owner.h"
#include "kapi/envelope.h"
#include "json/nest.h"

#define KEPT_MAX 4096 /* bytes of storage that an empty buffer keeps: a thousand quiet watches shall cost little */

/*     VALUES   BETWEEN <--> VALUE
 *
 *     ITEMS    BETWEEN --> ENVELOPE --> FIRST --> VALUE --> BEHIND --> ELEMENT --> VALUE
 *                  |        |     ^       |                   |
 *                  v        v     `-------'---- at ] ---------'
 *                WHOLE --> ENDED
 */
enum where {
    BETWEEN,  /* only white space until a value begins */
    VALUE,    /* in a frame; in[0, scanned) is of it */
    WHOLE,    /* the same, of a top value that is no object: all of it is the envelope */
    ENVELOPE, /* in the top object, but for its items */
    FIRST,    /* behind the bracket that opens the items */
    BEHIND,   /* behind an item */
    ELEMENT,  /* behind a comma between items */
    ENDED     /* behind the envelope */
};

/* What is complete: in[0, scanned), the same as the envelope, or the envelope's own text. */
enum ready { READY_NOT, READY_FRAME, READY_WHOLE, READY_ENVELOPE };

struct belfry_frames {
    /* fixed at creation */
    enum belfry_frames_mode mode;
    size_t max_bytes;
    /* owner */
    struct belfry_buf in; /* fed and not taken */
    struct belfry_envelope envelope;
    enum where where;
    struct belfry_nest nest; /* of VALUE and WHOLE */
    size_t scanned;          /* of VALUE and WHOLE, or of what is ready; each byte is looked at once */
    enum ready ready;
    bool lent;           /* what is ready was given, and goes with the next call */
    enum belfry_err err; /* TOO_LARGE or PROTOCOL, for good */
    BELFRY_OWNER;
};

enum belfry_err belfry_frames_create(enum belfry_frames_mode mode, size_t max_bytes, struct belfry_frames **out)
{
    struct belfry_frames *frames = calloc(1, sizeof(*frames));
    if (frames == NULL)
        return BELFRY_ERR_NOMEM;
    frames->mode = mode;
    frames->max_bytes = max_bytes;
    belfry_buf_init(&frames->in);
    belfry_envelope_init(&frames->envelope, max_bytes);
    BELFRY_OWNER_INIT(frames);
    *out = frames;
    return BELFRY_OK;
}

void belfry_frames_destroy(struct belfry_frames *frames)
{
    if (frames == NULL)
        return;
    BELFRY_OWNER_CHECK(frames);
    belfry_buf_fini(&frames->in);
    belfry_envelope_fini(&frames->envelope);
    free(frames);
}

enum belfry_err belfry_frames_feed(struct belfry_frames *frames, struct belfry_bytes bytes)
{
    BELFRY_OWNER_CHECK(frames);
    return frames->err != BELFRY_OK ? BELFRY_OK : belfry_buf_append(&frames->in, bytes.data, bytes.len);
}

/* ---- stepping ---- */

static void move(struct belfry_frames *frames, enum where to)
{
    static const unsigned may[] = {[BETWEEN] = 1u << VALUE | 1u << WHOLE | 1u << ENVELOPE,
                                   [VALUE] = 1u << BETWEEN | 1u << BEHIND,
                                   [WHOLE] = 1u << ENDED,
                                   [ENVELOPE] = 1u << FIRST | 1u << ENDED,
                                   [FIRST] = 1u << VALUE | 1u << ENVELOPE,
                                   [BEHIND] = 1u << ELEMENT | 1u << ENVELOPE,
                                   [ELEMENT] = 1u << VALUE,
                                   [ENDED] = 0};
    assert((may[frames->where] & 1u << to) != 0);
    (void)may; /* without assertions nobody asks */
    frames->where = to;
}

static void take(struct belfry_frames *frames, size_t len)
{
    belfry_buf_take(&frames->in, len);
    if (belfry_buf_len(&frames->in) == 0 && frames->in.cap > KEPT_MAX)
        belfry_buf_fini(&frames->in);
}

/* Drops white space. Errors: BELFRY_ERR_AGAIN: there is nothing else. */
static enum belfry_err next_byte(struct belfry_frames *frames, char *out)
{
    struct belfry_bytes in = belfry_buf_bytes(&frames->in);
    size_t n = 0;
    while (n < in.len && belfry_nest_is_space(in.data[n]))
        n++;
    if (n < in.len)
        *out = in.data[n];
    enum belfry_err err = n < in.len ? BELFRY_OK : BELFRY_ERR_AGAIN;
    take(frames, n);
    return err;
}

/* Errors: BELFRY_ERR_PROTOCOL: no value begins with `c`. */
static enum belfry_err begin(struct belfry_frames *frames, char c)
{
    if (c == '\0' || strchr("{[\"-0123456789tfn", c) == NULL)
        return BELFRY_ERR_PROTOCOL;
    bool top = frames->mode == BELFRY_FRAMES_ITEMS && frames->where == BETWEEN;
    move(frames, !top ? VALUE : c == '{' ? ENVELOPE : WHOLE);
    frames->nest = (struct belfry_nest){0};
    frames->scanned = 0;
    return BELFRY_OK;
}

/* True: it is complete. Nothing behind the first byte over the limit is looked at. */
static bool skip(struct belfry_frames *frames)
{
    struct belfry_bytes in = belfry_buf_bytes(&frames->in);
    size_t end = in.len > frames->max_bytes ? frames->max_bytes + 1 : in.len;
    if (belfry_nest_is_word(in.data[0])) {
        while (frames->scanned < end && belfry_nest_is_word(in.data[frames->scanned]))
            frames->scanned++;
        return frames->scanned < end;
    }
    frames->scanned +=
        belfry_nest_skip(&frames->nest, 0, belfry_bytes_of(in.data + frames->scanned, end - frames->scanned));
    return belfry_nest_back(&frames->nest, 0);
}

static enum belfry_err step_value(struct belfry_frames *frames)
{
    bool complete = skip(frames);
    if (frames->scanned > frames->max_bytes)
        return BELFRY_ERR_TOO_LARGE;
    if (!complete)
        return BELFRY_ERR_AGAIN;
    bool whole = frames->where == WHOLE;
    frames->ready = whole ? READY_WHOLE : READY_FRAME;
    move(frames, whole ? ENDED : frames->mode == BELFRY_FRAMES_ITEMS ? BEHIND : BETWEEN);
    return BELFRY_OK;
}

static enum belfry_err step_envelope(struct belfry_frames *frames)
{
    size_t len;
    enum belfry_envelope_at at;
    if (belfry_buf_len(&frames->in) == 0)
        return BELFRY_ERR_AGAIN;
    enum belfry_err err = belfry_envelope_take(&frames->envelope, belfry_buf_bytes(&frames->in), &len, &at);
    if (err != BELFRY_OK)
        return err;
    take(frames, len);
    if (at == BELFRY_ENVELOPE_ITEMS) {
        move(frames, FIRST);
    } else if (at == BELFRY_ENVELOPE_ENDED) {
        move(frames, ENDED);
        frames->ready = READY_ENVELOPE;
    }
    return BELFRY_OK;
}

/* Where only certain marks may stand. The bracket that closes the items is the envelope's. */
static enum belfry_err step_mark(struct belfry_frames *frames)
{
    char c;
    enum belfry_err err = next_byte(frames, &c);
    if (err != BELFRY_OK)
        return err;
    if ((frames->where == FIRST || frames->where == BEHIND) && c == ']') {
        move(frames, ENVELOPE);
        return BELFRY_OK;
    }
    if (frames->where == BEHIND && c == ',') {
        move(frames, ELEMENT);
        take(frames, 1);
        return BELFRY_OK;
    }
    return frames->where == BEHIND || frames->where == ENDED ? BELFRY_ERR_PROTOCOL : begin(frames, c);
}

static enum belfry_err step(struct belfry_frames *frames)
{
    switch (frames->where) {
    case VALUE:
    case WHOLE:
        return step_value(frames);
    case ENVELOPE:
        return step_envelope(frames);
    case BETWEEN:
    case FIRST:
    case BEHIND:
    case ELEMENT:
    case ENDED:
        break;
    }
    return step_mark(frames);
}

/* ---- what comes of it ---- */

static void drop_lent(struct belfry_frames *frames)
{
    if (!frames->lent)
        return;
    if (frames->ready != READY_ENVELOPE)
        take(frames, frames->scanned);
    frames->ready = READY_NOT;
    frames->lent = false;
}

enum belfry_err belfry_frames_next(struct belfry_frames *frames, struct belfry_bytes *out, bool *out_envelope)
{
    BELFRY_OWNER_CHECK(frames);
    drop_lent(frames);
    while (frames->ready == READY_NOT) {
        enum belfry_err err = frames->err != BELFRY_OK ? frames->err : step(frames);
        if (err == BELFRY_ERR_TOO_LARGE || err == BELFRY_ERR_PROTOCOL)
            frames->err = err;
        if (err != BELFRY_OK)
            return err;
    }
    frames->lent = true;
    *out_envelope = frames->ready != READY_FRAME;
    *out = frames->ready == READY_ENVELOPE ? belfry_buf_bytes(&frames->envelope.text)
                                           : belfry_bytes_of(belfry_buf_bytes(&frames->in).data, frames->scanned);
    return BELFRY_OK;
}

void belfry_frames_again(struct belfry_frames *frames)
{
    BELFRY_OWNER_CHECK(frames);
    frames->lent = false;
}

struct belfry_bytes belfry_frames_rest(const struct belfry_frames *frames)
{
    return belfry_buf_bytes(&frames->in);
}

struct belfry_bytes belfry_frames_passed(const struct belfry_frames *frames)
{
    return belfry_envelope_passed(&frames->envelope);
}

bool belfry_frames_clean(const struct belfry_frames *frames)
{
    struct belfry_bytes in = belfry_buf_bytes(&frames->in);
    size_t at = frames->lent && frames->ready != READY_ENVELOPE ? frames->scanned : 0;
    while (at < in.len && belfry_nest_is_space(in.data[at]))
        at++;
    return frames->err == BELFRY_OK && (frames->ready == READY_NOT || frames->lent) && at == in.len &&
           frames->where == (frames->mode == BELFRY_FRAMES_ITEMS ? ENDED : BETWEEN);
}

size_t belfry_frames_held(const struct belfry_frames *frames)
{
    return frames->in.cap + frames->envelope.text.cap;
}
