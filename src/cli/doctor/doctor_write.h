/* src/cli/doctor/doctor_write.h
 *
 * doctor_write: one write on its way: through the tier to etcd, and as an event back to a watcher of upstream and to
 * one of the tier. The key must not exist; it is deleted again, if nobody has changed it since.
 *
 * Thread: owner. Blocks, for --command-timeout per part at most.
 */
#ifndef BELFRY_CLI_DOCTOR_DOCTOR_WRITE_H
#define BELFRY_CLI_DOCTOR_DOCTOR_WRITE_H

#include "cli/doctor/doctor_facts.h"
#include "cli/flags.h"

/* `out->key` is set. `upstream` NULL: it is not watched. */
void doctor_write(const struct flags *flags, const char *endpoints, const char *upstream, struct doctor_write *out);

#endif
