/* src/kapi/warning.h
 *
 * warning: what a server says about a request in Warning fields of its answer, and which of it was told before.
 *
 * A field is a list of `code agent "text" ["date"]` (RFC 7234 section 5.5); Kubernetes sends 299 and no date. A server
 * repeats its warnings with every answer, so each text is told once per client.
 *
 * Thread: owner. Pure.
 * Memory: BELFRY_WARNINGS_MAX numbers. A server with more texts than that is not listened to any further: forgetting the
 * oldest instead would let it fill a log.
 */
#ifndef BELFRY_KAPI_WARNING_H
#define BELFRY_KAPI_WARNING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

#define BELFRY_WARNINGS_MAX 256
#define BELFRY_WARNING_TEXT 512 /* bytes of a text, its end included; a longer one is cut */

struct belfry_warning {
    int code;
    char text[BELFRY_WARNING_TEXT]; /* without quotes and escapes, printable, UTF-8 not cut */
};

/* Takes the next warning from the front of *field, the value of a Warning field. False: there is none that can be read. */
bool belfry_warning_next(struct belfry_bytes *field, struct belfry_warning *out);

/* What was told; zeroes: nothing. */
struct belfry_warnings {
    uint64_t told[BELFRY_WARNINGS_MAX]; /* hashes of the texts */
    size_t n;
};

/* True, once for each text. */
bool belfry_warnings_add(struct belfry_warnings *warnings, const char *text);

#endif
