/* src/kapi/frames.c */
#include "kapi/frames.h"

#include <assert.h>
#include <stdlib.h>

#include "base/owner.h"
#include "json/escape.h"
#include "json/nest.h"

#define KEPT_MAX 4096 /* bytes of storage that an empty buffer keeps: quiet watches should cost little */

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
    WHOLE,    /* the same, of a top value that is not an object: all of it is the envelope */
    ENVELOPE, /* in the top object, outside of its items */
    FIRST,    /* after the bracket that opens the items */
    BEHIND,   /* after an item */
    ELEMENT,  /* after a comma between items */
    ENDED     /* after the envelope */
};

/* Which frame is complete: in[0, scanned), the same as an envelope, or the envelope's own text. */
enum ready { READY_NOT, READY_FRAME, READY_WHOLE, READY_ENVELOPE };

/* The position in the top object of ITEMS; small, so that it can be restored if the text cannot be stored. Offsets are
 * in the envelope's text. */
struct envelope_walk {
    struct belfry_nest nest;
    size_t name;   /* after the quote that opens the member's name; 0: none yet */
    size_t behind; /* after the last string, object or array */
    size_t passed; /* length of the complete members */
    bool is_value; /* after a colon: a value comes next, not a name */
};

struct belfry_frames {
    /* fixed at creation */
    enum belfry_frames_mode mode;
    size_t max_bytes;
    /* owner */
    struct belfry_buf in;       /* fed and not taken */
    struct belfry_buf envelope; /* of ITEMS: the text of the top object without its items, at most max_bytes */
    struct envelope_walk walk;  /* at its end */
    enum where where;
    struct belfry_nest nest; /* of VALUE and WHOLE */
    size_t scanned;          /* of VALUE and WHOLE, or of the ready frame; each byte is scanned once */
    enum ready ready;
    bool lent;           /* the ready frame was returned; the next call drops it */
    enum belfry_err err; /* TOO_LARGE or PROTOCOL, permanent */
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
    belfry_buf_init(&frames->envelope);
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
    belfry_buf_fini(&frames->envelope);
    free(frames);
}

enum belfry_err belfry_frames_feed(struct belfry_frames *frames, struct belfry_bytes bytes)
{
    BELFRY_OWNER_CHECK(frames);
    return frames->err != BELFRY_OK ? BELFRY_OK : belfry_buf_append(&frames->in, bytes.data, bytes.len);
}

/* ---- stepping ---- */

static void frames_move_to(struct belfry_frames *frames, enum where to)
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
    (void)may; /* unused without assertions */
    frames->where = to;
}

static void frames_take(struct belfry_frames *frames, size_t len)
{
    belfry_buf_take(&frames->in, len);
    if (belfry_buf_len(&frames->in) == 0 && frames->in.cap > KEPT_MAX)
        belfry_buf_fini(&frames->in);
}

/* ---- a value ---- */

/* Errors: BELFRY_ERR_PROTOCOL: no value begins with `c`. */
static enum belfry_err frames_begin_value(struct belfry_frames *frames, char c)
{
    if (c == '\0' || strchr("{[\"-0123456789tfn", c) == NULL)
        return BELFRY_ERR_PROTOCOL;
    bool top = frames->mode == BELFRY_FRAMES_ITEMS && frames->where == BETWEEN;
    frames_move_to(frames, !top ? VALUE : c == '{' ? ENVELOPE : WHOLE);
    frames->nest = (struct belfry_nest){0};
    frames->scanned = 0;
    return BELFRY_OK;
}

/* Bytes after the first one over the limit are not scanned. */
static enum belfry_err step_value(struct belfry_frames *frames)
{
    struct belfry_bytes in = belfry_buf_bytes(&frames->in);
    size_t end = in.len > frames->max_bytes ? frames->max_bytes + 1 : in.len;
    bool complete;
    if (belfry_nest_is_word(in.data[0])) {
        while (frames->scanned < end && belfry_nest_is_word(in.data[frames->scanned]))
            frames->scanned++;
        complete = frames->scanned < end;
    } else {
        frames->scanned +=
            belfry_nest_skip(&frames->nest, 0, belfry_bytes_of(in.data + frames->scanned, end - frames->scanned));
        complete = belfry_nest_back(&frames->nest, 0);
    }
    if (frames->scanned > frames->max_bytes)
        return BELFRY_ERR_TOO_LARGE;
    if (!complete)
        return BELFRY_ERR_AGAIN;

    bool whole = frames->where == WHOLE;
    frames->ready = whole ? READY_WHOLE : READY_FRAME;
    frames_move_to(frames, whole ? ENDED : frames->mode == BELFRY_FRAMES_ITEMS ? BEHIND : BETWEEN);
    return BELFRY_OK;
}

/* ---- the envelope ----
 *
 *     {"kind":"PodList","metadata":{...},"items":[   |   ],"more":1}
 *                                           AT_ARRAY             AT_END
 *
 * If "items" appears twice, the elements of both are frames; the parser of the text rejects that. */

enum envelope_at { AT_MORE, AT_ARRAY, AT_END };

/* Walks until a member's value opens an array (possibly the items), or the object or the piece ends. `at` is the
 * piece's offset in the text. Returns the bytes walked. */
static size_t envelope_walk(struct envelope_walk *walk, struct belfry_bytes piece, size_t at, enum envelope_at *out_at)
{
    size_t n = 0;
    if (at == 0 && piece.len > 0) { /* the object's own bracket */
        walk->nest.depth = 1;
        walk->passed = n = 1;
    }
    while (n < piece.len) {
        char c = piece.data[n];
        if (belfry_nest_back(&walk->nest, 1)) { /* a byte of the object itself, outside of its members */
            bool ends = c == '}' || c == ']', array = c == '[' && walk->is_value;
            if (c == '"' && !walk->is_value) {
                walk->name = at + n + 1;
            } else if (c == ':') {
                walk->is_value = true;
            } else if (c == ',') {
                walk->is_value = false;
                walk->name = 0;
                walk->passed = at + n;
            }
            if (ends || array) {
                walk->nest.depth = ends ? 0 : 2;
                *out_at = ends ? AT_END : AT_ARRAY;
                return n + 1;
            }
            if (c != '"' && c != '{' && c != '[') {
                n++;
                continue;
            }
        }
        n += belfry_nest_skip(&walk->nest, 1, belfry_bytes_of(piece.data + n, piece.len - n));
        walk->behind = at + n;
    }
    *out_at = AT_MORE;
    return n;
}

static enum belfry_err step_envelope(struct belfry_frames *frames)
{
    struct belfry_bytes in = belfry_buf_bytes(&frames->in);
    struct envelope_walk before = frames->walk, *walk = &frames->walk;
    size_t had = belfry_buf_len(&frames->envelope);
    enum envelope_at at;
    if (in.len == 0)
        return BELFRY_ERR_AGAIN;
    size_t n = envelope_walk(walk, in, had, &at);
    if (n > frames->max_bytes - had)
        return BELFRY_ERR_TOO_LARGE;
    if (belfry_buf_append(&frames->envelope, in.data, n) != BELFRY_OK) {
        *walk = before;
        return BELFRY_ERR_NOMEM;
    }
    frames_take(frames, n);

    if (at == AT_END) {
        frames_move_to(frames, ENDED);
        frames->ready = READY_ENVELOPE;
    } else if (at == AT_ARRAY && walk->name != 0 && walk->behind > walk->name) {
        const char *text = belfry_buf_bytes(&frames->envelope).data;
        if (belfry_escape_is(belfry_bytes_of(text + walk->name, walk->behind - 1 - walk->name), "items"))
            frames_move_to(frames, FIRST);
    }
    return BELFRY_OK;
}

/* ---- between values ---- */

/* Handles the places where only certain marks may appear. The bracket that closes the items belongs to the envelope. */
static enum belfry_err step_mark(struct belfry_frames *frames)
{
    struct belfry_bytes in = belfry_buf_bytes(&frames->in);
    size_t blanks = 0;
    while (blanks < in.len && belfry_nest_is_space(in.data[blanks]))
        blanks++;
    char c = blanks < in.len ? in.data[blanks] : '\0';
    frames_take(frames, blanks);
    if (blanks == in.len)
        return BELFRY_ERR_AGAIN;

    if ((frames->where == FIRST || frames->where == BEHIND) && c == ']') {
        frames_move_to(frames, ENVELOPE);
        return BELFRY_OK;
    }
    if (frames->where == BEHIND && c == ',') {
        frames_move_to(frames, ELEMENT);
        frames_take(frames, 1);
        return BELFRY_OK;
    }
    return frames->where == BEHIND || frames->where == ENDED ? BELFRY_ERR_PROTOCOL : frames_begin_value(frames, c);
}

static enum belfry_err frames_step(struct belfry_frames *frames)
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

/* ---- returning frames ---- */

enum belfry_err belfry_frames_next(struct belfry_frames *frames, struct belfry_bytes *out, bool *out_envelope)
{
    BELFRY_OWNER_CHECK(frames);
    if (frames->lent) { /* drop the frame that was returned last */
        if (frames->ready != READY_ENVELOPE)
            frames_take(frames, frames->scanned);
        frames->ready = READY_NOT;
        frames->lent = false;
    }
    while (frames->ready == READY_NOT) {
        enum belfry_err err = frames->err != BELFRY_OK ? frames->err : frames_step(frames);
        if (err == BELFRY_ERR_TOO_LARGE || err == BELFRY_ERR_PROTOCOL)
            frames->err = err;
        if (err != BELFRY_OK)
            return err;
    }
    frames->lent = true;
    *out_envelope = frames->ready != READY_FRAME;
    *out = frames->ready == READY_ENVELOPE ? belfry_buf_bytes(&frames->envelope)
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
    return belfry_bytes_of(belfry_buf_bytes(&frames->envelope).data, frames->walk.passed);
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
    return frames->in.cap + frames->envelope.cap;
}
