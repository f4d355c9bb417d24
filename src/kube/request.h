/* src/kube/request.h
 *
 * request: the meaning of a Kubernetes API path and query (docs/spec/kubernetes-watch.md 1.1, 2.1, 2.2, 3.1).
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_KUBE_REQUEST_H
#define BELFRY_KUBE_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "kube/status.h"

/* ---- the path ---- */

enum kube_verb {
    KUBE_VERB_GET,
    KUBE_VERB_LIST,
    KUBE_VERB_WATCH,
    KUBE_VERB_WRITE, /* create, update, patch, delete, deletecollection: never served */
};

struct kube_target {
    bool is_resource; /* false: discovery, or an unknown path */
    enum kube_verb verb;
    bool by_prefix;                                                             /* a watch by the deprecated /watch/ */
    struct belfry_bytes group, version, resource, namespace, name, subresource; /* point into the path; "": none */
};

/* `path` is without its query. `watch` is the query's watch flag; it is ignored if the path has a name. Percent escapes
 * are not decoded, because no valid name contains one. The deprecated /watch/ prefix makes the request a watch (with a
 * name: of that one object). Slashes at both ends are ignored. A path with an empty part, or with parts after a
 * subresource, is not a resource's. `/namespaces/NS` is the object of that name, which is in no namespace. */
void kube_target_read(struct belfry_bytes method, struct belfry_bytes path, bool watch, struct kube_target *out);

/* ---- the query ---- */

enum kube_match { KUBE_MATCH_UNSET, KUBE_MATCH_EXACT, KUBE_MATCH_NOT_OLDER, KUBE_MATCH_UNKNOWN };
enum kube_flag { KUBE_FLAG_UNSET, KUBE_FLAG_FALSE, KUBE_FLAG_TRUE };
enum kube_include { KUBE_INCLUDE_METADATA, KUBE_INCLUDE_NONE, KUBE_INCLUDE_OBJECT }; /* of a table's rows */

struct kube_options {
    bool watch, bookmarks;
    enum kube_flag send_initial, pretty;
    enum kube_match match;
    enum kube_include include;
    struct belfry_bytes label_selector, field_selector, continue_token, resource_version; /* in `text` */
    struct belfry_bytes shard_selector; /* the tier never serves it: it refuses or relays such a request */
    struct belfry_bytes match_text;     /* as written */
    int64_t limit;                      /* 0: all */
    int64_t timeout_s;                  /* 0: none */
    struct belfry_buf text;             /* owns what is lent above */
};

#define KUBE_QUERY_MAX (256 * 1024)

/* Reads a query (without '?'). Percent escapes and '+' are decoded; the first occurrence of a name counts; unknown
 * names are ignored; booleans are read as in Kubernetes. Rejected with 400 are: limit=abc, a broken escape in a known
 * value, an unknown includeObject, more than KUBE_QUERY_MAX bytes. A negative limit or timeout means none.
 * Errors: BELFRY_ERR_INVALID with *status, BELFRY_ERR_NOMEM. Call kube_options_fini() in any case. */
BELFRY_NODISCARD enum belfry_err kube_options_read(struct belfry_bytes query, struct kube_options *out,
                                                   struct kube_status *status);
void kube_options_fini(struct kube_options *options);

/* ---- plans ---- */

/* Which state to read. */
enum kube_read {
    KUBE_READ_ANY,       /* any state we have */
    KUBE_READ_NOT_OLDER, /* at least rev: wait for it */
    KUBE_READ_LATEST,    /* at least upstream's current revision */
    KUBE_READ_EXACT,     /* the state at rev */
    KUBE_READ_CONTINUE   /* the state of the token */
};

struct kube_list_plan {
    enum kube_read read;
    int64_t rev;   /* NOT_OLDER, EXACT */
    int64_t limit; /* 0: all; ignored with ANY, as in Kubernetes' cache */
};

/* Follows the table in section 2.2. Errors: BELFRY_ERR_INVALID with *status (400, or 422 with its causes). */
BELFRY_NODISCARD enum belfry_err kube_plan_list(const struct kube_options *options, struct kube_list_plan *out,
                                                struct kube_status *status);
/* For one object: resourceVersion unset, 0 or N. */
BELFRY_NODISCARD enum belfry_err kube_plan_get(const struct kube_options *options, struct kube_list_plan *out,
                                               struct kube_status *status);

struct kube_watch_plan {
    bool state_first;    /* send the state as ADDED first */
    bool mark_end;       /* then a bookmark that marks its end, if bookmarks are requested */
    enum kube_read read; /* state_first: which state. Otherwise KUBE_READ_EXACT: changes after rev; ANY: from now on;
                               LATEST: after upstream's current revision */
    int64_t rev;
    bool bookmarks;
    uint64_t timeout_ms; /* 0: our default; at most KUBE_TIMEOUT_MAX_S */
};

#define KUBE_TIMEOUT_MAX_S (365 * 24 * 3600)

/* Follows the table in section 3.1. Errors: BELFRY_ERR_INVALID with *status (422). */
BELFRY_NODISCARD enum belfry_err kube_plan_watch(const struct kube_options *options, struct kube_watch_plan *out,
                                                 struct kube_status *status);

#endif
