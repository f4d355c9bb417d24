/* src/kapi/warning.h
 *
 * warning: reads the warnings in the Warning fields of a server's answer, and remembers which were reported.
 *
 * A field is a list of `code agent "text" ["date"]` (RFC 7234 section 5.5); Kubernetes sends 299 and no date. A server
 * repeats its warnings with every answer, so each text is reported once per client.
 *
 * Thread: owner. Pure.
 * Memory: BELFRY_WARNINGS_MAX numbers. If a server sends more different texts, the rest is ignored: forgetting the
 * oldest texts instead would let a server fill a log.
 */
#ifndef BELFRY_KAPI_WARNING_H
#define BELFRY_KAPI_WARNING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

#define BELFRY_WARNINGS_MAX 256
#define BELFRY_WARNING_TEXT 512 /* bytes of a text, with its zero; longer ones are truncated */

struct belfry_warning {
    int code;
    char text[BELFRY_WARNING_TEXT]; /* without quotes and escapes, printable, complete UTF-8 */
};

/* Takes the next warning from the front of *field, the value of a Warning field. False: no readable one is left. */
bool belfry_warning_next(struct belfry_bytes *field, struct belfry_warning *out);

/* The texts reported so far; initialise with zeroes. */
struct belfry_warnings {
    uint64_t told[BELFRY_WARNINGS_MAX]; /* hashes of the texts */
    size_t n;
};

/* True for a text that was not added before. */
bool belfry_warnings_add(struct belfry_warnings *warnings, const char *text);

#endif
