/* src/serve/rights/identity.h
 *
 * identity: the user that an exchange acts for, as its head and its connection show it. Every dialect reads it here.
 *
 *     TOKEN   the request has a token. It is sent upstream in the field that it came in. Until upstream has accepted
 *             it (`accepted`) it is a claim.
 *     CERT    no token, and the client's certificate has a name (exchange_conn.user); or a tier below has passed on
 *             the name in such a certificate.
 *     NONE    neither.
 *
 * A tier that may (listen_policy.users_from) passes on the name of its client in a field of its request:
 *
 *     belfry-user: "NAME"        1 to 255 bytes as tls_name.h allows them: no quote, so nothing is escaped
 *
 * Such a request without the field is of that tier itself. From any other connection the field is refused and not
 * ignored: the request would have the rights of the connection's own user. A request with a token, too, is refused: no
 * tier sends both, and one of them would be ignored.
 *
 * A request with the field grpcgateway-accept is of no certificate's user, as in etcd: a tier below sends it for a
 * client that has none (serve/uplink/uplink.h).
 *
 * A token wins over a certificate, as in etcd: for gRPC the field `token`, else `authorization`, whole, the first of
 * several; for Kubernetes the bearer of `authorization`.
 *
 * Logs and people see identity_show(). It never shows a token: the tag is a keyed hash of it, and the key is random for
 * each process. A token whose user upstream has named (identity_learn()) is shown by that name.
 *
 * Thread: any. Plain data; `text` is lent, or packed into the owner's allocation.
 * Memory: IDENTITY_NAMES learned names of the process, some 650 KB that are touched as they are learned.
 */
#ifndef BELFRY_SERVE_RIGHTS_IDENTITY_H
#define BELFRY_SERVE_RIGHTS_IDENTITY_H

#include "serve/rights/lanes.h"
#include "serve/rights/listen_policy.h"
#include "server/exchange.h"

enum identity_kind { IDENTITY_NONE, IDENTITY_CERT, IDENTITY_TOKEN };
enum identity_field { IDENTITY_FIELD_TOKEN, IDENTITY_FIELD_AUTHORIZATION };

struct identity {
    enum identity_kind kind;
    enum identity_field field; /* TOKEN: the field that it goes upstream in */
    enum listen_rights rights; /* of the listener */
    bool accepted;             /* TOKEN: upstream, with auth on, has accepted it */
    uint32_t tag;              /* TOKEN */
    struct lanes_source source;
    struct shares_conn *share; /* of the connection that it came by, which outlives it; NULL: of none */
    struct belfry_bytes text;  /* TOKEN: the token, which may be empty; CERT: the name */
};

enum identity_dialect { IDENTITY_OF_GRPC, IDENTITY_OF_KUBE };

#define IDENTITY_USER_FIELD  "belfry-user"
#define IDENTITY_USER_BYTES  255
#define IDENTITY_FIELD_BYTES (IDENTITY_USER_BYTES + 2)

/* Why a request is refused for its belfry-user; NULL: it is not. A sentence, for a status of 16 or 401. */
const char *identity_refuses(const struct exchange *x, const struct exchange_head *head);

/* `text` is lent by the head or the connection. A request that identity_refuses() is of nobody, and has no right. */
struct identity identity_read(const struct exchange *x, const struct exchange_head *head,
                              enum identity_dialect dialect);

/* An identity by its token alone. */
struct identity identity_of_token(enum identity_field field, struct belfry_bytes token);

/* The name of the field that carries the token; NULL: there is no token. */
const char *identity_field_name(const struct identity *identity);

/* The field that passes on a user, its value in `text`. */
struct belfry_http_field identity_field_of_user(struct belfry_bytes user, char text[IDENTITY_FIELD_BYTES]);

/* Copies it, its text to *to, which advances by text.len. */
struct identity identity_pack(char **to, const struct identity *identity);

/* Would upstream give the same answers to both? */
bool identity_same(const struct identity *a, const struct identity *b);

/* Upstream says that this token is of the user `name`. The newest names are kept; for people only, never for rights. */
#define IDENTITY_NAMES 4096
void identity_learn(struct belfry_bytes token, struct belfry_bytes name);

/* "cert:NAME", "user:NAME" (of a token that upstream has accepted and named), "token:3f9a1c", "claim:3f9a1c" (a token
 * that upstream has not accepted), "none". In a name, blanks,
 * control characters, quotes, backslashes and % are written as %XX. A long name ends in "...". */
#define IDENTITY_SHOWN 144
void identity_show(const struct identity *identity, char out[IDENTITY_SHOWN]);

#endif
