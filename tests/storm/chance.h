/* tests/storm/chance.h
 *
 * chance: what would be truly random follows from a seed: getrandom() and OpenSSL's generator. Without it, lengths of
 * TLS messages and the places of hash tables would make each repetition of a run another one.
 *
 * Thread: owner.
 */
#ifndef BELFRY_STORM_CHANCE_H
#define BELFRY_STORM_CHANCE_H

#include <stdint.h>

void chance_begin(uint64_t seed);

#endif
