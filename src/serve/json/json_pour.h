/* src/serve/json/json_pour.h
 *
 * json_pour: a protobuf message as JSON, piece by piece, as its bytes come in: etcd's gateway's form of it. Names are
 * the message's own, bytes are base64, 64-bit numbers are strings, values of enums are names, and what is zero is left
 * out.
 *
 * A message of any size costs the same memory, because nothing is kept of it but where it is. So the fields of a
 * message must come as every program writes them: those of a list together. If they do not, it is not read further.
 *
 * Thread: owner. Pure; unchecked: a part of its call.
 * Memory: while a message comes in, JSON_POUR_LEVEL bytes for each message in a message, at most JSON_POUR_DEPTH deep,
 * and a string. Between messages: none.
 */
#ifndef BELFRY_SERVE_JSON_JSON_POUR_H
#define BELFRY_SERVE_JSON_JSON_POUR_H

#include <stdbool.h>

#include <protobuf-c/protobuf-c.h>

#include "base/buf.h"

#define JSON_POUR_DEPTH 200 /* a Txn in a Txn takes three */

struct json_pour_level;

/* What the next byte is. */
enum json_pour_step {
    JSON_POUR_TAG,
    JSON_POUR_NUMBER,
    JSON_POUR_LENGTH,
    JSON_POUR_BYTES,  /* of a field that is shown as base64 */
    JSON_POUR_STRING, /* of one that is shown as text */
    JSON_POUR_SKIP    /* of one that is not known */
};

struct json_pour {
    struct json_pour_level *levels; /* owned; the messages that are open, outermost first */
    unsigned depth, cap;
    enum json_pour_step step;
    uint64_t at;                           /* bytes of the message that have come */
    uint64_t varint;                       /* as far as it has come: */
    unsigned shift;                        /* its bits so far */
    const ProtobufCFieldDescriptor *field; /* the one under way; NULL: it is not known */
    uint64_t left;                         /* BYTES, STRING, SKIP: bytes of it that have not come */
    uint8_t carry[3];                      /* BYTES: those that are not written yet */
    unsigned n_carry;
    struct belfry_buf text; /* STRING: as far as it has come */
};

void json_pour_init(struct json_pour *pour);
void json_pour_fini(struct json_pour *pour);

/* A message of `len` bytes begins; none is under way. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err json_pour_begin(struct json_pour *pour, const ProtobufCMessageDescriptor *message,
                                                 uint64_t len, struct belfry_buf *out);

/* Its next bytes, and no others. Errors: BELFRY_ERR_PROTOCOL (they are not of such a message, or not in the order of
 * fields), BELFRY_ERR_LIMIT (too deep), BELFRY_ERR_NOMEM; then it is only ended. */
BELFRY_NODISCARD enum belfry_err json_pour_pass(struct json_pour *pour, struct belfry_bytes bytes,
                                                struct belfry_buf *out);

/* Is none under way? All of the last one is written. */
static inline bool json_pour_is_done(const struct json_pour *pour)
{
    return pour->depth == 0;
}

/* Bytes of it that have not come. */
uint64_t json_pour_left(const struct json_pour *pour);

/* Bytes that it holds. */
size_t json_pour_bytes(const struct json_pour *pour);

#endif
