/* bench/belfry-bench/plan.h
 *
 * plan: what a run was asked to do, by one table of modes and options (opt/options.h).
 *
 * Thread: any; fixed once read.
 */
#ifndef BENCH_PLAN_H
#define BENCH_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "credentials.h"
#include "load.h"
#include "opt/options.h"
#include "report.h"
#include "round.h"
#include "target.h"

struct plan {
    const char *mode;
    struct target target, write_target, kube_target;
    pid_t pid, write_pid, upstream_pid;
    const char *cacert, *cert, *key; /* lent from argv; NULL: none */
    struct belfry_tls *tls;          /* owned until the program ends; NULL: no target is https */
    bool resume;
    size_t conns, streams, watches, creating;
    struct credentials tokens, logins; /* owned until the program ends; without both, connections show nothing */
    const char *write_token;           /* lent from argv; NULL: none */
    size_t puts, value_bytes, in_flight;
    size_t n_reads, n_keys, limit;
    bool pages, serializable;
    enum pace pace;
    bool answered;
    uint64_t rate, elsewhere_rate; /* puts per second */
    const char *prefix;            /* lent from argv */
    enum load_keys keys;
    enum load_form values;
    const char *selector_field; /* lent from argv; NULL: none */
    const char *before, *after; /* lent from argv; NULL: none */
    uint64_t warm_bytes;
    size_t revisions, pairs;
    unsigned sources;
    uint64_t memory_floor, fill_ms, closing_ms;
    uint64_t stall_ms, normal_ms, settle_ms, timeout_ms;
    enum report_form form;
    uint64_t deadline_ns;
};

struct mode {
    const char *name;
    const char *summary;
    const char *defaults; /* options of its own, as they would be given, before those of the command line */
    bool local;           /* needs no --target */
    int (*run)(const struct plan *plan);
};

enum plan_do { PLAN_RUN, PLAN_HELP }; /* HELP: --help was asked for */

extern const struct belfry_opt_table plan_table; /* the options alone; modes_table() has the modes too */

/* Reads argv[2...] for `mode` into *plan. Mistakes go to `err`, one line. Errors: BELFRY_ERR_INVALID. */
BELFRY_NODISCARD enum belfry_err plan_read(const struct mode *mode, int argc, char *argv[], FILE *err,
                                           struct plan *plan, enum plan_do *what);

/* The parts of a plan as the modules take them. */
/* The load alone. */
struct load plan_load(const struct plan *plan);

struct swarm_opts plan_swarm(const struct plan *plan);
struct putter_opts plan_putter(const struct plan *plan);
struct round_opts plan_round(const struct plan *plan);

#endif
