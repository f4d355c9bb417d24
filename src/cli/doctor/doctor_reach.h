/* src/cli/doctor/doctor_reach.h
 *
 * doctor_reach: how an endpoint is reached from here: its name, its port, its TLS. Each is tried on its own, so that
 * the first that fails is known; the library's own connection would tell only that it did not come up.
 *
 * Thread: owner. Blocks, for timeout_ms per try at most.
 */
#ifndef BELFRY_CLI_DOCTOR_DOCTOR_REACH_H
#define BELFRY_CLI_DOCTOR_DOCTOR_REACH_H

#include "cli/doctor/doctor_facts.h"
#include "net/tls.h"

/* `out->endpoint` is set; the rest is found out. What goes wrong is a fact, too.
 * Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT, BELFRY_ERR_IO (no loop can be made). */
BELFRY_NODISCARD enum belfry_err doctor_reach(const struct belfry_tls_opts *tls, uint32_t timeout_ms,
                                              struct doctor_reach *out);

#endif
