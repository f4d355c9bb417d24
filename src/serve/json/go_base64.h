/* src/serve/json/go_base64.h
 *
 * go_base64: base64 as etcd's gateway reads it. base64.h is stricter. Either alphabet; padding where the length says
 * so; ends of lines are skipped; bits that are left over may be anything.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SERVE_JSON_GO_BASE64_H
#define BELFRY_SERVE_JSON_GO_BASE64_H

#include "base/buf.h"

/* Appends what `text` means. Errors: BELFRY_ERR_INVALID, BELFRY_ERR_NOMEM; `out` is unchanged then. */
BELFRY_NODISCARD enum belfry_err go_base64_read(struct belfry_bytes text, struct belfry_buf *out);

#endif
