/* src/serve/rights/review_subject.h
 *
 * review_subject: what a SubjectAccessReview asks about, besides the user: the attributes of one request of a
 * Kubernetes client. As bytes it takes the place of a range of keys in rights.h: equal subjects have equal bytes, and
 * different subjects have different bytes.
 *
 *     9 times: length (4 bytes, most significant first), text
 *
 * The attributes are those that kube-apiserver itself would authorise, so that its answer is the same:
 *
 *   - verb: get, list or watch. A watch with state first is a watch alone.
 *   - namespace: that of the path. A field selector for metadata.namespace does not change it.
 *   - name: that of the path, or of a list or watch with the field selector metadata.name=X.
 *   - selectors: written from what was parsed, not the text of the query: upstream must allow what is served, though it
 *     may read an odd text in another way. Kubernetes 1.31 and later compare them with what a node agent is allowed;
 *     older versions ignore them.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SERVE_RIGHTS_REVIEW_SUBJECT_H
#define BELFRY_SERVE_RIGHTS_REVIEW_SUBJECT_H

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"

struct review_subject {
    struct belfry_bytes verb;
    struct belfry_bytes group, version, resource, subresource; /* group "": core */
    struct belfry_bytes namespace, name;                       /* "": all */
    struct belfry_bytes label_selector, field_selector;        /* "": none */
};

/* Appends it. Errors: BELFRY_ERR_NOMEM; a part of it may have been appended. */
BELFRY_NODISCARD enum belfry_err review_subject_write(const struct review_subject *subject, struct belfry_buf *out);

/* Reads what review_subject_write() has written; the texts are lent by `bytes`. Errors: BELFRY_ERR_INVALID. */
BELFRY_NODISCARD enum belfry_err review_subject_read(struct belfry_bytes bytes, struct review_subject *out);

#endif
