/* src/core/output.c: one buffer, used for one outlet at a time; the unsent end of a message becomes the outlet's
 * rest. */
#include "core/output.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/interest.h"

enum belfry_err output_init(struct output *output, const struct output_opts *opts, struct turn *turn)
{
    *output = (struct output){.opts = *opts, .turn = turn, .open_at = SIZE_MAX, .buffer = malloc(OUTPUT_BYTES)};
    return output->buffer == NULL ? BELFRY_ERR_NOMEM : BELFRY_OK;
}

void output_fini(struct output *output)
{
    free(output->buffer);
}

void output_set_identity(struct output *output, const struct response_identity *identity)
{
    output->opts.identity = *identity;
    output->header_rev = 0;
}

/* ---- the buffer ---- */

void output_flush(struct output *output)
{
    if (output->len > 0) {
        output->n_written += output->len;
        const struct outlet *outlet = output->outlet;
        void (*write)(void *, const uint8_t *, size_t) =
            outlet->lines != NULL ? outlet->lines->write : output->opts.write;
        write(outlet->user, output->buffer, output->len);
    }
    output->len = 0;
    output->open_at = SIZE_MAX;
}

void output_drop(struct output *output, const struct outlet *outlet)
{
    if (output->outlet != outlet)
        return;
    output->len = 0;
    output->open_at = SIZE_MAX;
    output->outlet = NULL;
}

/* Where `size` bytes for the outlet go; size is at most OUTPUT_BYTES. */
static uint8_t *buffer_reserve(struct output *output, struct outlet *outlet, size_t size)
{
    if (output->outlet != outlet || output->len + size > OUTPUT_BYTES)
        output_flush(output);
    output->outlet = outlet;
    return output->buffer + output->len;
}

static void buffer_commit(struct output *output, struct outlet *outlet, size_t size)
{
    assert(size <= outlet->room);
    output->len += size;
    outlet->room -= size;
}

/* ---- the rest ---- */

void output_account_rest(struct output *output, struct outlet *outlet)
{
    size_t before = outlet->rest_bytes;
    outlet->rest_bytes = outlet->rest != NULL ? rest_bytes(outlet->rest) : 0;
    output->rest_bytes += outlet->rest_bytes - before;
    if (output->rest_bytes > output->rest_bytes_peak)
        output->rest_bytes_peak = output->rest_bytes;
}

static void begin_rest(struct output *output, struct outlet *outlet, struct rest *rest)
{
    assert(outlet->rest == NULL);
    outlet->rest = rest;
    outlet->rest_since = output->turn->now;
    output_account_rest(output, outlet);
}

void output_end_rest(struct output *output, struct outlet *outlet)
{
    rest_destroy(outlet->rest);
    outlet->rest = NULL;
    output_account_rest(output, outlet);
}

void output_fill(struct output *output, struct outlet *outlet)
{
    uint8_t *to = buffer_reserve(output, outlet, 1);
    size_t space = OUTPUT_BYTES - output->len;
    buffer_commit(output, outlet, rest_fill(outlet->rest, to, outlet->room < space ? outlet->room : space));
    output->open_at = SIZE_MAX;
}

/* ---- messages ---- */

/* Sends what there is room for; the remainder is a rest. False: no memory; nothing was sent. */
static bool send_beginning(struct output *output, struct outlet *outlet, const uint8_t *at, size_t size)
{
    struct rest *rest;
    if (rest_of_bytes(belfry_bytes_of(at + outlet->room, size - outlet->room), &rest) != BELFRY_OK)
        return false;
    begin_rest(output, outlet, rest);
    buffer_commit(output, outlet, outlet->room);
    return true;
}

/* A message of `size` bytes was written at `at`, as buffer_reserve() said. False: no memory; nothing was sent. */
static bool send_message(struct output *output, struct outlet *outlet, const uint8_t *at, size_t size)
{
    if (size > outlet->room)
        return send_beginning(output, outlet, at, size);
    buffer_commit(output, outlet, size);
    return true;
}

bool output_line(struct output *output, struct outlet *outlet, struct belfry_blob *line)
{
    struct belfry_bytes bytes = belfry_blob_bytes(line);
    struct rest *rest;
    output->open_at = SIZE_MAX;
    if (bytes.len <= outlet->room && bytes.len <= OUTPUT_BYTES) {
        uint8_t *at = buffer_reserve(output, outlet, bytes.len);
        if (bytes.len > 0)
            memcpy(at, bytes.data, bytes.len);
        buffer_commit(output, outlet, bytes.len);
        belfry_blob_unref(line);
        return true;
    }
    if (rest_of_line(line, &rest) != BELFRY_OK)
        return false;
    begin_rest(output, outlet, rest);
    return true;
}

bool output_control(struct output *output, struct outlet *outlet, const struct belfry_wire_watch *watch)
{
    size_t size = response_control_size(watch);
    assert(size <= OUTPUT_REST_COPY);
    if (outlet->room == 0)
        return false;
    uint8_t *at = buffer_reserve(output, outlet, size);
    response_control(watch, at);
    output->open_at = SIZE_MAX;
    return send_message(output, outlet, at, size);
}

struct belfry_wire_header output_header(const struct output *output, int64_t rev)
{
    const struct response_identity *identity = &output->opts.identity;
    return (struct belfry_wire_header){.cluster_id = identity->cluster_id,
                                       .member_id = identity->member_id,
                                       .raft_term = identity->raft_term,
                                       .revision = rev};
}

/* ---- responses with events ---- */

static struct response_opts response_opts_of(const struct output *output, const struct watcher *watcher,
                                             int64_t header_rev)
{
    return (struct response_opts){.watch_id = watcher->id,
                                  .header_rev = header_rev,
                                  .flags = watcher->flags,
                                  .fragment_bytes = output->opts.fragment_bytes,
                                  .header = &output->header};
}

bool output_has_any(const struct output *output, const struct watcher *watcher, const struct response_pick *pick)
{
    struct response_opts opts = response_opts_of(output, watcher, pick->batch->rev);
    opts.header = NULL;
    return response_size(&output->opts.identity, &opts, pick, &(bool){false}) > 0;
}

bool output_grow(struct output *output, struct outlet *outlet, const struct watcher *watcher,
                 const struct response_pick *pick, size_t *more)
{
    if (output->open_at == SIZE_MAX || output->outlet != outlet || output->open_id != watcher->id ||
        output->open_revs >= output->opts.response_revs)
        return false;
    struct response_opts opts = response_opts_of(output, watcher, output->header_rev);
    *more = response_more_size(&opts, pick);
    size_t size = output->len - output->open_at + *more, most = output->opts.response_bytes;
    if ((opts.flags & WATCHER_FRAGMENT) != 0 && opts.fragment_bytes != 0 && most >= opts.fragment_bytes)
        most = opts.fragment_bytes - 1;
    if (size > most || *more > outlet->room || output->len + *more > OUTPUT_BYTES)
        return false;
    if (*more > 0) {
        response_more(&opts, pick, output->buffer + output->open_at, output->buffer + output->len);
        buffer_commit(output, outlet, *more);
        output->open_revs++;
        output->n_packed++;
    }
    return true;
}

/* A response that is cut, or larger than the buffer or the room: it goes out as a rest. */
static bool begin_large(struct output *output, struct outlet *outlet, const struct watcher *watcher,
                        const struct response_opts *opts, const struct batch *batch)
{
    struct range range;
    struct rest *rest;
    interest_range(watcher->node, &range);
    if (rest_of_batch(&output->opts.identity, opts, &range, batch, &rest) != BELFRY_OK)
        return false;
    begin_rest(output, outlet, rest);
    return true;
}

enum output_result output_response(struct output *output, struct outlet *outlet, const struct watcher *watcher,
                                   const struct response_pick *pick, int64_t replay_at)
{
    int64_t header_rev = replay_at != 0 ? replay_at : pick->batch->rev;
    const struct response_identity *identity = &output->opts.identity;
    if (output->header_rev != header_rev) {
        response_header_make(identity, header_rev, &output->header);
        output->header_rev = header_rev;
    }
    struct response_opts opts = response_opts_of(output, watcher, header_rev);
    bool cut;
    size_t size = response_size(identity, &opts, pick, &cut);
    if (size == 0)
        return OUTPUT_NOTHING;
    if (outlet->rest != NULL || outlet->room == 0)
        return OUTPUT_NO_ROOM;
    if (cut || size > OUTPUT_BYTES || (size > outlet->room && size > OUTPUT_REST_COPY)) {
        output->n_fragments += cut;
        return begin_large(output, outlet, watcher, &opts, pick->batch) ? OUTPUT_GIVEN : OUTPUT_NO_ROOM;
    }
    bool whole = size <= outlet->room;
    uint8_t *at = buffer_reserve(output, outlet, size);
    output->open_at = SIZE_MAX;
    response_write(identity, &opts, pick, size, at);
    if (!send_message(output, outlet, at, size))
        return OUTPUT_NO_ROOM;
    if (replay_at != 0 && whole) {
        output->open_at = output->len - size;
        output->open_id = watcher->id;
        output->open_revs = 1;
    }
    return OUTPUT_GIVEN;
}

enum belfry_err output_begin_extent(struct output *output, struct outlet *outlet, const struct watcher *watcher,
                                    int64_t rev)
{
    struct response_opts opts = response_opts_of(output, watcher, rev);
    struct range range;
    struct rest *rest;
    interest_range(watcher->node, &range);
    opts.header = NULL;
    enum belfry_err err = rest_of_extent(&output->opts.identity, &opts, &range, rev, &rest);
    if (err == BELFRY_OK)
        begin_rest(output, outlet, rest);
    return err;
}
