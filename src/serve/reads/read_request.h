/* src/serve/reads/read_request.h
 *
 * read_request: what a client wants to read: a Range, or a Txn whose operations are Ranges, in both of its branches.
 *
 * Such a Txn is what etcd calls read-only: it goes through no raft log. One with a Txn among its operations is none.
 * It is serializable if all of its Ranges are, so one without any is.
 *
 * Thread: any. Pure.
 * Memory: none: its bytes are lent from the message. A Txn is kept as its message and its parts are read when they are
 *         needed, so that a request never costs more than its bytes.
 */
#ifndef BELFRY_SERVE_READS_READ_REQUEST_H
#define BELFRY_SERVE_READS_READ_REQUEST_H

#include "wire/scan.h"

#define READ_REQUEST_OPS 128 /* compares, or operations of one branch, of a Txn: etcd's own --max-txn-ops */

enum read_request_kind { READ_REQUEST_RANGE, READ_REQUEST_TXN };

struct read_request {
    enum read_request_kind kind;
    bool serializable;
    struct belfry_wire_range_request range; /* RANGE */
    struct belfry_bytes txn;                /* TXN: its message */
};

enum read_request_fit {
    READ_REQUEST_NONE,   /* a Txn that writes, or may: it cannot be read */
    READ_REQUEST_ETCDS,  /* it reads, but the store may not answer it as etcd would: there is no key, too many
                            operations, or something odd, or it is a Range that cannot be read */
    READ_REQUEST_FITTING /* the store may answer it */
};
enum read_request_fit read_request_read(enum read_request_kind kind, struct belfry_bytes message,
                                        struct read_request *out);

/* Copies it: its bytes, of read_request_bytes(), to *to, which is advanced. */
size_t read_request_bytes(const struct read_request *request);
struct read_request read_request_pack(const struct read_request *request, char **to);

/* ---- the parts of one that is FITTING ---- */

/* The next one of a Txn; *at is 0 at first. False: there are no more. `branch`: BELFRY_TXN_SUCCESS or _FAILURE. */
bool read_request_next_compare(const struct read_request *request, size_t *at, struct belfry_wire_compare *out);
bool read_request_next_range(const struct read_request *request, uint32_t branch, size_t *at,
                             struct belfry_wire_range_request *out);

/* All ranges of keys that it names, also in the branch that is not taken. */
struct read_request_walk { /* all zero: at the first */
    uint32_t part;
    size_t at;
};
struct read_request_span {
    struct belfry_bytes key, range_end; /* as received */
};
bool read_request_next_span(const struct read_request *request, struct read_request_walk *walk,
                            struct read_request_span *out);

/* Do all keys that it names begin with `prefix`? */
bool read_request_is_within(const struct read_request *request, struct belfry_bytes prefix);

#endif
