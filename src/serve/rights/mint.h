/* src/serve/rights/mint.h
 *
 * mint: makes tokens as etcd's own (JWT, RFC 7519), with the key that etcd checks them by (its --auth-token).
 *
 *     {"alg":"RS256","typ":"JWT"} . {"username":"alice","revision":17,"exp":1767225600} . signature
 *
 * The method says how a token is signed. etcd accepts the one method that it was started with.
 *
 *     RS256 RS384 RS512, PS256 PS384 PS512   an RSA key; RS256 unless another is named
 *     ES256, ES384, ES512                    an EC key on P-256, P-384, P-521: the curve decides
 *     EdDSA                                  an Ed25519 key
 *     HS256 HS384 HS512                      the bytes of the file, whole; must be named
 *
 * Thread: any; fixed once it is created.
 */
#ifndef BELFRY_SERVE_RIGHTS_MINT_H
#define BELFRY_SERVE_RIGHTS_MINT_H

#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"

#define MINT_METHODS "RS256|RS384|RS512|PS256|PS384|PS512|ES256|ES384|ES512|EdDSA|HS256|HS384|HS512"
#define MINT_KEY_MAX (64 * 1024) /* bytes of the file */
#define MINT_WHY     512

struct mint;

/* Reads the private key (PEM, without a pass phrase). `method` NULL: the usual one of the key. On failure a sentence
 * that names the file and what to do is in why.
 * Errors: BELFRY_ERR_INVALID (the file cannot be used: unreadable, readable by every user of the machine, no key in
 *         it, or a key that does not fit the method), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err mint_create(const char *file, const char *method, struct mint **out,
                                             char why[MINT_WHY]);
void mint_destroy(struct mint *mint); /* NULL is fine */

const char *mint_method(const struct mint *mint); /* "RS256" */

struct mint_claims {
    struct belfry_bytes user; /* UTF-8 */
    uint64_t revision;        /* of upstream's auth store */
    int64_t expires_s;        /* Unix time */
};

/* Appends a token. Errors: BELFRY_ERR_NOMEM (also when OpenSSL fails otherwise). */
BELFRY_NODISCARD enum belfry_err mint_token(const struct mint *mint, const struct mint_claims *claims,
                                            struct belfry_buf *out);

#endif
