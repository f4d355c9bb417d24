/* src/daemon/advertise.c */
#include "daemon/advertise.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "net/tls.h"

static bool is_every_address(const struct belfry_endpoint *endpoint)
{
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, endpoint->host, &four) == 1)
        return four.s_addr == htonl(INADDR_ANY);
    return inet_pton(AF_INET6, endpoint->host, &six) == 1 && memcmp(&six, &in6addr_any, sizeof(six)) == 0;
}

/* The only listener for gRPC, among those on loopback or among the others; *n is how many there are. */
static const struct config_listen *only_one(const struct config *config, bool loopback, size_t *n)
{
    const struct config_listen *found = NULL;
    *n = 0;
    for (size_t i = 0; i < config->n_listen; i++) {
        const struct config_listen *listen = &config->listen[i];
        if ((listen->policy.dialects & DIALECT_GRPC) == 0 || listen->endpoint.is_unix ||
            belfry_endpoint_is_loopback(&listen->endpoint) != loopback)
            continue;
        found = listen;
        ++*n;
    }
    return *n == 1 ? found : NULL;
}

static bool serves_grpc(const struct config *config)
{
    for (size_t i = 0; i < config->n_listen; i++)
        if ((config->listen[i].policy.dialects & DIALECT_GRPC) != 0)
            return true;
    return false;
}

/* True: clients that were given its URL reach it. */
static bool is_good(const struct config_listen *listen, char *why, size_t why_len)
{
    const struct belfry_endpoint *endpoint = &listen->endpoint;
    if (is_every_address(endpoint))
        snprintf(why, why_len, "%.160s is every address of this machine", endpoint->url);
    else if (endpoint->port == 0)
        snprintf(why, why_len, "the port of %.160s is not known before it listens", endpoint->url);
    else if (endpoint->tls && !belfry_tls_cert_is_for(listen->cert, endpoint->host))
        snprintf(why, why_len, "the certificate of %.160s is not for that address", endpoint->url);
    else
        return true;
    return false;
}

const char *advertise_choose(const struct config *config, enum advertise_sockets sockets, char *why, size_t why_len)
{
    size_t n_reachable, n_loopback;
    if (config->advertise != NULL)
        return config->advertise;
    if (sockets == ADVERTISE_HANDED_OVER) {
        snprintf(why, why_len, "a service manager has opened the sockets");
        return NULL;
    }
    if (!serves_grpc(config)) {
        why[0] = '\0'; /* no client can ask */
        return NULL;
    }
    const struct config_listen *listen = only_one(config, false, &n_reachable);
    if (n_reachable == 0)
        listen = only_one(config, true, &n_loopback);
    if (listen == NULL && n_reachable == 0 && n_loopback == 0)
        snprintf(why, why_len, "it listens on unix sockets only");
    else if (listen == NULL)
        snprintf(why, why_len, "it listens on %zu addresses", n_reachable != 0 ? n_reachable : n_loopback);
    return listen != NULL && is_good(listen, why, why_len) ? listen->endpoint.url : NULL;
}
