/* src/net/h2_mem.h
 *
 * h2_mem: nghttp2 allocates through this process's malloc, so that tests can refuse; and a refusal is remembered,
 * because nghttp2 turns some into something else: out of memory while packing headers, it ends the connection as if the
 * peer were to blame.
 *
 * Thread: owner (the session's).
 */
#ifndef BELFRY_NET_H2_MEM_H
#define BELFRY_NET_H2_MEM_H

#include <stdbool.h>

#include <nghttp2/nghttp2.h>

/* `starved`, of the session's owner and as long as it, becomes true at the first refusal. */
nghttp2_mem belfry_h2_mem(bool *starved);

#endif
