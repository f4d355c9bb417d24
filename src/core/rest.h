/* src/core/rest.h
 *
 * rest: what is still to be sent of a response that does not fit into the space at hand.
 *
 * The length of a message is known before its first byte, so it goes out in parts of any size. Only a place is held:
 * the batch (a counted reference), the range and the options (copied, because the watcher may be canceled meanwhile)
 * and how far it is. With fragments the response is several messages, the pieces, and nothing may come between them:
 * all of them are one rest. A line of another dialect (lines.h) is shared and never copied: its rest is a reference to
 * it.
 *
 *                         its length is known                 its last byte is out
 *     .---> MEASURING ------------------------> WRITING ------------------------------> ENDED
 *     |        |  nothing passes: ENDED            |
 *     `--------------------------------------------' a further piece follows
 *
 * Events are visited twice, a piece at a time: to measure, then to write. Of an extent that means that slices are
 * wanted again from where the piece begins; a piece that lies within one slice, and any batch, is visited where it is.
 *
 * Thread: owner. Pure; unchecked: its worker is.
 * Memory: one allocation at creation, none later.
 */
#ifndef BELFRY_CORE_REST_H
#define BELFRY_CORE_REST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blob.h"
#include "base/err.h"
#include "core/batch.h"
#include "core/key_range.h"
#include "core/response.h"

struct rest;

/* The rest of a message that was built already, and begun: a copy of `bytes`. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err rest_of_bytes(struct belfry_bytes bytes, struct rest **out);

/* A line, nothing of it sent yet: holds the blob, whose reference is consumed, on failure too. Errors:
 * BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err rest_of_line(struct belfry_blob *line, struct rest **out);

/* A whole response, nothing of it sent yet: holds the batch by reference, a copy of the range. All of the batch's
 * events that the range has and that pass the filters are in it; there is at least one. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err rest_of_batch(const struct response_identity *identity,
                                               const struct response_opts *opts, const struct range *range,
                                               const struct batch *batch, struct rest **out);

/* A revision too large for memory (an extent): the response is put together from slices, each given twice or more: to
 * be measured, then to be written. rest_wants_slice() says which event the next slice must have (it may begin earlier);
 * false when the rest has what it needs. A watcher none of whose events pass ends up with 0 bytes.
 * Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err rest_of_extent(const struct response_identity *identity,
                                                const struct response_opts *opts, const struct range *range,
                                                int64_t rev, struct rest **out);
bool rest_wants_slice(const struct rest *rest, int64_t *rev, uint32_t *sub);
void rest_slice(struct rest *rest, const struct batch *slice); /* takes its own reference while it needs one */
bool rest_in_slices(const struct rest *rest);                  /* it received a slice, not the whole revision */

/* Writes up to `room` bytes and returns how many; less than `room` only when it is done or wants a slice. */
size_t rest_fill(struct rest *rest, uint8_t *to, size_t room);

bool rest_done(const struct rest *rest);

/* An extent's rows are read twice, and the second time they may come from elsewhere: a backfill lacks the previous
 * values that upstream has compacted, the replica has them. If the whole revision comes in place of a slice and nothing
 * was sent yet, it is measured again; a response that was begun under another length cannot be finished. */
bool rest_broken(const struct rest *rest);
bool rest_between(const struct rest *rest); /* a piece is out, and another follows: for a mutant */
bool rest_begun(const struct rest *rest);   /* a byte of it has been sent; of bytes: always */
size_t rest_bytes(const struct rest *rest); /* memory it holds or pins, for accounts */
void rest_destroy(struct rest *rest);       /* NULL is fine */

#endif
