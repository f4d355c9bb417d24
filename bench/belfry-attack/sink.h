/* bench/belfry-attack/sink.h
 *
 * sink: a server that takes whatever comes and throws it away: what an attack costs the machine when nothing is hurt.
 * To a client that begins as HTTP/2 does it gives the largest windows, once, and says nothing more.
 *
 * Thread: the calling one.
 */
#ifndef ATTACK_SINK_H
#define ATTACK_SINK_H

#include "target.h"

/* Listens there, prints "ready", and serves until the process is ended. Dies when it cannot listen. */
_Noreturn void sink_run(const struct target *target);

#endif
