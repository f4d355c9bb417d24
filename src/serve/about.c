/* src/serve/about.c */
#include "serve/about.h"

#include "serve/grpc_answer.h"

#define TEXT_MAX 127 /* so that a length is one byte */

static size_t put_text(uint8_t *to, uint8_t field, const char *text)
{
    size_t len = strnlen(text, TEXT_MAX);
    to[0] = (uint8_t)(field << 3 | 2);
    to[1] = (uint8_t)len;
    memcpy(to + 2, text, len);
    return len + 2;
}

/* The request is answered before it has come; whatever of it still does is nobody's. */
static void drop_body(struct exchange *x, struct belfry_bytes bytes, void *user)
{
    (void)x, (void)bytes, (void)user;
}

static void drop_event(struct exchange *x, void *user)
{
    (void)x, (void)user;
}

static const struct exchange_events events = {drop_body, drop_event, drop_event, drop_event};

void about_begin(struct exchange *x, const struct exchange_head *head, const char *name)
{
    uint8_t message[2 * (TEXT_MAX + 2)];
    size_t len = put_text(message, 1, name);
    len += put_text(message + len, 2, "belfryd/" BELFRY_VERSION);
    exchange_handle(x, &events, NULL);
    grpc_reply(x, exchange_field(head, "content-type"), belfry_bytes_of(message, len));
}
