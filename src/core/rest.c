/* src/core/rest.c: one engine for all kinds of rests. A batch counts as the only slice of its revision and is held
 * until the end; bytes and a line are one run. */
#include "core/rest.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/sim.h"
#include "wire/write.h"

/* Prefix; header: tag, length and four numbers; watch_id; fragment. */
#define FRAGMENT_BYTES 2
#define HEAD_MAX       (RESPONSE_PREFIX + 2 + 4 * 11 + 11 + FRAGMENT_BYTES)

enum rest_state { MEASURING, WRITING, ENDED };

/* Events that go out as one message. While it is measured, `spare` is an event that fits only if it is the last one: a
 * response in one piece does not need the two bytes of the field `fragment`. */
struct piece {
    uint32_t from; /* sub of the first event that may be in it */
    uint64_t n, bytes;
    uint64_t spare_bytes; /* 0: none */
};

struct rest {
    /* fixed at creation */
    struct response_identity identity;
    struct response_opts opts;
    struct range range; /* its bytes are in `tail` */
    int64_t rev;
    uint64_t cut_bytes;
    size_t head_bytes;        /* without prefix and `fragment` */
    struct belfry_blob *line; /* one reference; NULL: it is not of a line */
    size_t tail_len;
    /* moved by fill and slice */
    enum rest_state state;
    bool begun;
    bool in_slices;            /* it received a slice that is not the whole revision */
    bool first;                /* no piece is written yet */
    struct piece piece;        /* WRITING: n and bytes count down */
    bool broken;               /* the rows are not those that were measured */
    bool further;              /* WRITING: a piece follows */
    const struct batch *slice; /* one reference; NULL: wanted, unless ENDED or of bytes */
    uint32_t sub;              /* the event that is looked at next */
    const uint8_t *run;        /* what goes out before anything else: first head, then run */
    size_t run_len;
    uint8_t head[HEAD_MAX];
    uint8_t head_at, head_len;
    uint8_t tail[]; /* the range's bytes, or those of rest_of_bytes() */
};
static_assert(HEAD_MAX >= BELFRY_WRITE_EVENT_FIELD_MAX, "an event's field head goes there too");

static void rest_move_to(struct rest *rest, enum rest_state to)
{
    assert(rest->state != ENDED && rest->state != to);
    rest->state = to;
}

static void drop_slice(struct rest *rest)
{
    batch_unref(rest->slice);
    rest->slice = NULL;
}

static bool has_pending(const struct rest *rest)
{
    return rest->head_at < rest->head_len || rest->run_len > 0;
}

/* The slice's next event that belongs to the response; `sub` moves past it. NULL: the slice has no more. */
static const struct batch_event *next_event(struct rest *rest)
{
    while (rest->sub < rest->slice->first_sub + rest->slice->n_events) {
        const struct batch_event *event = &rest->slice->events[rest->sub++ - rest->slice->first_sub];
        if (response_passes(rest->opts.flags, event) && range_has(&rest->range, batch_key(rest->slice, event)))
            return event;
    }
    return NULL;
}

static struct belfry_bytes event_run(const struct rest *rest, const struct batch_event *event)
{
    return batch_bytes(rest->slice, event, (rest->opts.flags & WATCHER_PREV_KV) != 0);
}

/* ---- measuring ---- */

/* Takes an event into the piece; false: it does not fit, the piece ends before it. */
static bool measure_event(struct rest *rest, uint64_t bytes)
{
    struct piece *piece = &rest->piece;
    uint64_t whole = rest->head_bytes + piece->bytes + piece->spare_bytes + bytes;
    if (piece->n == 0 || whole + FRAGMENT_BYTES < rest->cut_bytes) {
        piece->n++;
        piece->bytes += bytes;
        return true;
    }
    if (!rest->first || whole >= rest->cut_bytes)
        return false;
    piece->spare_bytes = bytes;
    return true;
}

/* The length of the piece is known: makes its head and finds its first event. */
static void begin_piece(struct rest *rest, bool further)
{
    struct belfry_wire_watch head = response_head(&rest->identity, &rest->opts, further);
    uint64_t bytes = rest->head_bytes + (further ? FRAGMENT_BYTES : 0) + rest->piece.bytes;
    uint8_t *end = response_prefix(rest->head, (uint32_t)bytes);
    end = belfry_write_watch_head(&head, end);
    rest->head_at = 0;
    rest->head_len = (uint8_t)(end - rest->head);

    rest->further = further;
    rest->sub = rest->piece.from;
    if (rest->sub < rest->slice->first_sub)
        drop_slice(rest);
    rest_move_to(rest, WRITING);
}

static void end_response(struct rest *rest)
{
    drop_slice(rest);
    rest_move_to(rest, ENDED);
}

/* False: a slice is wanted, or there is nothing to be sent. */
static bool measure_piece(struct rest *rest)
{
    const struct batch_event *event;
    while ((event = next_event(rest)) != NULL) {
        size_t len = event_run(rest, event).len;
        if (!measure_event(rest, belfry_write_event_field_size(len) + len)) {
            begin_piece(rest, true);
            return true;
        }
    }
    if (rest->slice->more) {
        drop_slice(rest);
        return false;
    }
    if (rest->piece.n == 0) {
        end_response(rest);
        return false;
    }
    rest->piece.n += rest->piece.spare_bytes > 0;
    rest->piece.bytes += rest->piece.spare_bytes;
    begin_piece(rest, false);
    return true;
}

/* ---- writing ---- */

static void end_piece(struct rest *rest)
{
    if (rest->piece.bytes != 0) {
        rest->broken = true;
        return;
    }
    if (!rest->further) {
        end_response(rest);
        return;
    }
    rest->first = false;
    rest->piece = (struct piece){.from = rest->sub};
    rest_move_to(rest, MEASURING);
}

/* False: a slice is wanted. */
static bool write_event(struct rest *rest)
{
    const struct batch_event *event = next_event(rest);
    if (event == NULL) {
        assert(rest->slice->more); /* it was measured, and history does not change */
        drop_slice(rest);
        return false;
    }
    struct belfry_bytes run = event_run(rest, event);
    uint64_t bytes = belfry_write_event_field_size(run.len) + run.len;
    if (bytes > rest->piece.bytes) {
        rest->broken = true;
        return false;
    }
    rest->piece.bytes -= bytes;
    rest->head_at = 0;
    rest->head_len = (uint8_t)(belfry_write_event_field(run.len, rest->head) - rest->head);
    rest->run = (const uint8_t *)run.data;
    rest->run_len = run.len;
    rest->piece.n--;
    return true;
}

/* Finds what goes out next, when nothing is pending. False: it is done or wants a slice. */
static bool advance_rest(struct rest *rest)
{
    if (rest->state == WRITING && rest->piece.n == 0)
        end_piece(rest);
    if (rest->state == ENDED || rest->slice == NULL || rest->broken)
        return false;
    return rest->state == MEASURING ? measure_piece(rest) : write_event(rest);
}

/* Copies as much of the pending bytes as there is room for. */
static size_t copy_pending(struct rest *rest, uint8_t *to, size_t room)
{
    size_t head = (size_t)(rest->head_len - rest->head_at);
    if (head > room)
        head = room;
    memcpy(to, rest->head + rest->head_at, head);
    rest->head_at = (uint8_t)(rest->head_at + head);

    size_t run = rest->run_len < room - head ? rest->run_len : room - head;
    if (run > 0) {
        memcpy(to + head, rest->run, run);
        rest->run += run;
        rest->run_len -= run;
    }
    return head + run;
}

bool rest_between(const struct rest *rest)
{
    return rest->state == WRITING && rest->piece.n == 0 && rest->further && !has_pending(rest);
}

size_t rest_fill(struct rest *rest, uint8_t *to, size_t room)
{
    size_t n = 0;
    do {
        n += copy_pending(rest, to + n, room - n);
        if (BELFRY_MUTANT(progress_in_fragment) && n > 0 && rest_between(rest))
            break;
    } while (!has_pending(rest) && advance_rest(rest));
    rest->begun = rest->begun || n > 0;
    return n;
}

/* ---- creation, slices, questions ---- */

static enum belfry_err rest_create(size_t tail_len, struct rest **out)
{
    struct rest *rest = calloc(1, sizeof(*rest) + tail_len);
    if (rest == NULL)
        return BELFRY_ERR_NOMEM;
    rest->tail_len = tail_len;
    *out = rest;
    return BELFRY_OK;
}

static struct belfry_bytes keep_bytes(uint8_t *to, struct belfry_bytes bytes)
{
    if (bytes.len > 0)
        memcpy(to, bytes.data, bytes.len);
    return belfry_bytes_of(to, bytes.len);
}

enum belfry_err rest_of_bytes(struct belfry_bytes bytes, struct rest **out)
{
    struct rest *rest;
    enum belfry_err err = rest_create(bytes.len, &rest);
    if (err != BELFRY_OK)
        return err;
    keep_bytes(rest->tail, bytes);
    rest->run = rest->tail;
    rest->run_len = bytes.len;
    rest->begun = true;
    rest_move_to(rest, ENDED);
    *out = rest;
    return BELFRY_OK;
}

enum belfry_err rest_of_line(struct belfry_blob *line, struct rest **out)
{
    struct rest *rest;
    enum belfry_err err = rest_create(0, &rest);
    if (err != BELFRY_OK) {
        belfry_blob_unref(line);
        return err;
    }
    rest->line = line;
    rest->run = (const uint8_t *)belfry_blob_bytes(line).data;
    rest->run_len = belfry_blob_len(line);
    rest_move_to(rest, ENDED);
    *out = rest;
    return BELFRY_OK;
}

enum belfry_err rest_of_extent(const struct response_identity *identity, const struct response_opts *opts,
                               const struct range *range, int64_t rev, struct rest **out)
{
    struct rest *rest;
    enum belfry_err err = rest_create(range->key.len + range->end.len, &rest);
    if (err != BELFRY_OK)
        return err;
    rest->identity = *identity;
    rest->opts = *opts;
    rest->opts.header = NULL;
    rest->range = (struct range){.kind = range->kind,
                                 .key = keep_bytes(rest->tail, range->key),
                                 .end = keep_bytes(rest->tail + range->key.len, range->end)};
    rest->rev = rev;
    rest->cut_bytes = response_cut_bytes(opts);
    struct belfry_wire_watch head = response_head(identity, opts, false);
    rest->head_bytes = belfry_write_watch_head_size(&head);
    rest->first = true;
    *out = rest;
    return BELFRY_OK;
}

enum belfry_err rest_of_batch(const struct response_identity *identity, const struct response_opts *opts,
                              const struct range *range, const struct batch *batch, struct rest **out)
{
    enum belfry_err err = rest_of_extent(identity, opts, range, batch->rev, out);
    if (err == BELFRY_OK)
        rest_slice(*out, batch);
    return err;
}

bool rest_broken(const struct rest *rest)
{
    return rest->broken;
}

bool rest_wants_slice(const struct rest *rest, int64_t *rev, uint32_t *sub)
{
    if (rest->state == ENDED || rest->slice != NULL || rest->broken)
        return false;
    *rev = rest->rev;
    *sub = rest->sub;
    return true;
}

/* No byte was sent yet: measures the whole revision instead of the slices. */
static void measure_again(struct rest *rest)
{
    rest->state = MEASURING;
    rest->in_slices = rest->further = false;
    rest->first = true;
    rest->piece = (struct piece){0};
    rest->sub = 0;
    rest->head_at = rest->head_len = 0;
}

void rest_slice(struct rest *rest, const struct batch *slice)
{
    assert(rest->state != ENDED && rest->slice == NULL && slice->rev == rest->rev);
    assert(slice->first_sub <= rest->sub && rest->sub <= slice->first_sub + slice->n_events);
    if (slice->kind == BATCH_EVENTS && rest->in_slices && !rest->begun)
        measure_again(rest);
    rest->slice = batch_ref(slice);
    rest->in_slices = rest->in_slices || slice->kind == BATCH_SLICE;
    if (rest->state == MEASURING)
        advance_rest(rest);
}

bool rest_in_slices(const struct rest *rest)
{
    return rest->in_slices;
}

bool rest_done(const struct rest *rest)
{
    return rest->state == ENDED && !has_pending(rest);
}

bool rest_begun(const struct rest *rest)
{
    return rest->begun;
}

size_t rest_bytes(const struct rest *rest)
{
    return sizeof(*rest) + rest->tail_len + (rest->slice != NULL ? rest->slice->bytes : 0) +
           (rest->line != NULL ? belfry_blob_len(rest->line) : 0);
}

void rest_destroy(struct rest *rest)
{
    if (rest == NULL)
        return;
    drop_slice(rest);
    belfry_blob_unref(rest->line);
    free(rest);
}
