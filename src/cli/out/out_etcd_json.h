/* src/cli/out/out_etcd_json.h
 *
 * out_etcd_json: the bytes of etcdctl -w json (3.5.16): keys and values in base64, zero fields left out, one line a
 * response. A watch response is written piece by piece as its revisions come, so that none has to be kept.
 *
 * Thread: owner of the stream. Memory: none.
 */
#ifndef BELFRY_CLI_OUT_OUT_ETCD_JSON_H
#define BELFRY_CLI_OUT_OUT_ETCD_JSON_H

#include <stdbool.h>
#include <stdio.h>

#include <belfry/belfry.h>

#include "cli/txn_script.h"

void etcd_json_header(FILE *out, const char *name, const struct belfry_header *header); /* "header":{...} */

void etcd_json_get(FILE *out, const struct belfry_reply *reply);
void etcd_json_put(FILE *out, const struct belfry_reply *reply);
void etcd_json_del(FILE *out, const struct belfry_reply *reply);
/* An answer inside does not say what it is an answer to: `script` does. */
void etcd_json_txn(FILE *out, const struct txn_script *script, const struct belfry_reply *reply);

void etcd_json_lease_grant(FILE *out, const struct belfry_reply *reply);
void etcd_json_lease_renewed(FILE *out, const struct belfry_reply *reply);
void etcd_json_lease_revoked(FILE *out, const struct belfry_reply *reply);
void etcd_json_lease_ttl(FILE *out, const struct belfry_reply *reply);
void etcd_json_leases(FILE *out, const struct belfry_reply *reply);
void etcd_json_members(FILE *out, const struct belfry_reply *reply);

/* A watch response on its way out. Zeroed to begin with. */
struct etcd_json_watch {
    struct belfry_header header; /* of the last response, for the one that says canceled */
    bool open;                   /* its line has begun */
    bool any;                    /* it has an event */
};

void etcd_json_watch_begin(struct etcd_json_watch *w, FILE *out, const struct belfry_header *header);
void etcd_json_watch_event(struct etcd_json_watch *w, FILE *out, const struct belfry_event *event);
/* Ends the line; nothing when none has begun. */
void etcd_json_watch_end(struct etcd_json_watch *w, FILE *out);
/* The whole line that says that history before `compact_rev` is gone. A `given` header without a cluster is no header:
 * that of the last response does. */
void etcd_json_watch_compacted(struct etcd_json_watch *w, FILE *out, const struct belfry_header *given,
                               int64_t compact_rev);

#endif
