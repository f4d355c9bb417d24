/* tests/storm/house.h
 *
 * house: the server under attack: a whole tier (daemon/tier.h) with its workers and the admin address, in one thread
 * and without sockets that listen. The run hands connections over and decides who takes the next turn. The tier stands
 * in front of etcd (etcd.h) or in front of Kubernetes' API server (apiserver.h).
 *
 * Its pools are small, and its configuration is chosen; or both are those of a small machine.
 *
 * Thread: owner. One at a time.
 */
#ifndef BELFRY_STORM_HOUSE_H
#define BELFRY_STORM_HOUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/config.h"
#include "net/tls.h"
#include "serve/admin/numbers.h"
#include "server/client_address.h"
#include "storm/choices.h"

void house_prepare(void); /* files and certificates, for all runs */
void house_clear(void);   /* removes them */

/* `choices` decide the configuration and later the turns; lent until house_close(). */
void house_open(struct choices *choices);
bool house_is_kube(void); /* in front of Kubernetes' API server */

/* The same with the defaults of belfryd on a machine with HOUSE_WORKERS processors, HOUSE_MEMORY bytes and HOUSE_FILES
 * descriptors; only the log is small, so that it is full within the first hour, and memory at its level. `change` may
 * change them; NULL: none. Doors: HOUSE_PLAIN and HOUSE_TLS. */
#define HOUSE_WORKERS 2
#define HOUSE_MEMORY  ((size_t)1 << 30)
#define HOUSE_FILES   1024
#define HOUSE_LOG     ((size_t)2 << 20)
enum house_door { HOUSE_PLAIN, HOUSE_TLS };
void house_open_plain(struct choices *choices, void (*change)(struct config *config));

/* Stops it. Whatever is left open or allocated is a finding. */
void house_close(void);

/* Doors: the listeners of the configuration, and the admin address as the last. */
size_t house_doors(void);
bool house_door_is_tls(size_t door);
bool house_door_is_admin(size_t door);
/* A client with ETCD_ROOT may watch and get there, with auth on or off; in front of Kubernetes, and write. */
bool house_door_is_healthy(size_t door);

bool house_door_has_kube(size_t door);
bool house_door_is_proxied(size_t door); /* connections come from a balancer, which names the client */

/* Hands over one end of a connection of this client. */
void house_accept(size_t door, int fd, struct client_address client);

/* What a client with or without a certificate speaks TLS by. */
struct belfry_tls *house_client_tls(bool with_cert);

void house_turn(void);  /* a turn of one part, chosen */
void house_round(void); /* a turn of every part */

/* After two rounds: when a part has something to do; a time in the past if it has now. */
uint64_t house_due(void);

/* The n-th allocation of the next turn of a worker, the front or the reader that makes so many fails. */
void house_refuse(size_t n);

void house_drain(uint64_t ms);
void house_reload(void); /* other totals of the pools, and other shares */

/* What the workers count, gathered now; lent until the next call. NULL: there was no memory to ask them. */
const struct worker_numbers *house_count(size_t *out_n);

size_t house_call_bytes(void); /* that relayed calls of a worker may hold */

/* The same of the whole tier. */
const struct tier_numbers *house_numbers(void);

/* Of the turns since house_open(), by the processor's time. */
uint64_t house_longest_us(void);

#endif
