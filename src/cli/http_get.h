/* src/cli/http_get.h
 *
 * http_get: fetches a page of an admin address, blocking: http://host:port, host:port or unix:///path.
 *
 * Thread: any.
 * Memory: an answer of HTTP_GET_MAX at most.
 */
#ifndef BELFRY_CLI_HTTP_GET_H
#define BELFRY_CLI_HTTP_GET_H

#include <stddef.h>

#include <belfry/err.h>

#define HTTP_GET_MAX (64 * 1024 * 1024)
#define HTTP_GET_WHY 256

struct http_page {
    int status;
    char *body; /* owned, with a zero byte behind it */
    size_t len;
};

/* On failure a sentence that names the address is in why. `path` may hold a query and is sent as it is.
 * Errors: BELFRY_ERR_INVALID (the address), BELFRY_ERR_RESOLVE, BELFRY_ERR_UNAVAILABLE, BELFRY_ERR_TIMEOUT,
 * BELFRY_ERR_PROTOCOL, BELFRY_ERR_TOO_LARGE, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err http_get(const char *address, const char *path, int timeout_ms, struct http_page *out,
                                          char why[HTTP_GET_WHY]);
void http_page_fini(struct http_page *page);

#endif
