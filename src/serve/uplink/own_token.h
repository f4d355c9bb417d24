/* src/serve/uplink/own_token.h
 *
 * own_token: the tier's own credential for Kubernetes' API, for questions of the tier's own (reviews of rights). A
 * request that is relayed for a client never carries it.
 *
 * The token is that of a file, which another program replaces while we run, or a fixed text (kapi/bearer.h).
 *
 * Thread: owner: each worker has its own.
 */
#ifndef BELFRY_SERVE_UPLINK_OWN_TOKEN_H
#define BELFRY_SERVE_UPLINK_OWN_TOKEN_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/log.h"

struct own_token;

struct own_token_opts {
    const char *file, *token;     /* copied; the file wins. Both NULL: there is no token */
    const struct belfry_log *log; /* is told when the file cannot be read */
};

/* Reads the file. Errors: BELFRY_ERR_AUTH and BELFRY_ERR_INVALID (*out_why is a literal), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err own_token_create(const struct own_token_opts *opts, uint64_t now_ms,
                                                  struct own_token **out, const char **out_why);
void own_token_destroy(struct own_token *token); /* NULL is fine */

/* The value of the field authorization: "Bearer ...". {NULL, 0}: there is none. Lent until the next call. */
struct belfry_bytes own_token_field(struct own_token *token, uint64_t now_ms);

/* Upstream answered 401: the file is read again before the next use. */
void own_token_refused(struct own_token *token);

#endif
