/* src/serve/etcd/about_reply.h
 *
 * about_reply: belfry.Tier/About: what a tier knows about itself and the tiers above it (follow/about.h). etcd does not
 * have the method, so the answer also tells a client that its upstream is a tier (client/stream.c). The request is not
 * read.
 *
 * Thread: owner (the worker's).
 */
#ifndef BELFRY_SERVE_ETCD_ABOUT_REPLY_H
#define BELFRY_SERVE_ETCD_ABOUT_REPLY_H

#include "follow/about.h"
#include "server/exchange.h"

/* Answers immediately. */
void about_reply(struct exchange *x, const struct exchange_head *head, const struct about *about);

#endif
