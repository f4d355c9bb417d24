/* src/server/inbound_client.h
 *
 * inbound_client: whose connection it is. It begins with the address that the connection came from; a balancer may name
 * another, and a certificate a user. What the connection holds counts to whom it names last (shares.h).
 *
 * Thread: owner.
 * Memory: the user's name, which lives as long as the connection's exchanges.
 */
#ifndef BELFRY_SERVER_INBOUND_CLIENT_H
#define BELFRY_SERVER_INBOUND_CLIENT_H

#include "base/log.h"
#include "server/exchange.h"

struct inbound_client {
    struct exchange_conn info;
    char *user; /* info's; owned */
};

/* Gives the connection its id, and counts it to its address. Errors: BELFRY_ERR_NOMEM, after which only
 * inbound_client_fini() may follow. */
BELFRY_NODISCARD enum belfry_err inbound_client_init(struct inbound_client *client, struct shares *shares,
                                                     const struct client_address *address);
void inbound_client_fini(struct inbound_client *client); /* all that it held was given back */

/* The balancer says who the client is. Errors: as shares_move(). */
BELFRY_NODISCARD enum belfry_err inbound_client_set_address(struct inbound_client *client,
                                                            const struct client_address *address);

/* The certificate names this user. `class`: is it a tier below? Errors: BELFRY_ERR_NOMEM, and as shares_move(). */
BELFRY_NODISCARD enum belfry_err inbound_client_set_user(struct inbound_client *client, enum shares_class class,
                                                         const char *user);

void inbound_client_log(const struct inbound_client *client, const struct belfry_log *log, enum belfry_log_level level,
                        const char *event, const char *why);

#endif
