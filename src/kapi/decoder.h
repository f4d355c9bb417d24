/* src/kapi/decoder.h
 *
 * decoder: turns the body of a 200 answer to a get, list or watch, received in pieces, into objects and events. It is
 * client-go's StreamWatcher as a machine.
 *
 *     RUNNING --an event, an item--> RUNNING
 *        |--cannot be decoded--> one ERROR (500, BELFRY_ERR_PROTOCOL; of a watch: "ClientWatchDecoding") --> OVER
 *        |--the server's ERROR-------> ERROR --> OVER
 *        `--end of the body--> OVER: expected at the end of a value, unexpected inside one
 *
 * Thread: owner. Pure but for yyjson.
 * Memory: that of frames (one object of at most max_bytes, and the bytes fed), plus the object handed out.
 */
#ifndef BELFRY_KAPI_DECODER_H
#define BELFRY_KAPI_DECODER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/err.h"
#include "client/stored_object.h"
#include "kapi/facts.h"
#include "kapi/failure.h"

enum belfry_decoder_mode { BELFRY_DECODE_OBJECT, BELFRY_DECODE_LIST, BELFRY_DECODE_WATCH };

enum belfry_decoded_kind {
    BELFRY_DECODED_ITEM = 1, /* of a get or a list */
    BELFRY_DECODED_ADDED,
    BELFRY_DECODED_MODIFIED,
    BELFRY_DECODED_DELETED,
    BELFRY_DECODED_BOOKMARK,   /* version, initial_end */
    BELFRY_DECODED_UNREADABLE, /* an item or event whose object has no name; failure says so; the object is skipped */
    BELFRY_DECODED_ERROR,      /* failure; nothing comes after it */
    BELFRY_DECODED_PAGE        /* the list's envelope; nothing comes after it */
};

struct belfry_decoded {
    enum belfry_decoded_kind kind;
    struct belfry_object *object;              /* one reference, handed over; ITEM, ADDED, MODIFIED, DELETED */
    char version[BELFRY_KUBE_VERSION_MAX + 1]; /* BOOKMARK */
    bool initial_end;                          /* BOOKMARK */
    struct belfry_kube_page page;              /* PAGE; handed over: belfry_kube_page_fini() */
    const struct belfry_failure *failure;      /* ERROR; lent until the decoder is destroyed */
};

struct belfry_decoder;

/* `content_type` is the response's: application/json (with any parameters) or none is decoded; any other type becomes
 * one ERROR that names it. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_decoder_create(enum belfry_decoder_mode mode, struct belfry_bytes content_type,
                                                       size_t max_bytes, struct belfry_decoder **out);
void belfry_decoder_destroy(struct belfry_decoder *decoder); /* NULL is fine */

/* Errors: BELFRY_ERR_NOMEM. Bytes fed after OVER are dropped. */
BELFRY_NODISCARD enum belfry_err belfry_decoder_feed(struct belfry_decoder *decoder, struct belfry_bytes bytes);

/* The next result. A frame over max_bytes is one ERROR with BELFRY_ERR_TOO_LARGE. An item of a list or the object of a
 * get without a name is an ERROR like any other that cannot be decoded.
 * Errors: BELFRY_ERR_AGAIN (feed more), BELFRY_ERR_NOMEM (nothing was taken: call it again). */
BELFRY_NODISCARD enum belfry_err belfry_decoder_next(struct belfry_decoder *decoder, struct belfry_decoded *out);

/* Whether the body may end here; call it when next() returned AGAIN. True at the end of a value (for a get or list:
 * after the object or the envelope), and after OVER. False: the end is unexpected. */
bool belfry_decoder_complete(const struct belfry_decoder *decoder);

/* After an ERROR, a PAGE, or the object of a get: no more results. */
bool belfry_decoder_over(const struct belfry_decoder *decoder);

#endif
