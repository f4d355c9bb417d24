/* src/server/fields.h
 *
 * fields: a growing list of header fields: a head while it is received, a request's until it can be sent. Order and
 * repetition stay as they came.
 *
 * A field is added whole (fields_add), or in pieces as a parser finds them:
 *
 *     fields_text()... fields_end_name() fields_text()... fields_end_value()
 *
 * A request's head is such a list: pseudo-headers first, as HTTP/2 sends them (RFC 9113, 8.3). HTTP/1.1 adds its target
 * as ":path".
 *
 * Thread: owner. Pure.
 * Memory: names and values, and 32 bytes per field. The caller bounds them: a header block is at most 64 KiB.
 */
#ifndef BELFRY_SERVER_FIELDS_H
#define BELFRY_SERVER_FIELDS_H

#include "base/buf.h"
#include "server/exchange.h"

struct fields {
    struct belfry_buf text;         /* names and values, one after the other */
    struct belfry_http_field *list; /* owned; its lengths are valid, its pointers only after fields_list() */
    size_t n, cap;
    size_t ended; /* bytes of `text` that belong to names and values that are complete */
};

static inline void fields_init(struct fields *fields)
{
    *fields = (struct fields){0};
}

void fields_fini(struct fields *fields);  /* may be used again */
void fields_clear(struct fields *fields); /* keeps the storage */

/* Adds a copy. Errors: BELFRY_ERR_NOMEM, unchanged. */
BELFRY_NODISCARD enum belfry_err fields_add(struct fields *fields, struct belfry_bytes name, struct belfry_bytes value);

/* A field in pieces. A name becomes lower case; a value loses the spaces and tabs at its end. Errors:
 * BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err fields_text(struct fields *fields, struct belfry_bytes piece);
BELFRY_NODISCARD enum belfry_err fields_end_name(struct fields *fields);
void fields_end_value(struct fields *fields);

/* All of them, fields->n; lent until the next change. */
const struct belfry_http_field *fields_list(struct fields *fields);

/* The list as a request's head, lent until the next change: pseudo-headers, which are first, have their places there.
 * Without ":authority" the host field names the authority. */
struct exchange_head fields_head(struct fields *fields);

/* The status of a response's head, as nghttp2 has checked it: of ":status", which is first. 0: it is no such head. */
int fields_status(struct fields *fields);

size_t fields_bytes(const struct fields *fields); /* allocated */

/* True for fields that speak of one connection and not of the request (RFC 9113, 8.2.2), for pseudo-headers, and for
 * host, which goes with them. */
bool fields_is_hop(struct belfry_bytes name, struct belfry_bytes value);

/* True for fields by which a browser says for which page it asks (cors.h). They are judged here: a tier above would
 * judge them by its own list. */
bool fields_is_of_browser(struct belfry_bytes name);

#endif
