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
    const char *base;                      /* of the server's URL, without a slash at its end; "" is usual */
    const char *group_version;             /* "v1": the core group; "apps/v1" */
    const char *plural, *ns, *name;        /* ns, name: NULL: none */
    const char *selector, *field_selector; /* these and the following: NULL or 0: left out */
    const char *version;                   /* resourceVersion; "" is left out too */
    const char *version_match, *continue_with;
    int64_t limit, timeout_s;
    bool watch, bookmarks, send_initial; /* send_initial: sendInitialEvents=true */
};

/* Makes the texts copies, all in one block that the caller frees. Errors: BELFRY_ERR_NOMEM, `target` unchanged. */
BELFRY_NODISCARD enum belfry_err belfry_target_keep(struct belfry_target *target, char **out_texts);

/* Appends it, zero-ended (the zero is not counted). Everything is percent-encoded as it needs.
 * Errors: BELFRY_ERR_INVALID: group_version or plural is NULL; one of them, ns or name is empty, "." or "..", or has a
 * slash, '%' or a control character in it (group_version: not of the form VERSION or GROUP/VERSION).
 * BELFRY_ERR_NOMEM: a part of it may have been appended. */
BELFRY_NODISCARD enum belfry_err belfry_target_write(const struct belfry_target *target, struct belfry_buf *out);

#endif
