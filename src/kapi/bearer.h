/* src/kapi/bearer.h
 *
 * bearer: the token that goes with each request, and the file it comes from, which others replace while we run.
 *
 * The file is looked at again when it is asked for and the last look is a second ago, and at once after
 * belfry_bearer_refused(). A file that cannot be read leaves the old token as it is. A token is one line, without the
 * blanks around it and with none inside; 1 to 64 KiB of printable ASCII.
 *
 * Thread: owner. Reads its file; the clock is handed in.
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
    uint64_t read_ms; /* when the file was looked at last; 0: never */
    uint64_t reads;   /* of new tokens, the first included */
    bool failing;     /* at the last look there was no token to be had: it was said, and is not said again */
};

/* Both NULL: no token at all. Reads the file, which wins over `token`. Errors: BELFRY_ERR_AUTH (the file cannot be read,
 * or holds no token; *out_why, a literal), BELFRY_ERR_INVALID (`token` is none; likewise), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_bearer_init(struct belfry_bearer *bearer, const char *token, const char *file,
                                                    uint64_t now_ms, const char **out_why);
void belfry_bearer_fini(struct belfry_bearer *bearer);

/* The value of the authorization field; NULL: none is to be sent. Lent until the next call. `log` hears of a file that
 * cannot be read. */
const char *belfry_bearer_field(struct belfry_bearer *bearer, uint64_t now_ms, const struct belfry_log *log);

/* The server said 401: the next field is read anew. */
void belfry_bearer_refused(struct belfry_bearer *bearer);

#endif
