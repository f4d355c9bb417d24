/* src/kapi/target.h
 *
 * target: the path and query of a request to a Kubernetes API server.
 *
 *     BASE/api/v1/namespaces/NS/pods?labelSelector=app%3Dweb&limit=500
 *     BASE/apis/apps/v1/deployments/NAME
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_KAPI_TARGET_H
#define BELFRY_KAPI_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"

struct belfry_target {
    const char *base;                      /* of the server's URL, without a slash at its end; usually "" */
    const char *group_version;             /* "v1": the core group; "apps/v1" */
    const char *plural, *ns, *name;        /* ns and name may be NULL: none */
    const char *selector, *field_selector; /* from here on: NULL or 0 is omitted */
    const char *version;                   /* resourceVersion; "" is omitted, too */
    const char *version_match, *continue_with;
    int64_t limit, timeout_s;
    bool watch, bookmarks, send_initial; /* send_initial: sendInitialEvents=true */
};

/* Replaces the texts by copies in one block that the caller frees. Errors: BELFRY_ERR_NOMEM, `target` unchanged. */
BELFRY_NODISCARD enum belfry_err belfry_target_keep(struct belfry_target *target, char **out_texts);

/* Appends the target, percent-encoded, with a zero at its end that is not counted.
 * Errors: BELFRY_ERR_INVALID: group_version or plural is NULL; one of them, ns or name is empty, "." or "..", or has a
 * slash, '%' or control character (group_version: is not of the form VERSION or GROUP/VERSION).
 * BELFRY_ERR_NOMEM: a part may have been appended. */
BELFRY_NODISCARD enum belfry_err belfry_target_write(const struct belfry_target *target, struct belfry_buf *out);

#endif
