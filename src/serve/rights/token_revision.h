/* src/serve/rights/token_revision.h: the revision of the auth store in a token that etcd has issued (a JWT). The
 * signature is not checked: the token comes from etcd itself. Thread: any. Pure. */
#ifndef BELFRY_SERVE_RIGHTS_TOKEN_REVISION_H
#define BELFRY_SERVE_RIGHTS_TOKEN_REVISION_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define TOKEN_REVISION_MAX 8192 /* bytes of a token */

/* *out is not 0. Errors: BELFRY_ERR_INVALID (no JWT, or without a revision: a simple token), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err token_revision_read(struct belfry_bytes token, uint64_t *out);

#endif
