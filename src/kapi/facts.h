/* src/kapi/facts.h
 *
 * facts: what a client needs to know of an object of Kubernetes, or of a Status, without keeping it taken apart.
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

/* Runs of the text they were found in. */
struct belfry_kube_facts {
    struct belfry_bytes kind, api_version;      /* empty: not there */
    struct belfry_bytes ns, name, uid, version; /* of metadata; empty: not there */
    bool initial_end;                           /* metadata.annotations["k8s.io/initial-events-end"] is "true" */
};

/* Everywhere: null is the same as not there; of members that stand there twice the last counts; *out_why says what is
 * wrong with BELFRY_ERR_PROTOCOL, for a person; a literal: "an object without metadata". */

/* Reads an object. Errors: BELFRY_ERR_PROTOCOL: it is not JSON, not an object, its metadata is missing or no object,
 * one of these is no plain string, or uid or version is too long. Only a name may have escapes in it, as they stand: the
 * rules for roles and a few others allow '&', which Go writes as one. BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_kube_facts_read(struct belfry_bytes json, struct belfry_kube_facts *out,
                                                        const char **out_why);

/* A watch event, {"type":...,"object":{...}}: out->object is the run of the object in it.
 * Errors: BELFRY_ERR_PROTOCOL (not JSON, no such event, an unknown type; the object without kind or apiVersion, or, but
 *         for an ERROR, without metadata), BELFRY_ERR_NOMEM. */
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

/* The envelope of a list: what is in metadata besides the items. Copies; cut texts would be wrong, so too long ones are
 * an error: BELFRY_ERR_PROTOCOL (not JSON, no list, items twice, a continue or a resourceVersion that is too long),
 * BELFRY_ERR_NOMEM. */
struct belfry_kube_page {
    char version[BELFRY_KUBE_VERSION_MAX + 1];
    char *continue_with; /* owned; NULL: this was the last page */
};
BELFRY_NODISCARD enum belfry_err belfry_kube_page_read(struct belfry_bytes json, struct belfry_kube_page *out,
                                                       const char **out_why);
void belfry_kube_page_fini(struct belfry_kube_page *page);

/* The kind and apiVersion that the items of a list have, from what belfry_frames_passed() gives: "PodList" makes "Pod".
 * Appends `"kind":"Pod","apiVersion":"v1",` to out; nothing when they cannot be told: not passed yet, no plain strings,
 * a kind that does not end in List. Errors: BELFRY_ERR_NOMEM. */
struct belfry_buf;
BELFRY_NODISCARD enum belfry_err belfry_kube_item_kind(struct belfry_bytes passed, struct belfry_buf *out);

#endif
