/* tests/storm/curl.h
 *
 * curl: a person, or a script, with curl over HTTP/1.1: health, a list, an object, one connection for each; and a watch
 * with -N that is interrupted after minutes.
 *
 * Thread: owner.
 */
#ifndef BELFRY_STORM_CURL_H
#define BELFRY_STORM_CURL_H

#include "storm/choices.h"
#include "storm/line.h"
#include "storm/user.h"

struct curl {
    struct line line;
    size_t door;
    struct client_address address;
    const char *token; /* NULL: none */
    struct choices *choices;
    struct user_tally *tally;
    bool is_watch;
    uint64_t next_ms; /* it begins, or gives up, or is interrupted */
};

void curl_init(struct curl *curl, size_t door, unsigned host, const char *token, struct choices *choices,
               struct user_tally *tally);
void curl_fini(struct curl *curl);
bool curl_turn(struct curl *curl, bool is_night);

#endif
