/* src/serve/kfront/krelay_head.h
 *
 * krelay_head: which fields of a request go to the API server, and which of its answer come back.
 *
 * All go, as they came, credentials and impersonation among them, but for:
 *
 *     fields of one connection      fields_is_hop(), `expect`, and those that the field `connection` names
 *     belfry-user, x-remote-...     they name a user, and are believed of certain peers only
 *     x-forwarded-for               gets the client's address behind those that are there, in one field, so that the
 *                                   API server's audit log has it
 *
 * `connection` cannot name credentials or impersonation: whoever stands between could otherwise be made to speak with
 * more rights than it meant to.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SERVE_KFRONT_KRELAY_HEAD_H
#define BELFRY_SERVE_KFRONT_KRELAY_HEAD_H

#include "server/fields.h"

/* Adds the fields that go up, but for those of the name `without` (NULL: none). Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err krelay_head_take(const struct exchange_head *head, const char *without,
                                                  const struct client_address *client, struct fields *out);

/* Does this field of the answer come back? */
bool krelay_head_returns(struct belfry_bytes name, struct belfry_bytes value);

#endif
