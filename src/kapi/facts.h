/* src/kapi/facts.h
 *
 * facts: the members of a Kubernetes object or Status that a client needs, without keeping it parsed.
 *
 * Thread: any. Pure but for yyjson.
 */
#ifndef BELFRY_KAPI_FACTS_H
#define BELFRY_KAPI_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define BELFRY_KUBE_VERSION_MAX  63         /* bytes of a resourceVersion */
#define BELFRY_KUBE_CONTINUE_MAX (8 * 1024) /* bytes of a continue */

/* All point into the JSON text. */
struct belfry_kube_facts {
    struct belfry_bytes kind, api_version;      /* empty: missing */
    struct belfry_bytes ns, name, uid, version; /* of metadata; empty: missing */
    bool initial_end;                           /* metadata.annotations["k8s.io/initial-events-end"] is "true" */
};

/* In all functions: null counts as missing; of duplicate members the last counts; with BELFRY_ERR_PROTOCOL *out_why is
 * a literal for people: "an object without metadata". */

/* Reads an object. Errors: BELFRY_ERR_PROTOCOL: it is not JSON, not an object, its metadata is missing or not an
 * object, a member is not a plain string, or uid or version is too long. Only a name may contain escapes, which stay
 * undecoded: names of roles and a few other kinds may contain '&', which Go escapes. BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_kube_facts_read(struct belfry_bytes json, struct belfry_kube_facts *out,
                                                        const char **out_why);

/* A watch event, {"type":...,"object":{...}}: out->object points to the object in it.
 * Errors: BELFRY_ERR_PROTOCOL (not JSON, not an event, an unknown type; the object lacks kind or apiVersion or, except
 *         for an ERROR, metadata), BELFRY_ERR_NOMEM. */
enum belfry_kube_type {
    BELFRY_TYPE_ADDED = 1,
    BELFRY_TYPE_MODIFIED,
    BELFRY_TYPE_DELETED,
    BELFRY_TYPE_BOOKMARK,
    BELFRY_TYPE_ERROR
};
struct belfry_kube_read {
    enum belfry_kube_type type;
    struct belfry_bytes object;
    struct belfry_kube_facts facts; /* ERROR: kind and api_version only */
};
BELFRY_NODISCARD enum belfry_err belfry_kube_event_read(struct belfry_bytes json, struct belfry_kube_read *out,
                                                        const char **out_why);

/* The metadata of a list, without its items. These are copies; a text that is too long is an error, because a truncated
 * one would be wrong: BELFRY_ERR_PROTOCOL (not JSON, not a list, items twice, a continue or resourceVersion that is too
 * long), BELFRY_ERR_NOMEM. */
struct belfry_kube_page {
    char version[BELFRY_KUBE_VERSION_MAX + 1];
    char *continue_with; /* owned; NULL: last page */
};
BELFRY_NODISCARD enum belfry_err belfry_kube_page_read(struct belfry_bytes json, struct belfry_kube_page *out,
                                                       const char **out_why);
void belfry_kube_page_fini(struct belfry_kube_page *page);

/* Finds the kind and apiVersion of a list's items from the result of belfry_frames_passed(): "PodList" gives "Pod".
 * Appends `"kind":"Pod","apiVersion":"v1",` to out, or nothing if they are unknown: not passed yet, not plain strings,
 * or a kind that does not end in List. Errors: BELFRY_ERR_NOMEM. */
struct belfry_buf;
BELFRY_NODISCARD enum belfry_err belfry_kube_item_kind(struct belfry_bytes passed, struct belfry_buf *out);

#endif
