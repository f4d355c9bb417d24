/* src/client/auth.h
 *
 * auth: user, password, and the token for which they are exchanged.
 *
 *     NONE (no user)        STALE --begin--> ASKING --token--> FRESH --drop--> STALE
 *                             ^                 |
 *                             `---- failed -----'
 *
 * A token costs a log-in. etcd drops it after some minutes without use, each member by its own clock. So a stream is
 * opened only with a new token (belfry_auth_is_new), and a call whose token is rejected drops the token.
 *
 * Thread: owner. Pure but for reading the password file.
 */
#ifndef BELFRY_CLIENT_AUTH_H
#define BELFRY_CLIENT_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define BELFRY_AUTH_NEW_MS 1000 /* a new stream may use a token younger than this */

struct belfry_auth {
    enum { BELFRY_AUTH_NONE, BELFRY_AUTH_STALE, BELFRY_AUTH_ASKING, BELFRY_AUTH_FRESH } state;
    char *user, *password, *password_file; /* owned; password or password_file */
    char *token;                           /* owned; FRESH only. "" when the server has auth turned off */
    uint64_t since_ms;                     /* when the token was received */
    uint64_t log_ins;
};

/* `user` NULL: authentication is never needed. "name:password" is split if no other password is given.
 * Errors: BELFRY_ERR_INVALID (a user without any password), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_auth_init(struct belfry_auth *auth, const char *user, const char *password,
                                                  const char *password_file);
void belfry_auth_fini(struct belfry_auth *auth);

/* Whether calls may be sent: no user, or a token is there. */
bool belfry_auth_ready(const struct belfry_auth *auth);

/* Whether a stream may be opened: no user, or the token is new. */
bool belfry_auth_is_new(const struct belfry_auth *auth, uint64_t now_ms);

/* The token to send; NULL if none is needed. */
const char *belfry_auth_token(const struct belfry_auth *auth);

/* The token is no longer valid: log in again. No effect while a log-in is in progress. */
void belfry_auth_drop(struct belfry_auth *auth);

/* Appends the log-in request (an AuthenticateRequest) to `out`; the state is then ASKING.
 * Errors: BELFRY_ERR_AUTH (the password file cannot be read), BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT. */
struct belfry_buf;
BELFRY_NODISCARD enum belfry_err belfry_auth_begin(struct belfry_auth *auth, struct belfry_buf *out);

/* The result of the log-in; `done` takes the AuthenticateResponse. Errors: BELFRY_ERR_PROTOCOL, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_auth_done(struct belfry_auth *auth, struct belfry_bytes response,
                                                  uint64_t now_ms);
BELFRY_NODISCARD enum belfry_err belfry_auth_not_enabled(struct belfry_auth *auth, uint64_t now_ms);
void belfry_auth_failed(struct belfry_auth *auth);

#endif
