/* src/serve/kfront/krelay_docs.h
 *
 * krelay_docs: copies of documents that the API server marks with an ETag: discovery and OpenAPI.
 *
 * A copy saves the body, never the question: for each client the API server is asked, with the client's own credential,
 * whether the copy is still the document (If-None-Match). Its 304 lets the tier send the copy.
 *
 *     draft --all of it came--> known by its key --replaced, or least recently used--> gone with its last reader
 *
 * A copy is of one key: path and query, Accept, Accept-Encoding. A request with a body gets no copy, and its answer is
 * not copied: its client could choose what others read.
 *
 * Thread: owner. Pure; unchecked: its owner, krelay, checks.
 * Memory: KRELAY_DOCS_BYTES for all copies, also for those that somebody still reads; what is beyond is not copied.
 */
#ifndef BELFRY_SERVE_KFRONT_KRELAY_DOCS_H
#define BELFRY_SERVE_KFRONT_KRELAY_DOCS_H

#include "base/list.h"
#include "server/fields.h"

#define KRELAY_DOCS_BYTES (32 * 1024 * 1024)
#define KRELAY_DOC_BYTES  (12 * 1024 * 1024) /* of one document; OpenAPI v2 of a large cluster has 5 to 10 MB */
#define KRELAY_DOCS       512
#define KRELAY_KEY_BYTES  4096

struct krelay_docs {
    struct belfry_list known;  /* the one used last is first */
    struct belfry_list drafts; /* on their way */
    size_t n;                  /* known */
    size_t bytes;              /* of all, also of those that are only read */
};

struct krelay_doc;

void krelay_docs_init(struct krelay_docs *docs);
void krelay_docs_fini(struct krelay_docs *docs); /* after the last reader and the last draft */

/* Writes a document's key. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_TOO_LARGE. */
BELFRY_NODISCARD enum belfry_err krelay_docs_key(const struct exchange_head *head, struct belfry_buf *out);

/* The copy of that key, with a new reference; NULL: there is none. */
struct krelay_doc *krelay_docs_find(struct krelay_docs *docs, struct belfry_bytes key);
void krelay_doc_unref(struct krelay_doc *doc); /* NULL is fine */

/* Begins a copy by the head of a response. NULL: it has no ETag, its key is being copied already, or there is no room.
 * The caller adds the body and then keeps or drops it. */
struct krelay_doc *krelay_docs_draft(struct krelay_docs *docs, struct belfry_bytes key,
                                     const struct belfry_http_field *fields, size_t n_fields);
bool krelay_doc_add(struct krelay_doc *draft, struct belfry_bytes bytes); /* false: there is no room, drop it */
void krelay_doc_keep(struct krelay_doc *draft);                           /* it is whole: known from now on */
void krelay_doc_drop(struct krelay_doc *draft);                           /* NULL is fine */

struct belfry_bytes krelay_doc_etag(struct krelay_doc *doc);
struct belfry_bytes krelay_doc_body(const struct krelay_doc *doc);

/* The fields that describe it (content-type, etag, ...), without content-length. Lent. */
const struct belfry_http_field *krelay_doc_fields(struct krelay_doc *doc, size_t *out_n);

/* Is this one of those fields? */
bool krelay_doc_describes(struct belfry_bytes name);

/* Does the value of an If-None-Match name this ETag? */
bool krelay_doc_matches(struct belfry_bytes if_none_match, struct belfry_bytes etag);

#endif
