/* belfry/err.h: one enum of errors for the whole project.
 *
 * Programs use the code. People read the sentence of belfry_strerror(), and the `why` that comes with most results.
 * Functions of the library return the code as int; 0 is BELFRY_OK. Values are ABI: new rows go only at the end of the
 * table.
 */
#ifndef BELFRY_ERR_H
#define BELFRY_ERR_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BELFRY_API       __attribute__((visibility("default")))
#define BELFRY_NODISCARD __attribute__((warn_unused_result))
#else
#define BELFRY_API
#define BELFRY_NODISCARD
#endif

/* clang-format off */
#define BELFRY_ERR_TABLE(X) \
    X(BELFRY_OK,               0, "success") \
    X(BELFRY_ERR_INVALID,      1, "an argument or an option is invalid") \
    X(BELFRY_ERR_NOMEM,        2, "out of memory") \
    X(BELFRY_ERR_COMPACTED,    3, "the revision has been compacted away: read the state again") \
    X(BELFRY_ERR_AGAIN,        4, "nothing available yet") \
    X(BELFRY_ERR_UNAVAILABLE,  5, "no endpoint could answer") \
    X(BELFRY_ERR_TIMEOUT,      6, "the deadline passed before an answer came") \
    X(BELFRY_ERR_DENIED,       7, "permission denied for this user") \
    X(BELFRY_ERR_AUTH,         8, "the credentials were not accepted") \
    X(BELFRY_ERR_CLUSTER,      9, "the endpoint belongs to another cluster") \
    X(BELFRY_ERR_REWOUND,     10, "the cluster was restored from a backup: read the state again") \
    X(BELFRY_ERR_PROTOCOL,    11, "the peer violated the protocol") \
    X(BELFRY_ERR_TOO_LARGE,   12, "a message is larger than the limit") \
    X(BELFRY_ERR_CANCELED,    13, "canceled") \
    X(BELFRY_ERR_REFUSED,     14, "the server refused the request") \
    X(BELFRY_ERR_UNSUPPORTED, 15, "the server does not know this request") \
    X(BELFRY_ERR_IO,          16, "a system call failed") \
    X(BELFRY_ERR_TLS,         17, "TLS could not be set up") \
    X(BELFRY_ERR_RESOLVE,     18, "the host name could not be resolved") \
    X(BELFRY_ERR_UNCERTAIN,   19, \
      "the connection broke after the write was sent: it may or may not have been applied") \
    X(BELFRY_ERR_NOT_FOUND,   20, "not found") \
    X(BELFRY_ERR_LIMIT,       21, "a limit of this process or session is reached") \
    X(BELFRY_ERR_FUTURE,      22, "the revision has not been written yet")
/* clang-format on */
#define BELFRY_ERR_ENUM(name, value, sentence) name = value,
enum belfry_err { BELFRY_ERR_TABLE(BELFRY_ERR_ENUM) BELFRY_ERR_END_ };

/* The sentence for `err`; never NULL; not to be freed. Thread: any. */
BELFRY_API const char *belfry_strerror(int err);

/* The name of `err` as written in this header, such as "BELFRY_ERR_COMPACTED". Thread: any. */
BELFRY_API const char *belfry_errname(int err);

#ifdef __cplusplus
}
#endif
#endif
