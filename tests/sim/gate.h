/* tests/sim/gate.h
 *
 * gate: the model of etcd behind links: its members' streams and reads, what is written to it, and its own pace.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_GATE_H
#define BELFRY_SIM_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/etcd.h"
#include "sim/link.h"
#include "sim/sched.h"
#include "sim/tier.h"

#define GATE_COMPACTED "etcdserver: mvcc: required revision has been compacted"

struct gate;

struct gate *gate_create(struct sched *sched, struct etcd *etcd, uint64_t delay_ms);
void gate_destroy(struct gate *gate); /* every link is left */

/* A tier whose reads go on here. */
void gate_add_tier(struct gate *gate, struct tier *tier);

/* A stream on a member (any that is up, if `member` is not below their number); NULL: down. */
struct link *gate_dial(struct gate *gate, unsigned member, struct actor *client, size_t window);

/* Something has happened to the cluster. */
void gate_wake(struct gate *gate);

/* Writes go on, at a pace that changes, or stop. */
void gate_write(struct gate *gate, bool go_on);

bool gate_idle(const struct gate *gate); /* every member has everything */

#endif
