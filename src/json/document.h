/* src/json/document.h
 *
 * document: JSON that was read, for looking at. Numbers stay the text that they were (yyjson's RAW): a reader that made
 * doubles of them would change large integers.
 *
 * Thread: owner.
 * Memory: a copy of the text and yyjson's values, at most 16 bytes for each two of the text, from our own malloc.
 */
#ifndef BELFRY_JSON_DOCUMENT_H
#define BELFRY_JSON_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>

#include <yyjson.h>

#include "base/bytes.h"
#include "base/err.h"

struct belfry_kube_document {
    char *text; /* owned; strings of the values are in it */
    yyjson_doc *doc;
    yyjson_val *root;
};

/* Reads the parts as one text. Errors: BELFRY_ERR_INVALID: it is not JSON (RFC 8259, UTF-8). BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_kube_document_read(const struct belfry_bytes *parts, size_t n_parts,
                                                           struct belfry_kube_document *out);
void belfry_kube_document_fini(struct belfry_kube_document *document); /* of one that was read, or of zeros */

/* The bytes of a string or of a number. */
static inline struct belfry_bytes belfry_kube_document_bytes(yyjson_val *val)
{
    return belfry_bytes_of(unsafe_yyjson_get_str(val), unsafe_yyjson_get_len(val));
}

/* -?[0-9]+: the text of a number that is an integer as it stands, 1.0 and 1e3 not. */
bool belfry_kube_document_is_integer(yyjson_val *val);

#endif
