/* src/server/inbound_client.c */
#include "server/inbound_client.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void client_take_address(struct inbound_client *client, const struct client_address *address,
                                char name[CLIENT_ADDRESS_TEXT])
{
    client->info.address = *address;
    client_address_text(address, client->info.peer);
    client_address_name(address, name);
}

enum belfry_err inbound_client_init(struct inbound_client *client, struct shares *shares,
                                    const struct client_address *address)
{
    static atomic_uint_fast64_t next_id = 1;
    char name[CLIENT_ADDRESS_TEXT];
    *client = (struct inbound_client){.info.id = atomic_fetch_add_explicit(&next_id, 1, memory_order_relaxed)};
    client_take_address(client, address, name);
    return shares_join(shares, &client->info.share, SHARES_CLIENT, name);
}

void inbound_client_fini(struct inbound_client *client)
{
    shares_leave(&client->info.share);
    free(client->user);
}

enum belfry_err inbound_client_set_address(struct inbound_client *client, const struct client_address *address)
{
    char name[CLIENT_ADDRESS_TEXT];
    client_take_address(client, address, name);
    return shares_move(&client->info.share, SHARES_CLIENT, name);
}

/* Exchanges outlive the TLS connection for a moment, so the name is copied. */
enum belfry_err inbound_client_set_user(struct inbound_client *client, enum shares_class class, const char *user)
{
    client->info.user = client->user = strdup(user);
    if (client->user == NULL)
        return BELFRY_ERR_NOMEM;
    char name[SHARES_NAME_BYTES];
    snprintf(name, sizeof(name), "%s \"%s\"", class == SHARES_BELOW ? "tier" : "user", user);
    return shares_move(&client->info.share, class, name);
}

void inbound_client_log(const struct inbound_client *client, const struct belfry_log *log, enum belfry_log_level level,
                        const char *event, const char *why)
{
    belfry_logf(log, level, event, "peer=%s id=%llu why=\"%s\"", client->info.peer, (unsigned long long)client->info.id,
                why);
}
