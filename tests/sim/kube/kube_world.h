/* tests/sim/kube/kube_world.h
 *
 * kube_world: one run of a follower of a resource (kfollow/resource_follow.h): etcd, API servers, writes and faults;
 * then everything but one server is mended, and the follower must have what etcd has.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_KUBE_WORLD_H
#define BELFRY_SIM_KUBE_WORLD_H

#include "sim/world.h"

/* As world_run(). */
uint64_t kube_world_run(const struct world_opts *opts);

#endif
