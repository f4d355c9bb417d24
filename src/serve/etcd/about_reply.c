/* src/serve/etcd/about_reply.c */
#include "serve/etcd/about_reply.h"

#include "server/grpc_answer.h"

/* The request is answered before it was received: its body is ignored. */
static void drop_body(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    (void)x, (void)bytes, (void)user;
}

static void drop_event(struct exchange *x, void *user)
{
    (void)x, (void)user;
}

static const struct exchange_events events = {drop_body, drop_event, drop_event, drop_event};

void about_reply(struct exchange *x, const struct exchange_head *head, const struct about *about)
{
    uint8_t message[ABOUT_BYTES];
    size_t len = about_write(about, message);
    exchange_handle(x, &events, NULL);
    grpc_reply(x, exchange_field(head, "content-type"), belfry_bytes_of(message, len));
}
