/* src/net/http_answer.h
 *
 * http_answer: the head of a response as it comes in, piece by piece, until it is told.
 *
 * Thread: owner.
 * Memory: at most BELFRY_HTTP_HEAD_BYTES of names and values (each field counted with 32 more, as HTTP/2 does) and
 *         BELFRY_HTTP_FIELDS fields; one more is BELFRY_ERR_TOO_LARGE.
 */
#ifndef BELFRY_NET_HTTP_ANSWER_H
#define BELFRY_NET_HTTP_ANSWER_H

#include "base/buf.h"
#include "net/http.h"

struct belfry_http_span; /* where a field lies in the text, which moves while it grows */

/* Ready when it is all zero. */
struct belfry_http_answer {
    int status;
    struct belfry_buf text;         /* names and values, one after the other */
    struct belfry_http_span *spans; /* owned, as are those presented */
    struct belfry_http_field *presented;
    size_t n_fields, cap_fields;
    size_t open_at; /* in text: where the part that is being received begins */
};

/* Frees all of it: ready for another. */
void belfry_http_answer_clear(struct belfry_http_answer *answer);

/* Bytes of a name, then of a value, in any number of pieces; then what they were. Errors: BELFRY_ERR_NOMEM,
 * BELFRY_ERR_TOO_LARGE. */
BELFRY_NODISCARD enum belfry_err belfry_http_answer_add(struct belfry_http_answer *answer, const char *bytes,
                                                        size_t len);
BELFRY_NODISCARD enum belfry_err belfry_http_answer_end_name(struct belfry_http_answer *answer);
void belfry_http_answer_end_value(struct belfry_http_answer *answer);

/* What was added, lent until belfry_http_answer_clear(). Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_http_answer_present(struct belfry_http_answer *answer,
                                                            struct belfry_http_head *out);

#endif
