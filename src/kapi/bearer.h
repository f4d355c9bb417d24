/* src/kapi/bearer.h
 *
 * bearer: the token that goes with each request, and its file, which another program replaces while we run.
 *
 * The file is read again when the token is needed and the last read is a second old, and immediately after
 * belfry_bearer_refused(). If the file cannot be read, the old token stays. A token is one line of 1 to 64 KiB of
 * printable ASCII; blanks around it are removed, blanks inside are not allowed.
 *
 * Thread: owner. Reads its file; the caller passes the time.
 */
#ifndef BELFRY_KAPI_BEARER_H
#define BELFRY_KAPI_BEARER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"

struct belfry_bearer {
    char *file;       /* owned; NULL: the token never changes */
    char *field;      /* owned, wiped when freed: "Bearer TOKEN"; NULL: none */
    uint64_t read_ms; /* when the file was last read; 0: never */
    uint64_t reads;   /* number of new tokens, including the first */
    bool failing;     /* the last read found no token; logged once, not again */
};

/* Both NULL: no token. Reads the file, which wins over `token`. Errors: BELFRY_ERR_AUTH (the file cannot be read, or
 * contains no token; *out_why is a literal), BELFRY_ERR_INVALID (`token` is invalid; likewise), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_bearer_init(struct belfry_bearer *bearer, const char *token, const char *file,
                                                    uint64_t now_ms, const char **out_why);
void belfry_bearer_fini(struct belfry_bearer *bearer);

/* The value of the authorization field; NULL: send none. Lent until the next call. A file that cannot be read is
 * reported to `log`. */
const char *belfry_bearer_field(struct belfry_bearer *bearer, uint64_t now_ms, const struct belfry_log *log);

/* The server answered 401: the next belfry_bearer_field() reads the file again. */
void belfry_bearer_refused(struct belfry_bearer *bearer);

#endif
