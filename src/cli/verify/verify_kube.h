/* src/cli/verify/verify_kube.h
 *
 * verify_kube: belfryctl verify --kube: watches a resource at an API server, which is believed, and at a tier in front
 * of it, and compares every event; in the end also what the two list.
 *
 *   ASKING --the reference's version--> RUNNING --time is up--> SETTLING --all was told, or is late--> LISTING --> OVER
 *      `------------- failure, Ctrl-C --------------------------------------------------------------------------^
 *
 * Thread: owner. Memory: the judge's window (verify_judge.h), and of each object that is listed its key and a hash.
 */
#ifndef BELFRY_CLI_VERIFY_VERIFY_KUBE_H
#define BELFRY_CLI_VERIFY_VERIFY_KUBE_H

#include "cli/verify/verify_report.h"

#define VERIFY_KUBE_WATCHERS 64

/* NULL: not given. As the options of belfry_kube_open() with these names. */
struct verify_kube_access {
    const char *cacert, *cert, *key, *server_name, *token, *token_file;
    bool skips_verify;
};

struct verify_kube_opts {
    const char *reference, *tier;                   /* URLs */
    struct verify_kube_access access, at_reference; /* for the tier, for the reference */
    const char *group_version, *plural;
    int64_t for_us, max_lag_us; /* for_us 0: until interrupted */
    size_t n_watchers;
    bool (*is_interrupted)(void);
    struct verify_report *report;
};

/* The run. *out_err BELFRY_OK: it was judged, and the report has what was found; otherwise why_len bytes at `why` say
 * what went wrong, and whose fault it was. */
void verify_kube_run(const struct verify_kube_opts *opts, int *out_err, char *why, size_t why_len);

#endif
