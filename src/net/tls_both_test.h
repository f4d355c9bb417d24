/* src/net/tls_both_test.h: both ends of a TLS connection, in memory, for unit suites. Include after cmocka.h. */
#ifndef BELFRY_NET_TLS_BOTH_TEST_H
#define BELFRY_NET_TLS_BOTH_TEST_H

#include <string.h>

#include "net/tls_conn.h"

struct both {
    struct belfry_tls_conn *client, *server;
};

static inline void move_bytes(struct belfry_tls_conn *from, struct belfry_tls_conn *to, char *wire, size_t cap)
{
    struct belfry_bytes output = belfry_tls_conn_output(from);
    assert_true(output.len <= cap);
    if (output.len > 0)
        memcpy(wire, output.data, output.len);
    belfry_tls_conn_sent(from, output.len);
    belfry_tls_conn_feed(to, belfry_bytes_of(wire, output.len));
}

/* Both ends in turn until both are done or one cannot go on. */
static inline enum belfry_err shake_hands(struct both *both)
{
    static _Thread_local char to_server[65536], to_client[65536];
    enum belfry_err client = BELFRY_ERR_AGAIN, peer = BELFRY_ERR_AGAIN;
    for (int turns = 0; turns < 10 && (client == BELFRY_ERR_AGAIN || peer == BELFRY_ERR_AGAIN); turns++) {
        if (client == BELFRY_ERR_AGAIN)
            client = belfry_tls_conn_handshake(both->client);
        move_bytes(both->client, both->server, to_server, sizeof(to_server));
        if (peer == BELFRY_ERR_AGAIN)
            peer = belfry_tls_conn_handshake(both->server);
        move_bytes(both->server, both->client, to_client, sizeof(to_client));
    }
    return peer != BELFRY_OK && peer != BELFRY_ERR_AGAIN ? peer : client; /* a client waits for a server that failed */
}

static inline enum belfry_err connect_to(struct belfry_tls *to, struct belfry_tls *tls, struct both *both)
{
    *both = (struct both){NULL, NULL};
    enum belfry_err err = belfry_tls_conn_create(tls, "etcd.test", &both->client);
    if (err == BELFRY_OK)
        err = belfry_tls_conn_accept(to, &both->server);
    return err == BELFRY_OK ? shake_hands(both) : err;
}

static inline void both_end(struct both *both)
{
    belfry_tls_conn_destroy(both->client);
    belfry_tls_conn_destroy(both->server);
}

#endif
