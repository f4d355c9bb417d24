/* src/cli/doctor/doctor_admin.h
 *
 * doctor_admin: what a tier says of itself on its admin address: /debug/numbers, /debug/tree, /debug/clients and
 * /readyz. A number that is missing, as an older tier has it, is as if it were not told.
 *
 * Thread: owner. doctor_admin_ask() blocks; the readers are pure.
 */
#ifndef BELFRY_CLI_DOCTOR_DOCTOR_ADMIN_H
#define BELFRY_CLI_DOCTOR_DOCTOR_ADMIN_H

#include <belfry/belfry.h>

#include "cli/doctor/doctor_facts.h"

/* Asks for /debug/numbers; how that went is in out->page. */
void doctor_admin_ask(const char *address, int timeout_ms, struct doctor_admin *out);
/* Asks for the other pages. It looks at the tree several times: a lag of a moment is no trouble, one that lasts is. */
void doctor_admin_ask_more(const char *address, int timeout_ms, struct doctor_admin *out);
/* The tree once more. True: it was read. */
bool doctor_admin_ask_tree(const char *address, int timeout_ms, struct doctor_admin *out);

/* Each reads one page. Errors: BELFRY_ERR_PROTOCOL (it is none of a belfryd), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err doctor_admin_read_numbers(struct belfry_bytes page, struct doctor_admin *out,
                                                           uint64_t *out_clock_ms);
BELFRY_NODISCARD enum belfry_err doctor_admin_read_tree(struct belfry_bytes page, struct doctor_admin *out);
BELFRY_NODISCARD enum belfry_err doctor_admin_read_clients(struct belfry_bytes page, struct doctor_admin *out);
void doctor_admin_read_ready(struct belfry_bytes page, struct doctor_admin *out); /* text; "[-]name: why" lines count */

#endif
