/* src/cli/out/live_out.h
 *
 * live_out: batches of a watch or follow, written in the form that was chosen.
 *
 * Thread: owner. Memory: the set of keys of a follow; live_out_fini() frees it.
 */
#ifndef BELFRY_CLI_OUT_LIVE_OUT_H
#define BELFRY_CLI_OUT_LIVE_OUT_H

#include <stdbool.h>
#include <stdio.h>

#include <belfry/belfry.h>

#include "cli/out/form.h"
#include "cli/out/keyset.h"
#include "cli/out/out_etcd_json.h"
#include "cli/out/out_table.h"

/* Zeroed to begin with, but for the first three. */
struct live_out {
    FILE *to;
    enum form form;
    bool progress; /* the user asked to be told */
    struct table table;
    struct etcd_json_watch response; /* FORM_ETCD_JSON: the line being written */
    struct keyset keys;              /* follow: what there is, for the number in SYNCED */
};

/* Writes CHANGES, STATE, SYNCED, PROGRESS and the last line of END; nothing for LINK. */
void live_out_batch(struct live_out *out, const struct belfry_batch *batch);
void live_out_fini(struct live_out *out);

#endif
