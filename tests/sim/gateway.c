/* tests/sim/gateway.c */
#include "sim/gateway.h"

#include <stdlib.h>

#include "core/response.h"
#include "serve/json/json_read.h"
#include "sim/verdict.h"
#include "wire/rpc.pb-c.h"

void gateway_init(struct gateway *gateway)
{
    *gateway = (struct gateway){.head_len = 0};
    json_pour_init(&gateway->pour);
    belfry_buf_init(&gateway->line);
}

void gateway_fini(struct gateway *gateway)
{
    json_pour_fini(&gateway->pour);
    belfry_buf_fini(&gateway->line);
}

static void require(enum belfry_err err)
{
    if (err != BELFRY_OK)
        abort();
}

/* A client reads the line. */
static void read_line(struct gateway *gateway, struct belfry_buf *out)
{
    uint8_t prefix[RESPONSE_PREFIX];
    struct belfry_buf message;
    char why[JSON_READ_WHY];
    belfry_buf_init(&message);
    if (json_read(&etcdserverpb__watch_response__descriptor, belfry_buf_bytes(&gateway->line), &message, why) !=
        BELFRY_OK) {
        verdict_fail("a line of the gateway cannot be read: %s", why);
    } else {
        response_prefix(prefix, (uint32_t)belfry_buf_len(&message));
        require(belfry_buf_append(out, prefix, sizeof(prefix)));
        require(belfry_buf_append(out, message.data + message.start, belfry_buf_len(&message)));
    }
    belfry_buf_fini(&message);
    belfry_buf_clear(&gateway->line);
}

/* The prefix is whole. */
static void begin_message(struct gateway *gateway)
{
    const uint8_t *head = gateway->head;
    uint64_t len = (uint64_t)head[1] << 24 | (uint64_t)head[2] << 16 | (uint64_t)head[3] << 8 | head[4];
    require(json_pour_begin(&gateway->pour, &etcdserverpb__watch_response__descriptor, len, &gateway->line));
}

void gateway_pass(struct gateway *gateway, struct belfry_bytes bytes, struct belfry_buf *out)
{
    while (bytes.len > 0) {
        size_t n = 1;
        if (gateway->head_len < sizeof(gateway->head)) {
            gateway->head[gateway->head_len++] = (uint8_t)bytes.data[0];
            if (gateway->head_len == sizeof(gateway->head))
                begin_message(gateway);
        } else {
            uint64_t left = json_pour_left(&gateway->pour);
            n = bytes.len < left ? bytes.len : (size_t)left;
            if (json_pour_pass(&gateway->pour, belfry_bytes_of(bytes.data, n), &gateway->line) != BELFRY_OK) {
                verdict_fail("the gateway cannot translate a response");
                return;
            }
        }
        bytes = belfry_bytes_of(bytes.data + n, bytes.len - n);
        if (gateway->head_len == sizeof(gateway->head) && json_pour_is_done(&gateway->pour)) {
            gateway->head_len = 0;
            read_line(gateway, out);
        }
    }
}
