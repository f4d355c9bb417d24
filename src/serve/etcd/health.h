/* src/serve/etcd/health.h
 *
 * health: how the tier says that it can serve, in two languages: grpc.health.v1.Health (Check and Watch) and etcd's
 * GET /health. GET /version is here as well: what a prober asks for next.
 *
 *     Check     READING --the message--> answered
 *     Watch     READING --the message--> WATCHING: told at once and at every change; ended only by its peer or the end
 *
 * The only service known is "" (the whole server), as in etcd. For another one the health protocol has 5 "unknown
 * service" as the answer of Check and SERVICE_UNKNOWN as that of Watch, which then stays.
 *
 * Thread: owner (the worker's).
 * Memory: a call is one small allocation and at most HEALTH_REQUEST_BYTES. A watch that does not read is told only how
 * things stand when it reads again.
 */
#ifndef BELFRY_SERVE_ETCD_HEALTH_H
#define BELFRY_SERVE_ETCD_HEALTH_H

#include "base/err.h"
#include "server/exchange.h"

#define HEALTH_REQUEST_BYTES 1024 /* a larger message: 8 */

struct health;

BELFRY_NODISCARD enum belfry_err health_create(struct health **out);
void health_destroy(struct health *health); /* streams of Watch end with 14; NULL is fine */

/* Does the path belong to grpc.health.v1.Health? */
bool health_is(struct belfry_bytes path);

/* Takes over an exchange for which health_is(): sets its handler, or answers it. */
void health_begin(struct health *health, struct exchange *x, const struct exchange_head *head);

/* GET /health and GET /version; 405 for another method. The version is etcd's, or that and what Kubernetes' clients
 * look for, who measure themselves against gitVersion. */
enum health_version { HEALTH_VERSION_ETCD, HEALTH_VERSION_KUBE };
void health_http(struct health *health, struct exchange *x, const struct exchange_head *head);
void health_version(struct health *health, struct exchange *x, const struct exchange_head *head,
                    enum health_version which);

/* Not ready at first. The texts are copied; versions are "" while unknown. */
void health_stand(struct health *health, bool ready, const char *reason);
void health_set_versions(struct health *health, const char *server, const char *cluster);

#endif
