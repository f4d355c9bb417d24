/* tests/storm/kcurl.h
 *
 * kcurl: a client in good order of a tier in front of Kubernetes that speaks HTTP/1.1: gets and writes that are
 * relayed, on one connection, at times the next before the answer to the last. Answers must come in order, each its own
 * and whole, or visibly cut (echo.h).
 *
 * Thread: owner.
 */
#ifndef BELFRY_STORM_KCURL_H
#define BELFRY_STORM_KCURL_H

#include <stdbool.h>
#include <stdint.h>

#include "storm/choices.h"
#include "storm/echo.h"
#include "storm/line.h"

#define KCURL_AHEAD 3 /* requests under way, at most */

struct kcurl {
    struct line line;
    struct choices *choices;
    size_t door;
    struct client_address address;
    char peer[CLIENT_ADDRESS_TEXT];
    char asked[KCURL_AHEAD][ECHO_HEAD]; /* what the next answers must say */
    size_t n_asked;
    size_t reads;     /* bytes in a turn, at most */
    uint64_t next_ms; /* not before */
    uint64_t number;  /* of its last request */
    uint64_t answered, failed;
    uint64_t before; /* answered when kcurl_ask() was called */
};

void kcurl_init(struct kcurl *curl, size_t door, unsigned number, struct choices *choices);
void kcurl_fini(struct kcurl *curl);
void kcurl_turn(struct kcurl *curl); /* whatever can be done now */

void kcurl_ask(struct kcurl *curl);
bool kcurl_is_served(const struct kcurl *curl); /* since then */
void kcurl_tell(const struct kcurl *curl);      /* why not, for people */

#endif
