/* src/kapi/server_url.h
 *
 * server_url: parses the URL of an API server: https://HOST[:PORT][/PATH] or http://... The default port is 443 or 80.
 * User, query and fragment are not allowed.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_KAPI_SERVER_URL_H
#define BELFRY_KAPI_SERVER_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "net/endpoint.h"

/* *out_base is the path, without slashes at its end; the caller frees it. On failure why[0, why_len) has a sentence,
 * which does not show a password.
 * Errors: BELFRY_ERR_INVALID, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_server_url_parse(const char *text, struct belfry_endpoint *out, char **out_base,
                                                         char *why, size_t why_len);

#endif
