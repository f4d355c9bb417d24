/* src/serve/admin/clients.h
 *
 * clients: what each client costs (server/shares.h): the source of /debug/clients. Each worker walks its own clients in
 * short steps and keeps the CLIENTS_KEPT largest; the front adds up those of one name. So the sums are exact while no
 * worker has more clients than that; beyond it the parts of a client that are small on a worker may be missing.
 *
 * CPU is estimated from what a client did in about the last 10 s (server/work.h), and told as a share of what all
 * clients of the tier did.
 *
 * Thread: a scan belongs to its worker until it is done, then to the front. Pure but for the walk.
 */
#ifndef BELFRY_SERVE_ADMIN_CLIENTS_H
#define BELFRY_SERVE_ADMIN_CLIENTS_H

#include "base/buf.h"
#include "server/shares.h"

#define CLIENTS_LIMIT 50
#define CLIENTS_KEPT  1000 /* and the most that can be asked for */

enum clients_sort { CLIENTS_BY_CPU, CLIENTS_BY_MEMORY, CLIENTS_BY_CALLS, CLIENTS_BY_CONNECTIONS };

struct clients_query {
    enum clients_sort sort;
    size_t limit;
    char filter[256]; /* a part of the name; "": all */
};

/* From the query part of a URL (without its question mark): sort=cpu|memory|calls|connections, limit=N,
 * filter=TEXT, percent-encoded. On failure a sentence naming the parameter is in why. Errors: BELFRY_ERR_INVALID. */
BELFRY_NODISCARD enum belfry_err clients_parse(struct belfry_bytes query, struct clients_query *out, char *why,
                                               size_t why_len);

struct clients_scan;

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err clients_scan_create(const struct clients_query *query, struct shares *shares,
                                                     struct clients_scan **out);
/* On its worker, or when it is done anywhere; NULL is fine. */
void clients_scan_destroy(struct clients_scan *scan);

/* Visits up to max_visits clients. True: done, and the scan no longer needs its worker. Without memory a client is left
 * out, and clients_write() returns BELFRY_ERR_NOMEM. */
bool clients_scan_step(struct clients_scan *scan, size_t max_visits);

/* Writes the rows of n finished scans (of equal queries) as JSON, and a newline; the largest first:
 * {"clients":N,"left_out":N,"rows":[{"client":"10.0.0.9","class":"client","cpu_percent":49.5,"memory_bytes":N,
 *  "connections":N,"watchers":N,"calls":N,"lists":N,"requests_per_s":..,"calls_per_s":..,"connections_per_s":..,
 *  "bytes_in_per_s":..,"bytes_out_per_s":..},...]}
 * class: client, or tier for a belfryd below. calls: relayed, under way. memory_bytes: of connections, unserved
 * requests and relayed calls. left_out: clients of workers that have more than CLIENTS_KEPT.
 * Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err clients_write(struct clients_scan *const *scans, size_t n, struct belfry_buf *out);

#endif
