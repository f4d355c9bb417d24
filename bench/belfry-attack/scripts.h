/* bench/belfry-attack/scripts.h
 *
 * scripts: the attacks, each as a script of its connections (hostile.h).
 *
 * - script_calls.c: requests that are not finished, or that cost more than they look: what they hold is memory, places
 *   in pools, and streams upstream; and garbage;
 * - script_floods.c: frames and heads in great numbers: what they take is CPU;
 * - script_waits.c: clients that send or read slowly, or not at all;
 * - script_http1.c: the same by HTTP/1.1, and connections in great numbers;
 * - script_admin.c: the admin address, web pages of other sites, many addresses, and the past;
 * - script_rights.c: clients that show tokens, and want what their users may not have.
 *
 * Thread: owner, that of the connections.
 */
#ifndef ATTACK_SCRIPTS_H
#define ATTACK_SCRIPTS_H

#include "hostile.h"

/* Each array ends with a script without a name. */
extern const struct script script_calls[], script_floods[], script_waits[], script_http1[], script_admin[],
    script_rights[];

/* NULL: there is none. */
const struct script *scripts_find(const char *name);

/* Script number `i` of all; NULL: there are no more. */
const struct script *scripts_at(size_t i);

#endif
