/* src/serve/etcd/about_reply.h
 *
 * about_reply: belfry.Tier/About: a tier says that it is one, and what it knows of itself and of those above it
 * (follow/about.h). etcd does not know the method, so who asks finds out whom the watch comes from (client/trust.h). The
 * request is not looked at.
 *
 * Thread: owner (the worker's).
 */
#ifndef BELFRY_SERVE_ETCD_ABOUT_REPLY_H
#define BELFRY_SERVE_ETCD_ABOUT_REPLY_H

#include "follow/about.h"
#include "server/exchange.h"

/* Answers at once. */
void about_reply(struct exchange *x, const struct exchange_head *head, const struct about *about);

#endif
