/* src/cli/one_call.h
 *
 * session: a session of the library as the flags want it, and one call on it from start to exit code.
 *
 * Thread: owner.
 */
#ifndef BELFRY_CLI_ONE_CALL_H
#define BELFRY_CLI_ONE_CALL_H

#include <belfry/belfry.h>

#include "cli/flags.h"
#include "cli/out/form.h"
#include "cli/out/report.h"

struct txn_script;

/* The endpoints as the library wants them; where TLS is asked for, https:// before those that name no scheme, as
 * etcdctl reads them. The caller frees *out.
 * Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err session_endpoints(const struct flags *flags, char **out);
/* The same of `text` instead of --endpoints. */
BELFRY_NODISCARD enum belfry_err session_endpoints_of(const struct flags *flags, const char *text, char **out);

/* Opens a session on `endpoints` (NULL: those of the flags); on EXIT_DONE the caller ends *out with belfry_close(). On
 * any other code the reason has been told. */
BELFRY_NODISCARD enum exit_code session_open(const struct flags *flags, const char *endpoints, struct belfry **out);

/* A line of the library's log on standard error: a belfry_log_fn. */
void session_write_log(enum belfry_level level, const char *event, const char *text, void *user);

/* One call: `start` begins it with the given callback and user, `show` prints a reply without error. */
struct session_call {
    int (*start)(struct belfry *b, const struct session_call *call, const struct belfry_opts *opts, belfry_reply_fn fn,
                 void *user);
    void (*show)(const struct flags *flags, const struct session_call *call, enum form form,
                 const struct belfry_reply *reply);
    struct belfry_range range;       /* get and del; put: .key */
    struct belfry_bytes value;       /* put */
    const struct txn_script *script; /* txn */
    int64_t lease, ttl_s;            /* leases */
};

/* Opens, calls, prints, closes. */
enum exit_code session_run_call(const struct flags *flags, const struct session_call *call);

#endif
