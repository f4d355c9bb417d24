/* src/json/document.h
 *
 * document: parsed JSON, for reading. Numbers stay text (yyjson's RAW), because a conversion to double would change
 * large integers.
 *
 * Thread: owner.
 * Memory: a copy of the text and yyjson's values, at most 16 bytes per two bytes of text, from our own malloc.
 */
#ifndef BELFRY_JSON_DOCUMENT_H
#define BELFRY_JSON_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>

#include <yyjson.h>

#include "base/bytes.h"
#include "base/err.h"

struct belfry_kube_document {
    char *text; /* owned; the values' strings point into it */
    yyjson_doc *doc;
    yyjson_val *root;
};

/* Parses the parts as one text. Errors: BELFRY_ERR_INVALID (not JSON: RFC 8259, UTF-8), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_kube_document_read(const struct belfry_bytes *parts, size_t n_parts,
                                                           struct belfry_kube_document *out);
void belfry_kube_document_fini(struct belfry_kube_document *document); /* accepts an all-zero struct */

/* The bytes of a string or of a number. */
static inline struct belfry_bytes belfry_kube_document_bytes(yyjson_val *val)
{
    return belfry_bytes_of(unsafe_yyjson_get_str(val), unsafe_yyjson_get_len(val));
}

/* Whether the number is written as an integer, -?[0-9]+; false for 1.0 and 1e3. */
bool belfry_kube_document_is_integer(yyjson_val *val);

#endif
