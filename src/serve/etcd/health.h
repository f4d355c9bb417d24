/* src/serve/etcd/health.h
 *
 * health: whether the tier can serve, in two protocols: grpc.health.v1.Health (Check and Watch) and etcd's GET /health.
 * GET /version is here as well, because probers ask for it next.
 *
 *     Check     READING --the message--> answered
 *     Watch     READING --the message--> WATCHING: receives the state and every change, until its peer or the tier ends
 *
 * A message that is not whole in time ends its call with 14.
 *
 * The only known service is "" (the whole server), as in etcd. For another service Check is answered 5 "unknown
 * service" and Watch SERVICE_UNKNOWN, as the health protocol requires; the Watch stays open.
 *
 * Thread: owner (the worker's).
 * Memory: a call is one small allocation and at most HEALTH_REQUEST_BYTES. A watch that does not read receives only the
 * latest state when it reads again.
 */
#ifndef BELFRY_SERVE_ETCD_HEALTH_H
#define BELFRY_SERVE_ETCD_HEALTH_H

#include "base/err.h"
#include "server/exchange.h"

#define HEALTH_REQUEST_BYTES 1024 /* a larger message: 8 */

struct health;

/* message_ms: the time in which a message must be whole after the head; 0: PACE_MS. */
BELFRY_NODISCARD enum belfry_err health_create(uint64_t message_ms, struct health **out);
void health_set_message_time(struct health *health, uint64_t message_ms); /* also for messages under way */
void health_destroy(struct health *health); /* streams of Watch end with 14; NULL is fine */

/* Does the path belong to grpc.health.v1.Health? */
bool health_is(struct belfry_bytes path);

/* Takes over an exchange for which health_is(): sets its handler, or answers it. */
void health_begin(struct health *health, struct exchange *x, const struct exchange_head *head, uint64_t now_ms);

/* Ends the calls whose message is late, and returns how many. health_due(): when one will be; BELFRY_NEVER: none. */
size_t health_end_late(struct health *health, uint64_t now_ms);
uint64_t health_due(const struct health *health);

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
