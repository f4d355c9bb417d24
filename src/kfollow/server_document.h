/* src/kfollow/server_document.h
 *
 * server_document: one GET of a path of an API server that is no list, watch or object (discovery). Sent once: the
 * caller decides whether to send it again.
 *
 * Thread: owner (that of the client's session). The answer comes from the loop, never from inside _get().
 * Memory: the body, up to max_bytes; a longer one is no answer.
 */
#ifndef BELFRY_KFOLLOW_SERVER_DOCUMENT_H
#define BELFRY_KFOLLOW_SERVER_DOCUMENT_H

#include <belfry/kube.h>

#include "base/bytes.h"
#include "base/err.h"

struct server_document;

struct server_document_answer {
    int status; /* HTTP's; 0: there was no answer */
    struct belfry_bytes body;
    const char *why; /* status 0: a sentence */
};
/* Lent. The document is gone when it returns. */
typedef void (*server_document_fn)(const struct server_document_answer *answer, void *user);

struct server_document_ask {
    struct belfry_kube *server; /* lent, and outlives it */
    const char *path;           /* below the server's base path */
    size_t max_bytes;
    uint32_t timeout_ms;
};

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err server_document_get(const struct server_document_ask *ask, server_document_fn fn,
                                                     void *user, struct server_document **out);
void server_document_cancel(struct server_document *document); /* no answer will come. NULL is fine */

#endif
