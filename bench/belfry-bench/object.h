/* bench/belfry-bench/object.h
 *
 * object: the Kubernetes objects of a load, and what a server says of them.
 *
 * Custom resources as they lie in etcd: JSON, of the one type that the kube-apiserver to compare with knows. Name and
 * spec.nodeName of an object are the same word, so that a selector of either picks it. Its spec holds the time of its
 * put (spec.subdomain, PUT_TIME_BYTES) and filling (spec.hostname).
 *
 * Reading is for lines that a server of these objects wrote: fields are looked for, not parsed, because a client that
 * costs more than the server would measure itself.
 *
 * Thread: any.
 */
#ifndef BENCH_OBJECT_H
#define BENCH_OBJECT_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define OBJECT_PREFIX    "/registry/pods/"
#define OBJECT_NAMESPACE "default"
#define OBJECT_PATH      "/apis/example.apiserver.k8s.io/v1/pods"

#define OBJECT_NAME_MAX 32
#define OBJECT_EXTRA    512 /* an object is smaller than its spec and this */

/* The name of object `index`, into name[OBJECT_NAME_MAX]. */
void object_name(size_t index, char *name);

/* Writes object `index`, whose spec has `spec_bytes` (or as few as it can), to to[spec_bytes + OBJECT_EXTRA]; returns
 * its length. */
size_t object_write(char *to, size_t index, size_t spec_bytes, uint64_t now_ns);

/* Bytes of a watch event of such an object as one chunk of HTTP/1.1. */
size_t object_event_bytes(size_t object_bytes);

enum object_event_type { OBJECT_PUT, OBJECT_DELETED, OBJECT_BOOKMARK, OBJECT_ERROR };

struct object_event {
    enum object_event_type type;
    int64_t rev;
    uint64_t put_at; /* ns; 0: not in it */
};

/* One line of a watch. Errors: BELFRY_ERR_PROTOCOL. */
BELFRY_NODISCARD enum belfry_err object_read_event(struct belfry_bytes line, struct object_event *out);

/* The largest resourceVersion in the text of a list, which is the list's own; 0 when there is none. */
int64_t object_read_revision(struct belfry_bytes list);

/* Counts the objects of a list that comes in pieces. */
struct object_count {
    uint64_t n;
    char tail[16]; /* the end of what has come: what is counted may begin in it */
    size_t tail_len;
};

void object_count(struct object_count *count, struct belfry_bytes piece);

#endif
