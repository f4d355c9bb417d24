/* src/serve/about.h
 *
 * about: belfry.Tier/About: a tier says that it is one. etcd does not know the method, so who asks finds out whom the
 * watch comes from (client/trust.h). The answer is {name=1 string, version=2 string}; the request is not looked at.
 *
 * Thread: owner (the worker's).
 */
#ifndef BELFRY_SERVE_ABOUT_H
#define BELFRY_SERVE_ABOUT_H

#include "net/exchange.h"

#define ABOUT_PATH "/belfry.Tier/About"

/* Answers at once. `name` is the tier's. */
void about_begin(struct exchange *x, const struct exchange_head *head, const char *name);

#endif
