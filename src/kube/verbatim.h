/* src/kube/verbatim.h
 *
 * verbatim: where the text of an API server's object has its metadata, and in that its version. The text is searched,
 * not parsed, up to the end of the metadata.
 *
 *     {"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"207","labels":...},"spec":...}
 *                                                `---------------- metadata ---------------´
 *                                                                              `-´ version
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_KUBE_VERBATIM_H
#define BELFRY_KUBE_VERBATIM_H

#include <stdbool.h>

#include "base/bytes.h"

struct kube_verbatim {
    struct belfry_bytes metadata; /* with its braces */
    struct belfry_bytes version;  /* of it: the text of resourceVersion, without its quotes */
};

/* Of a name that appears twice, the first one counts; API servers write none twice. The result points into the text.
 * False: there is no metadata, or no version in it. If the text is not JSON, the result is wrong or false. */
bool kube_verbatim_read(struct belfry_bytes object, struct kube_verbatim *out);

#endif
